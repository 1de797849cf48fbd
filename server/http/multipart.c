#include "server/http/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_HEAD = 8192, MAX_PARTS = 16 };

static int refuse(struct tr_err *err, const char *what)
{
    return tr_err_set(err, TR_EINVAL, NULL, "multipart: %s", what);
}

/* Past blanks. */
static const char *skip(const char *s)
{
    return s + strspn(s, " \t");
}

/* A parameter's value, quoted or not, to ret (cut if longer); NULL: it does not end. */
static const char *take_value(const char *s, char *ret, size_t room)
{
    size_t n = 0;
    bool quoted = *s == '"';
    for (s += quoted; *s && (quoted ? *s != '"' : !strchr("; \t", *s)); s++) {
        if (quoted && *s == '\\' && (s[1] == '"' || s[1] == '\\'))
            s++;
        if (n + 1 < room)
            ret[n++] = *s;
    }
    ret[n] = '\0';
    if (quoted && *s != '"')
        return NULL;
    return s + quoted;
}

/* The parameter of that name in "; a=b; c=d"; false: it is not there. */
static bool parameter(const char *s, const char *name, char *ret, size_t room)
{
    char value[512];
    size_t n = strlen(name);
    for (s = skip(s); s && *s == ';'; s = s ? skip(s) : NULL) {
        s = skip(s + 1);
        size_t k = strcspn(s, "=; \t");
        if (s[k] != '=')
            return false;
        bool found = k == n && strncasecmp(s, name, n) == 0;
        s = take_value(s + k + 1, value, sizeof value);
        if (found && s)
            snprintf(ret, room, "%.*s", (int)room - 1, value);
        if (found)
            return s != NULL;
    }
    return false;
}

int srv_multipart_init(struct srv_multipart *m, const char *content_type, struct tr_err *err)
{
    static const char type[] = "multipart/form-data";
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "'()+_,-./:=? ";
    char boundary[SRV_BOUNDARY + 2];
    *m = (struct srv_multipart){0};
    if (!content_type || strncasecmp(content_type, type, sizeof type - 1) != 0)
        return tr_err_set(err, TR_EINVAL, NULL, "send Content-Type: %s", type);
    if (!parameter(content_type + sizeof type - 1, "boundary", boundary, sizeof boundary))
        return refuse(err, "the Content-Type has no boundary");
    size_t n = strlen(boundary);
    if (n == 0 || n > SRV_BOUNDARY || strspn(boundary, allowed) != n || boundary[n - 1] == ' ')
        return refuse(err, "the boundary is none");
    m->border_bytes = (size_t)snprintf(m->border, sizeof m->border, "\r\n--%s", boundary);
    return 0;
}

void srv_multipart_done(struct srv_multipart *m)
{
    tr_buf_done(&m->held);
}

/* One line of a part's head, without its end. */
static int take_line(struct srv_part_head *h, const char *line, bool *named, struct tr_err *err)
{
    static const char disposition[] = "content-disposition:",
                      coding[] = "content-transfer-encoding:";
    if (strncasecmp(line, coding, sizeof coding - 1) == 0) {
        const char *how = skip(line + sizeof coding - 1);
        bool plain = strcasecmp(how, "binary") == 0 || strcasecmp(how, "8bit") == 0 ||
                     strcasecmp(how, "7bit") == 0;
        return plain ? 0 : refuse(err, "a part is encoded");
    }
    if (strncasecmp(line, disposition, sizeof disposition - 1) != 0)
        return strchr(line, ':') ? 0 : refuse(err, "a line of a part's head has no colon");
    const char *rest = skip(line + sizeof disposition - 1);
    static const char kind[] = "form-data";
    if (*named || strncasecmp(rest, kind, sizeof kind - 1) != 0 ||
        !parameter(rest + sizeof kind - 1, "name", h->name, sizeof h->name))
        return refuse(err, "a part is not form-data with one name");
    h->has_file = parameter(rest + sizeof kind - 1, "filename", h->file, sizeof h->file);
    *named = true;
    return 0;
}

/* head: whole lines, NUL-terminated in place. */
static int take_head(struct srv_multipart *m, char *head, size_t n, struct tr_err *err)
{
    struct srv_part_head h = {0};
    bool named = false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)head[i] < ' ' && head[i] != '\t' &&
            !(head[i] == '\r' && head[i + 1] == '\n') &&
            !(head[i] == '\n' && i > 0 && head[i - 1] == '\r'))
            return refuse(err, "a control character in a part's head");
    for (char *line = head, *end = head + n; line < end;) {
        char *stop = strstr(line, "\r\n");
        *stop = '\0';
        int r = take_line(&h, line, &named, err);
        if (r < 0)
            return r;
        line = stop + 2;
    }
    if (!named)
        return refuse(err, "a part has no name");
    if (++m->n_parts > MAX_PARTS)
        return refuse(err, "too many parts");
    return m->part(m->arg, &h, err);
}

/* A step on what is held: bytes that were used; 0 = more is needed; negative: an error. */
static long step(struct srv_multipart *m, struct tr_err *err)
{
    char *s = m->held.data;
    size_t n = m->held.len;
    int r = 0;
    switch (m->state) {
    case SRV_MP_BEGIN: {
        size_t want = m->border_bytes - 2;
        if (memcmp(s, m->border + 2, TR_MIN(n, want)) != 0)
            return refuse(err, "the body does not begin with the boundary");
        if (n < want)
            return 0;
        m->state = SRV_MP_BORDER;
        return (long)want;
    }
    case SRV_MP_BORDER:
        if (n < 2)
            return 0;
        if (memcmp(s, "\r\n", 2) != 0 && memcmp(s, "--", 2) != 0)
            return refuse(err, "a boundary goes on where it should end");
        m->state = s[0] == '-' ? SRV_MP_END : SRV_MP_HEAD;
        return 2;
    case SRV_MP_HEAD: {
        const char *end = memmem(s, n, "\r\n\r\n", 4);
        if (!end && n <= MAX_HEAD)
            return 0;
        if (!end || end - s > MAX_HEAD)
            return refuse(err, "the head of a part is too long");
        r = take_head(m, s, (size_t)(end - s) + 2, err);
        m->state = SRV_MP_DATA;
        return r < 0 ? r : end - s + 4;
    }
    case SRV_MP_DATA: {
        const char *end = memmem(s, n, m->border, m->border_bytes);
        size_t data = end                    ? (size_t)(end - s)
                      : n >= m->border_bytes ? n - (m->border_bytes - 1)
                                             : 0;
        if (data > 0)
            r = m->data(m->arg, s, data, err);
        if (r < 0 || !end)
            return r < 0 ? r : (long)data;
        m->state = SRV_MP_BORDER;
        return (long)(data + m->border_bytes);
    }
    case SRV_MP_END:
    default:
        return n <= 2 && memcmp(s, "\r\n", n) == 0 ? 0
                                                   : refuse(err, "bytes behind the last boundary");
    }
}

int srv_multipart_take(struct srv_multipart *m, const char *bytes, size_t n, struct tr_err *err)
{
    tr_buf_add(&m->held, bytes, n);
    if (m->held.oom)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    size_t used = 0;
    for (;;) {
        struct tr_buf all = m->held;
        m->held.data += used;
        m->held.len -= used;
        long k = m->held.len > 0 ? step(m, err) : 0;
        m->held = all;
        if (k < 0)
            return (int)k;
        if (k == 0)
            break;
        used += (size_t)k;
    }
    tr_buf_drop(&m->held, used);
    return 0;
}

int srv_multipart_end(const struct srv_multipart *m, struct tr_err *err)
{
    return m->state == SRV_MP_END ? 0 : refuse(err, "it ends before its last boundary");
}
