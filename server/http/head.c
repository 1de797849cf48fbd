#include "server/http/head.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

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

/*
 * libmicrohttpd 0.9.75 ends a line by writing NUL over CR LF, and takes a line that begins with NUL
 * or a colon for the empty one, LF alone for CR LF, and a line that begins with a blank for more of
 * the one before. Its strings are pieces of one buffer: where every line is as it should be, each
 * begins two bytes behind the end of the one before. Later versions refuse such lines themselves.
 */
#if MHD_VERSION < 0x00097707
enum { LINE_END = 2, PAGE_BYTES = 4096 };

/* Where the first line ends, NULL: not as it should. The buffer begins with a page, and with a
 * request but for an empty line or two. */
static const char *line_end(const struct srv_line *line)
{
    const char *version =
        line->method + strlen(line->method) + 1 + strlen(line->uri) + 1; /* one blank between */
    bool first = (uintptr_t)line->method % PAGE_BYTES <= 2 * LINE_END;
    return first && line->version == version ? version + strlen(version) : NULL;
}

/* The line of this header begins where the one before has ended. */
static bool follows(struct srv_head *h, const char *key, const char *value, size_t value_bytes)
{
    bool good = h->end && key == h->end + LINE_END;
    h->end = value + value_bytes;
    return good;
}

static bool is_whole(const struct srv_head *h, struct MHD_Connection *mhd,
                     const struct srv_line *line)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && h->end && line->method + info->header_size == h->end + 2 * LINE_END;
}
#else
static const char *line_end(const struct srv_line *line)
{
    return line->version;
}

static bool follows(struct srv_head *h, const char *key, const char *value, size_t value_bytes)
{
    (void)h, (void)key, (void)value, (void)value_bytes;
    return true;
}

static bool is_whole(const struct srv_head *h, struct MHD_Connection *mhd,
                     const struct srv_line *line)
{
    (void)h, (void)mhd, (void)line;
    return true;
}
#endif

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
        {"access-control-request-private-network", &h->private_network, NULL},
        {"sec-fetch-site", &h->fetch_site, NULL},
        {"content-type", &h->content_type, NULL},
        {"content-encoding", &h->content_encoding, NULL},
        {"expect", &h->expect, NULL},
        {"x-request-id", &h->request_id, NULL},
        {"traceparent", &h->traceparent, NULL},
        {"content-length", &h->content_length, &h->n_content_length},
        {"transfer-encoding", &h->transfer_encoding, &h->n_transfer_encoding},
        {"host", &h->host, &h->n_host},
        {"if-none-match", &h->if_none_match, NULL},
    };
    h->bytes += key_bytes + value_bytes;
    if (!value || !follows(h, key, value, value_bytes) || !is_token(key, key_bytes) ||
        has_control(value, value_bytes)) {
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

static enum MHD_Result on_trailer(void *cls, enum MHD_ValueKind kind, const char *key,
                                  size_t key_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    bool *broken = cls;
    if (!value || !is_token(key, key_bytes) || has_control(value, value_bytes))
        *broken = true;
    return MHD_YES;
}

const char *srv_head_trailer_fault(struct MHD_Connection *mhd)
{
    bool broken = false;
    MHD_get_connection_values_n(mhd, MHD_FOOTER_KIND, on_trailer, &broken);
    return broken ? "a trailer has an invalid name or a control character" : NULL;
}

static const char *body_fault(const struct srv_head *h, const char *version)
{
    if (h->n_content_length > 1)
        return "more than one Content-Length header";
    if (h->n_content_length && h->n_transfer_encoding)
        return "both Content-Length and Transfer-Encoding";
    if (h->n_content_length && (!h->content_length[0] || strspn(h->content_length, "0123456789") !=
                                                             strlen(h->content_length)))
        return "Content-Length is not a number";
    if (h->n_transfer_encoding > 1 ||
        (h->n_transfer_encoding && strcasecmp(h->transfer_encoding, "chunked") != 0))
        return "the only Transfer-Encoding that is read is chunked";
    if (h->n_transfer_encoding && strcmp(version, "HTTP/1.1") != 0)
        return "Transfer-Encoding needs HTTP/1.1";
    return NULL;
}

static const char *fault_of(const struct srv_head *h, const struct srv_line *line)
{
    if (h->broken)
        return "a line of the head is folded, does not end in CR LF, or has an invalid name or a "
               "control character";
    if (h->n_host > 1)
        return "more than one Host header";
    if (h->n_host == 0 && strcmp(line->version, "HTTP/1.0") != 0)
        return "no Host header";
    if (strchr(line->uri, ' ') || strstr(line->uri, "%00"))
        return "a blank or a NUL in the path";
    return body_fault(h, line->version);
}

static uint64_t length_of(const struct srv_head *head)
{
    uint64_t n = 0;
    for (const char *p = head->content_length; p && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return UINT64_MAX;
    return n;
}

static const char *key_of(const struct srv_head *head)
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

/* n hexadecimal digits in lower case, not all of them 0. */
static bool is_trace_id(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n && strspn(s, "0") < n;
}

/* traceparent of W3C Trace Context, version 00 and its successors. */
static void take_trace(struct srv_head *h)
{
    enum { TRACE = 3, PARENT = 36, FLAGS = 53, BYTES = 55 };
    const char *t = h->traceparent;
    if (!t || strlen(t) < BYTES || strspn(t, "0123456789abcdef") != 2 || strncmp(t, "ff", 2) == 0)
        return;
    bool first = strncmp(t, "00", 2) == 0;
    if (t[TRACE - 1] != '-' || t[PARENT - 1] != '-' || t[FLAGS - 1] != '-' ||
        !is_trace_id(t + TRACE, 32) || !is_trace_id(t + PARENT, 16) ||
        strspn(t + FLAGS, "0123456789abcdef") != 2 ||
        (t[BYTES] != '\0' && (first || t[BYTES] != '-')))
        return;
    memcpy(h->trace, t + TRACE, 32);
    memcpy(h->span, t + PARENT, 16);
    h->sampled = strchr("13579bdf", t[FLAGS + 1]) != NULL;
}

void srv_head_read(struct srv_head *head, struct MHD_Connection *mhd, const struct srv_line *line)
{
    *head = (struct srv_head){.end = line_end(line)};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_header, head);
    head->broken = head->broken || !is_whole(head, mhd, line);
    head->end = NULL;
    head->fault = fault_of(head, line);
    head->key = key_of(head);
    head->length = length_of(head);
    take_trace(head);
    if (!is_usable_id(head->request_id))
        head->request_id = NULL;
}
