#include "server/http/peek.h"

#include <string.h>
#include <strings.h>

#include "server/http/head.h"

/* Within libmicrohttpd's memory for a connection; no client has so many. */
enum { MAX_ARGUMENTS = 512, MAX_COOKIES = 512, MAX_LINES = 256, MAX_EMPTY = 2 };

struct peek {
    enum srv_problem why;
    const char *text;
};

static struct peek fault(enum srv_problem why, const char *text)
{
    return (struct peek){why, text};
}

static size_t count(const char *s, size_t n, char c)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += s[i] == c;
    return k;
}

/* The target of a request line whose method has n bytes, NULL if there is no such line. */
static const char *target_of(const char *line, size_t n, size_t *ret_n)
{
    const char *blank = memchr(line, ' ', n);
    if (!blank || blank == line)
        return NULL;
    const char *end = memchr(blank + 1, ' ', n - (size_t)(blank + 1 - line));
    *ret_n = (size_t)((end ? end : line + n) - (blank + 1));
    return blank + 1;
}

static bool is_target(const char *s, size_t n)
{
    return n > 0 && (s[0] == '/' || s[0] == '*' || (n > 4 && strncasecmp(s, "http", 4) == 0));
}

/* line: without its end. */
static struct peek line_fault(const char *line, size_t n)
{
    size_t k;
    const char *target = target_of(line, n, &k);
    if (target && k > SRV_HEAD_MAX)
        return fault(SRV_PROBLEM_URI, "the target is too long");
    if (target && count(target, k, '&') > MAX_ARGUMENTS)
        return fault(SRV_PROBLEM_URI, "the target has too many arguments");
    const char *version = target ? target + k + 1 : NULL;
    size_t left = target ? n - TR_MIN(n, (size_t)(version - line)) : 0;
    bool http = left == 8 && memcmp(version, "HTTP/", 5) == 0 && version[6] == '.';
    if (http && version[5] >= '0' && version[5] <= '9' && version[5] != '1')
        return fault(SRV_PROBLEM_VERSION, "this is HTTP/1.1");
    if (!http || version[5] != '1')
        return fault(SRV_PROBLEM_REQUEST, "the request line is no method, target and HTTP/1.1");
    return fault(SRV_PROBLEM_REQUEST, NULL);
}

static bool is_named(const char *line, const char *colon, const char *name)
{
    size_t n = strlen(name);
    return (size_t)(colon - line) == n && strncasecmp(line, name, n) == 0;
}

static struct peek length_fault(const char *value, size_t n)
{
    while (n > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        n--;
    }
    for (size_t i = 0; i < n; i++)
        if (value[i] < '0' || value[i] > '9')
            return fault(SRV_PROBLEM_REQUEST, "Content-Length is not a number");
    if (n == 0)
        return fault(SRV_PROBLEM_REQUEST, "Content-Length is not a number");
    if (n > 18)
        return fault(SRV_PROBLEM_TOO_LARGE, "the body is too large (max_body)");
    return fault(SRV_PROBLEM_REQUEST, NULL);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* The size that a chunk's line says; *ret_n: bytes of the line, 0 if it goes on. */
static struct peek size_fault(const char *s, size_t n, size_t *ret, size_t *ret_n)
{
    const char *end = memchr(s, '\n', n);
    size_t line = end ? (size_t)(end - s) : n, digits = 0;
    *ret = 0;
    while (digits < line && is_hex(s[digits])) {
        if (*ret >> (8 * sizeof *ret - 4))
            return fault(SRV_PROBLEM_TOO_LARGE, "the body is too large (max_body)");
        char c = s[digits++];
        *ret = *ret << 4 | (size_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    bool more = digits < line && s[digits] != ';' && s[digits] != '\r';
    *ret_n = end ? line + 1 : 0;
    if (more || (digits == 0 && line > 0) || (digits == 0 && end))
        return fault(SRV_PROBLEM_REQUEST, "the size of a chunk is no hexadecimal number");
    return fault(SRV_PROBLEM_REQUEST, NULL);
}

/* s: a chunked body, as far as it goes. */
static struct peek chunks_fault(const char *s, size_t n)
{
    while (n > 0) {
        size_t size, line;
        struct peek p = size_fault(s, n, &size, &line);
        if (p.text || line == 0 || size == 0 || size >= n - line)
            return p;
        s += line + size;
        n -= line + size;
        size_t end = s[0] == '\r' ? 2 : 1;
        if (n < end)
            break;
        if (s[end - 1] != '\n')
            return fault(SRV_PROBLEM_REQUEST, "a chunk does not end where its size says");
        s += end;
        n -= end;
    }
    return fault(SRV_PROBLEM_REQUEST, NULL);
}

static bool is_chunked(const char *value, size_t n)
{
    while (n > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        n--;
    }
    return n == 7 && strncasecmp(value, "chunked", n) == 0;
}

/* s: whole lines behind the request line. */
static struct peek fields_fault(const char *s, size_t n, bool *ret_chunked)
{
    size_t lines = 0, cookies = 0;
    for (const char *end; n > 0 && (end = memchr(s, '\n', n)); lines++) {
        size_t k = (size_t)(end - s), line = k > 0 && s[k - 1] == '\r' ? k - 1 : k;
        const char *colon = memchr(s, ':', line);
        if (line > 0 && !colon && s[0] != ' ' && s[0] != '\t')
            return fault(SRV_PROBLEM_REQUEST, "a line of the head has no colon");
        if (colon && is_named(s, colon, "content-length")) {
            struct peek p = length_fault(colon + 1, line - (size_t)(colon + 1 - s));
            if (p.text)
                return p;
        }
        if (colon && is_named(s, colon, "transfer-encoding"))
            *ret_chunked = is_chunked(colon + 1, line - (size_t)(colon + 1 - s));
        if (colon && is_named(s, colon, "cookie"))
            cookies += count(colon, line - (size_t)(colon - s), ';');
        n -= k + 1;
        s = end + 1;
    }
    if (lines > MAX_LINES || cookies > MAX_COOKIES)
        return fault(SRV_PROBLEM_HEADERS, "the head has too many lines or cookies");
    return fault(SRV_PROBLEM_REQUEST, NULL);
}

static struct peek judge(const char *s, size_t n, bool first)
{
    struct peek nothing = {SRV_PROBLEM_REQUEST, NULL};
    for (int i = 0; i < MAX_EMPTY && n >= 2 && memcmp(s, "\r\n", 2) == 0; i++) {
        s += 2;
        n -= 2;
    }
    const char *end = memchr(s, '\n', n);
    size_t line = end ? (size_t)(end - s) : n, k = 0;
    const char *target = target_of(s, line, &k);
    if (!first && !(target && is_target(target, k)))
        return nothing; /* the rest of what libmicrohttpd has begun to read */
    if (!end)
        return n > SRV_HEAD_MAX ? fault(SRV_PROBLEM_URI, "the target is too long") : nothing;
    struct peek p = line_fault(s, line > 0 && s[line - 1] == '\r' ? line - 1 : line);
    if (p.text || !s[0])
        return p;
    s = end + 1;
    n -= line + 1;
    const char *last = memmem(s, n, "\r\n\r\n", 4);
    size_t fields = last ? (size_t)(last - s) + 2 : n;
    if (fields > SRV_HEAD_MAX)
        return fault(SRV_PROBLEM_HEADERS, "the head is too large");
    if (!last)
        return nothing;
    bool chunked = false;
    p = fields_fault(s, fields, &chunked);
    return p.text || !chunked ? p : chunks_fault(last + 4, n - (size_t)(last + 4 - s));
}

/* Two line breaks of whatever kind behind something else. */
bool srv_peek_whole(const char *s, size_t n)
{
    bool begun = false, empty = true;
    for (size_t i = 0; i < n && i < SRV_HEAD_MAX; i++) {
        if (s[i] == '\n' && empty && begun)
            return true;
        empty = s[i] == '\n' || (empty && s[i] == '\r');
        begun |= s[i] != '\n' && s[i] != '\r';
    }
    return n >= SRV_HEAD_MAX;
}

const char *srv_peek_fault(const char *bytes, size_t n, bool first, enum srv_problem *ret)
{
    struct peek p = judge(bytes, n, first);
    *ret = p.why;
    return p.text;
}
