/* JSON values of a schema as the one text they are written as, and their equality. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"

void tr__json_spell(struct tr_buf *out, enum tr__spelling spelling, const char *text, size_t n)
{
    static const char short_of[] = "btn\0fr"; /* 8..13 */

    if (spelling == TR__SPELL_RAW) {
        tr_buf_add(out, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            tr_buf_addf(out, "\\%c", c);
        else if (c >= 0x20 && (c != '<' || spelling != TR__SPELL_GUARDED))
            tr_buf_addc(out, (char)c);
        else if (c >= 8 && c <= 13 && short_of[c - 8])
            tr_buf_addf(out, "\\%c", short_of[c - 8]);
        else
            tr_buf_addf(out, "\\u%04x", c);
    }
}

static void add_number(struct tr_buf *out, const struct tr_json *v)
{
    struct tr__decimal d;
    double value = 0;

    if (tr__decimal_of(v, &d)) {
        tr_buf_addf(out, "%s%s%s%s", d.negative ? "-" : "", d.whole, d.frac[0] ? "." : "", d.frac);
        return;
    }
    if (tr_json_as_double(v, -1e308, 1e308, &value, NULL) == 0)
        tr_buf_addf(out, "%.17g", value);
}

static int by_key(const void *a, const void *b)
{
    const struct tr_json *x = a, *y = b;

    return strcmp(x->key, y->key);
}

static void add_object(struct tr_buf *out, enum tr__spelling spelling, const struct tr_json *v,
                       bool sorted)
{
    size_t n = tr_json_size(v), i = 0;
    struct tr_json *members = malloc((n + 1) * sizeof(*members)), one;
    void *iter = NULL;

    if (!members) {
        out->oom = true;
        return;
    }
    while (i < n && tr_json_next(v, &iter, &one))
        members[i++] = one;
    if (sorted)
        qsort(members, i, sizeof(*members), by_key);
    for (size_t k = 0; k < i; k++) {
        tr_buf_adds(out, k > 0 ? ",\"" : "{\"");
        tr__json_spell(out, spelling, members[k].key, members[k].key_bytes);
        tr_buf_adds(out, "\":");
        tr__json_text(out, spelling, &members[k], sorted);
    }
    tr_buf_adds(out, i > 0 ? "}" : "{}");
    free(members);
}

void tr__json_text(struct tr_buf *out, enum tr__spelling spelling, const struct tr_json *v,
                   bool sorted)
{
    const char *text;
    bool value = false;
    size_t n;

    switch (tr_json_type(v)) {
    case TR_JSON_NULL:
        tr_buf_adds(out, "null");
        break;
    case TR_JSON_BOOL:
        tr_buf_adds(out, tr_json_as_bool(v, &value, NULL) == 0 && value ? "true" : "false");
        break;
    case TR_JSON_NUMBER:
        add_number(out, v);
        break;
    case TR_JSON_STRING:
        tr_buf_addc(out, '"');
        if (tr_json_as_string(v, &text, &n, NULL) == 0)
            tr__json_spell(out, spelling, text, n);
        tr_buf_addc(out, '"');
        break;
    case TR_JSON_ARRAY:
        tr_buf_addc(out, '[');
        for (size_t i = 0; i < tr_json_size(v); i++) {
            struct tr_json one = tr_json_at(v, i);
            tr_buf_adds(out, i > 0 ? "," : "");
            tr__json_text(out, spelling, &one, sorted);
        }
        tr_buf_addc(out, ']');
        break;
    case TR_JSON_OBJECT:
        add_object(out, spelling, v, sorted);
        break;
    default:
        break;
    }
}

static bool same_text(const struct tr_json *a, const struct tr_json *b)
{
    struct tr_buf x = {0}, y = {0};
    bool equal;

    tr__json_text(&x, TR__SPELL_JSON, a, true);
    tr__json_text(&y, TR__SPELL_JSON, b, true);
    equal =
        !x.oom && !y.oom && x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
    tr_buf_done(&x);
    tr_buf_done(&y);
    return equal;
}

bool tr__json_equal(const struct tr_json *a, const struct tr_json *b)
{
    const char *x, *y;
    size_t n, m;
    int64_t i, k;

    if (tr_json_type(a) != tr_json_type(b))
        return false;
    switch (tr_json_type(a)) {
    case TR_JSON_NULL:
        return true;
    case TR_JSON_STRING:
        return tr_json_as_string(a, &x, &n, NULL) == 0 && tr_json_as_string(b, &y, &m, NULL) == 0 &&
               n == m && memcmp(x, y, n) == 0;
    case TR_JSON_NUMBER:
        if (tr_json_as_int(a, INT64_MIN, INT64_MAX, &i, NULL) == 0 &&
            tr_json_as_int(b, INT64_MIN, INT64_MAX, &k, NULL) == 0)
            return i == k;
        return same_text(a, b);
    case TR_JSON_ARRAY:
    case TR_JSON_OBJECT:
        return tr_json_size(a) == tr_json_size(b) && same_text(a, b);
    default:
        return same_text(a, b);
    }
}

uint64_t tr__json_hash(const struct tr_json *v)
{
    struct tr_buf text = {0};
    uint64_t h = 0xCBF29CE484222325u;

    tr__json_text(&text, TR__SPELL_JSON, v, true);
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (uint8_t)text.data[i]) * 0x100000001B3u;
    tr_buf_done(&text);
    return h ^ h >> 32;
}
