#include "config/json_scan.h"

#include <string.h>

/* Bytes on the heap, with malloc's own: jansson 2.14's structs, and hash tables and arrays as they
 * grow. */
enum {
    OBJECT_BYTES = 224,
    ARRAY_BYTES = 128,
    MEMBER_BYTES = 112, /* of an object: key, links, a share of the buckets */
    STRING_BYTES = 80,
    NUMBER_BYTES = 32,
    SLOT_BYTES = 16, /* of an array */
    WORD_DIGITS = 19 /* of the largest int64 */
};

/* The end of the string that begins at s[i]: behind its closing quote, or n. */
static size_t string_end(const char *s, size_t i, size_t n)
{
    for (i++; i < n && s[i] != '"'; i++)
        i += s[i] == '\\';
    return TR_MIN(i + 1, n);
}

static bool is_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static size_t number_end(const char *s, size_t i, size_t n)
{
    while (i < n && is_number(s[i]))
        i++;
    return i;
}

/* Whether s[0, n) is a JSON integer that int64 does not hold. */
static bool is_big(const char *s, size_t n)
{
    bool negative = n > 0 && s[0] == '-';
    s += negative;
    n -= negative;
    if (n < WORD_DIGITS || s[0] == '0')
        return false;
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return n > WORD_DIGITS ||
           memcmp(s, negative ? "9223372036854775808" : "9223372036854775807", n) > 0;
}

struct tr_json_scan tr_json_scan(const char *s, size_t n, int max_depth)
{
    struct tr_json_scan r = {.too_deep_at = n};
    int depth = 0;
    for (size_t i = 0; i < n;) {
        size_t from = i++;
        char c = s[from];
        if (c == '"') {
            i = string_end(s, from, n);
            r.bytes += STRING_BYTES + (i - from);
        } else if (c == '[' || c == '{') {
            r.bytes += c == '[' ? ARRAY_BYTES : OBJECT_BYTES;
            if (++depth > max_depth) {
                r.too_deep_at = from;
                return r;
            }
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ':') {
            r.bytes += MEMBER_BYTES;
        } else if (c == ',') {
            r.bytes += SLOT_BYTES;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            i = number_end(s, from, n);
            r.bytes += NUMBER_BYTES;
            r.big = r.big || is_big(s + from, i - from);
        }
    }
    return r;
}

/* A number there would be a member's name: an error that has to stay one. */
static bool is_name(const char *s, size_t i, size_t n)
{
    while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r'))
        i++;
    return i < n && s[i] == ':';
}

void tr_json_widen(struct tr_buf *out, const char *s, size_t n, const char *mark)
{
    size_t done = 0; /* everything before is written */
    for (size_t i = 0; i < n;) {
        size_t from = i++;
        if (s[from] == '"') {
            i = string_end(s, from, n);
        } else if (s[from] == '-' || (s[from] >= '0' && s[from] <= '9')) {
            i = number_end(s, from, n);
            if (!is_big(s + from, i - from) || is_name(s, i, n))
                continue;
            tr_buf_add(out, s + done, from - done);
            tr_buf_addf(out, "\"\\u0001%s", mark);
            tr_buf_add(out, s + from, i - from);
            tr_buf_addc(out, '"');
            done = i;
        }
    }
    tr_buf_add(out, s + done, n - done);
}
