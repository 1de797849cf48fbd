#include "server/http/head.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/server.h"

static bool is_token(const char *s, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        bool alnum = (s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z');
        if (!alnum && (!s[i] || !strchr(others, s[i])))
            return false;
    }
    return n > 0;
}

static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return true;
    return false;
}

/* libmicrohttpd ends a line by writing NUL over CR and LF, and takes a NUL that was sent for such
 * an end. So what stands behind the first NUL tells a line that ended in CR LF from one that held a
 * NUL, ended in LF alone, or was folded. */
static bool ended_by_crlf(const char *value, size_t n)
{
    return value[n] == '\0' && value[n + 1] == '\0';
}

/* A repeated header keeps its first value; those that matter for framing are counted. */
static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                 size_t key_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    struct srv_head *h = cls;
    const struct {
        const char *name;
        const char **value;
        int *count;
    } known[] = {
        {"authorization", &h->authorization, NULL},
        {"x-api-key", &h->api_key, NULL},
        {"origin", &h->origin, NULL},
        {"access-control-request-headers", &h->request_headers, NULL},
        {"content-type", &h->content_type, NULL},
        {"expect", &h->expect, NULL},
        {"x-request-id", &h->request_id, NULL},
        {"content-length", &h->content_length, &h->n_content_length},
        {"transfer-encoding", &h->transfer_encoding, &h->n_transfer_encoding},
        {"host", NULL, &h->n_host},
    };
    h->bytes += key_bytes + value_bytes;
    if (!is_token(key, key_bytes) || !value || has_control(value, value_bytes) ||
        !ended_by_crlf(value, value_bytes)) {
        h->broken = true;
        return MHD_YES;
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(known); i++) {
        if (strcasecmp(key, known[i].name) != 0)
            continue;
        if (known[i].value && !*known[i].value)
            *known[i].value = value;
        if (known[i].count)
            ++*known[i].count;
    }
    return MHD_YES;
}

void srv_head_read(struct srv_head *head, struct MHD_Connection *mhd)
{
    *head = (struct srv_head){0};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_header, head);
}

const char *srv_head_fault(const struct srv_head *h, const char *version, const char *uri)
{
    if (h->broken)
        return "a header has an invalid name, a control character, or does not end in CR LF";
    if (h->n_content_length > 1)
        return "more than one Content-Length header";
    if (h->n_content_length && h->n_transfer_encoding)
        return "both Content-Length and Transfer-Encoding";
    if (h->n_content_length && strspn(h->content_length, "0123456789") != strlen(h->content_length))
        return "Content-Length is not a number";
    if (h->n_transfer_encoding > 1 ||
        (h->n_transfer_encoding && strcasecmp(h->transfer_encoding, "chunked") != 0))
        return "the only Transfer-Encoding that is read is chunked";
    if (h->n_transfer_encoding && strcmp(version, "HTTP/1.1") != 0)
        return "Transfer-Encoding needs HTTP/1.1";
    if (h->n_host > 1)
        return "more than one Host header";
    if (strstr(uri, "%00"))
        return "a NUL in the path";
    return NULL;
}

uint64_t srv_head_length(const struct srv_head *head)
{
    uint64_t n = 0;
    for (const char *p = head->content_length; p && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return UINT64_MAX;
    return n;
}

const char *srv_head_key(const struct srv_head *head)
{
    const char *bearer = head->authorization;
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0) {
        bearer += 7;
        bearer += strspn(bearer, " ");
        if (*bearer)
            return bearer;
    }
    return head->api_key && *head->api_key ? head->api_key : NULL;
}

static bool is_usable_id(const char *s)
{
    size_t n = s ? strlen(s) : 0;
    if (n == 0 || n > SRV_ID_BYTES)
        return false;
    for (size_t i = 0; i < n; i++)
        if (s[i] <= 0x20 || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\')
            return false;
    return true;
}

void srv_head_id(const struct srv_head *head, struct srv_req *req)
{
    struct srv *s = req->srv;
    if (is_usable_id(head->request_id))
        memcpy(req->id, head->request_id, strlen(head->request_id) + 1);
    else
        snprintf(req->id, sizeof req->id, "req-%016llx", (unsigned long long)srv_new_id(s));
}
