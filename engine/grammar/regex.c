/*
 * Regular expressions of ECMAScript, as far as they are regular: no look-around, no
 * back-references, no word borders. Groups and lazy quantifiers make no difference to what is
 * matched.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/expr.h"
#include "engine/text/unicode.h"

enum { REPEAT_MAX = 1000000, PATTERN_MAX = 100000 };

struct parser {
    struct tr__exprs *x;
    const char *text, *param;
    size_t n, at;
    int depth;
};

static uint32_t parse_alternatives(struct parser *p);

static uint32_t fail(struct parser *p, int code, const char *what)
{
    return tr__nodes_fail(p->x->b, code, p->param, "pattern: %s at byte %zu", what, p->at);
}

static bool more(const struct parser *p)
{
    return p->at < p->n && p->x->b->r == 0;
}

static bool looking_at(const struct parser *p, const char *s)
{
    size_t n = strlen(s);

    return p->n - p->at >= n && memcmp(p->text + p->at, s, n) == 0;
}

static bool take(struct parser *p, const char *s)
{
    bool there = looking_at(p, s);

    if (there)
        p->at += strlen(s);
    return there;
}

static uint32_t take_char(struct parser *p)
{
    size_t k;
    uint32_t c = tr_utf8_at(p->text + p->at, &k);

    p->at += k;
    return c;
}

/* ---- classes ---- */

static void add_class(struct parser *p, struct tr__set *s, char letter)
{
    static const struct tr__range digits[] = {{'0', '9'}};
    static const struct tr__range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct tr__range spaces[] = {
        {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    static const struct tr__range dots[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    struct tr__nodes *b = p->x->b;
    struct tr__set own = {0};
    const struct tr__range *r = letter == '.'          ? dots
                                : (letter | 32) == 'd' ? digits
                                : (letter | 32) == 'w' ? words
                                                       : spaces;
    size_t n = letter == '.'          ? TR_ARRAY_LEN(dots)
               : (letter | 32) == 'd' ? TR_ARRAY_LEN(digits)
               : (letter | 32) == 'w' ? TR_ARRAY_LEN(words)
                                      : TR_ARRAY_LEN(spaces);

    for (size_t i = 0; i < n; i++)
        tr__set_add(b, &own, r[i].lo, r[i].hi);
    if (letter == '.' || !(letter & 32))
        tr__set_invert(b, &own);
    for (uint32_t i = 0; i < own.n; i++)
        tr__set_add(b, s, own.at[i].lo, own.at[i].hi);
    tr__set_done(&own);
}

/* \p{L}, \P{Letter}, \p{General_Category=L}; behind the letter. */
static void add_property(struct parser *p, struct tr__set *s, bool inverted)
{
    struct tr__set own = {0};
    const char *end;

    if (!take(p, "{") || !(end = memchr(p->text + p->at, '}', p->n - p->at))) {
        fail(p, TR_EINVAL, "\\p needs {...}");
        return;
    }
    if (!take(p, "General_Category="))
        take(p, "gc=");
    if (!tr__set_category(p->x, &own, p->text + p->at, (size_t)(end - p->text) - p->at))
        fail(p, TR_EUNSUPPORTED, "this property of \\p is not supported");
    tr__set_tidy(p->x->b, &own);
    if (inverted)
        tr__set_invert(p->x->b, &own);
    for (uint32_t i = 0; i < own.n; i++)
        tr__set_add(p->x->b, s, own.at[i].lo, own.at[i].hi);
    tr__set_done(&own);
    p->at = (size_t)(end - p->text) + 1;
}

static bool take_hex(struct parser *p, int digits, uint32_t *ret)
{
    uint32_t c = 0;

    for (int i = 0; i < digits; i++) {
        unsigned d = p->at + (size_t)i < p->n ? (uint8_t)p->text[p->at + (size_t)i] : 0;
        if (d >= '0' && d <= '9')
            c = c * 16 + d - '0';
        else if ((d | 32) >= 'a' && (d | 32) <= 'f')
            c = c * 16 + (d | 32) - 'a' + 10;
        else
            return false;
    }
    p->at += (size_t)digits;
    *ret = c;
    return true;
}

/* \u0041, \u{41}, and two surrogates; behind the u. */
static uint32_t unicode_escape(struct parser *p)
{
    uint32_t c = 0, low;
    size_t end;

    if (take(p, "{")) {
        for (end = p->at; end < p->n && p->text[end] != '}'; end++)
            ;
        if (end == p->n || end == p->at || end - p->at > 6 ||
            !take_hex(p, (int)(end - p->at), &c) || !take(p, "}") || c > TR__LAST_CHAR)
            return fail(p, TR_EINVAL, "bad \\u escape");
    } else if (!take_hex(p, 4, &c)) {
        return fail(p, TR_EINVAL, "bad \\u escape");
    }
    end = p->at;
    if (c >= 0xD800 && c < 0xDC00 && take(p, "\\u") && take_hex(p, 4, &low) && low >= 0xDC00 &&
        low < 0xE000)
        return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    p->at = end;
    return c;
}

/* Behind a backslash: a class (added to s, *is_class) or a character (returned). */
static uint32_t parse_escape(struct parser *p, struct tr__set *s, bool *is_class)
{
    static const char from[] = "tnrfv", to[] = "\t\n\r\f\v";
    const char *known;
    uint32_t c;

    *is_class = false;
    if (p->at == p->n)
        return fail(p, TR_EINVAL, "nothing behind \\");
    c = take_char(p);
    if (c < 0x80 && c && strchr("dDwWsS", (int)c)) {
        *is_class = true;
        add_class(p, s, (char)c);
        return 0;
    }
    if (c == 'p' || c == 'P') {
        *is_class = true;
        add_property(p, s, c == 'P');
        return 0;
    }
    if (c < 0x80 && c && (known = strchr(from, (int)c)))
        return (uint8_t)to[known - from];
    if (c == 'x')
        return take_hex(p, 2, &c) ? c : fail(p, TR_EINVAL, "bad \\x escape");
    if (c == 'u')
        return unicode_escape(p);
    if (c == 'c' && p->at < p->n && ((p->text[p->at] | 32) >= 'a' && (p->text[p->at] | 32) <= 'z'))
        return (uint32_t)p->text[p->at++] & 31;
    if (c == '0' && !(p->at < p->n && p->text[p->at] >= '0' && p->text[p->at] <= '9'))
        return 0;
    if ((c >= '0' && c <= '9') || c == 'k')
        return fail(p, TR_EUNSUPPORTED, "back-references are not supported");
    if (c == 'b' || c == 'B')
        return fail(p, TR_EUNSUPPORTED, "\\b and \\B are not supported");
    if (c < 0x80 && ((c | 32) >= 'a' && (c | 32) <= 'z'))
        return fail(p, TR_EUNSUPPORTED, "this escape is not supported");
    return c;
}

/* One member of [...]: true and *ret if it is a character. */
static bool class_member(struct parser *p, struct tr__set *s, uint32_t *ret)
{
    bool is_class = false;

    if (!take(p, "\\")) {
        *ret = take_char(p);
        return true;
    }
    if (take(p, "b")) {
        *ret = 8;
        return true;
    }
    *ret = parse_escape(p, s, &is_class);
    return !is_class;
}

/* Behind [. */
static uint32_t parse_class(struct parser *p)
{
    struct tr__nodes *b = p->x->b;
    struct tr__set s = {0};
    bool inverted = take(p, "^");
    uint32_t lo, hi, e;

    while (more(p) && !looking_at(p, "]")) {
        bool is_char = class_member(p, &s, &lo);
        hi = lo;
        if (is_char && looking_at(p, "-") && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            if (!class_member(p, &s, &hi)) { /* [a-\d]: three members */
                tr__set_add(b, &s, '-', '-');
                hi = lo;
            }
            if (hi < lo)
                fail(p, TR_EINVAL, "range out of order");
        }
        if (is_char)
            tr__set_add(b, &s, lo, hi);
    }
    if (!take(p, "]"))
        fail(p, TR_EINVAL, "[ without ]");
    tr__set_tidy(b, &s);
    if (inverted)
        tr__set_invert(b, &s);
    e = b->r ? 0 : tr__expr_set(p->x, &s);
    tr__set_done(&s);
    return e;
}

/* ---- atoms ---- */

/* Behind (. */
static uint32_t parse_group(struct parser *p)
{
    uint32_t e;

    if (take(p, "?")) {
        const char *end;
        if (looking_at(p, "=") || looking_at(p, "!") || looking_at(p, "<=") || looking_at(p, "<!"))
            return fail(p, TR_EUNSUPPORTED, "look-around is not supported");
        if (take(p, "<") || take(p, "P<")) {
            end = memchr(p->text + p->at, '>', p->n - p->at);
            if (!end)
                return fail(p, TR_EINVAL, "(?< without >");
            p->at = (size_t)(end - p->text) + 1;
        } else if (!take(p, ":")) {
            return fail(p, TR_EUNSUPPORTED, "this kind of group is not supported");
        }
    }
    if (++p->depth > TR__MAX_NESTING)
        return fail(p, TR_EUNSUPPORTED, "groups are nested too deeply");
    e = parse_alternatives(p);
    p->depth--;
    if (!take(p, ")"))
        return fail(p, TR_EINVAL, "( without )");
    return e;
}

static uint32_t parse_atom(struct parser *p)
{
    struct tr__set s = {0};
    bool is_class = false;
    uint32_t c, e;

    if (take(p, "("))
        return parse_group(p);
    if (take(p, "["))
        return parse_class(p);
    if (take(p, "^"))
        return tr__expr_simple(p->x, TR__EXPR_BEGIN);
    if (take(p, "$"))
        return tr__expr_simple(p->x, TR__EXPR_END);
    if (looking_at(p, "*") || looking_at(p, "+") || looking_at(p, "?"))
        return fail(p, TR_EINVAL, "nothing to repeat");
    if (take(p, ".")) {
        is_class = true;
        add_class(p, &s, '.');
        c = 0;
    } else if (take(p, "\\")) {
        c = parse_escape(p, &s, &is_class);
    } else {
        c = take_char(p);
    }
    tr__set_tidy(p->x->b, &s);
    if (!is_class && c >= 0xD800 && c < 0xE000)
        e = tr__expr_simple(p->x, TR__EXPR_NEVER); /* a lone surrogate stands in no text */
    else
        e = p->x->b->r ? 0 : is_class ? tr__expr_set(p->x, &s) : tr__expr_char(p->x, c, c);
    tr__set_done(&s);
    return e;
}

/* ---- quantifiers ---- */

static bool take_number(struct parser *p, uint32_t *ret)
{
    size_t begin = p->at;
    uint32_t n = 0;

    for (; p->at < p->n && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        n = TR_MIN(n * 10 + (uint32_t)(p->text[p->at] - '0'), (uint32_t)REPEAT_MAX + 1);
    *ret = n;
    return p->at > begin;
}

/* {n}, {n,}, {n,m}; anything else behind { is text. */
static bool take_bounds(struct parser *p, uint32_t *min, uint32_t *max)
{
    size_t begin = p->at;

    if (take(p, "{") && take_number(p, min)) {
        *max = *min;
        if (take(p, ",") && !take_number(p, max))
            *max = TR__NO_LIMIT;
        if (take(p, "}"))
            return true;
    }
    p->at = begin;
    return false;
}

static uint32_t parse_repeated(struct parser *p)
{
    uint32_t e = parse_atom(p), min = 0, max = TR__NO_LIMIT;

    if (p->x->b->r)
        return 0;
    if (take(p, "?"))
        max = 1;
    else if (take(p, "+"))
        min = 1;
    else if (!take(p, "*") && !take_bounds(p, &min, &max))
        return e;
    if (min > max)
        return fail(p, TR_EINVAL, "repetition out of order");
    if (min > REPEAT_MAX || (max > REPEAT_MAX && max != TR__NO_LIMIT))
        return fail(p, TR_EUNSUPPORTED, "repetition beyond a million");
    take(p, "?");
    if (looking_at(p, "*") || looking_at(p, "+") || looking_at(p, "?"))
        return fail(p, TR_EINVAL, "nothing to repeat");
    return tr__expr_repeat(p->x, e, min, max);
}

static uint32_t parse_alternatives(struct parser *p)
{
    uint32_t alternatives = 0, members = 0;

    for (;;) {
        while (more(p) && !looking_at(p, "|") && !looking_at(p, ")"))
            tr__expr_append(p->x, &members, parse_repeated(p));
        tr__expr_append(p->x, &alternatives, tr__expr_close(p->x, TR__EXPR_SEQ, members));
        members = 0;
        if (p->x->b->r || !take(p, "|"))
            return tr__expr_close(p->x, TR__EXPR_ALT, alternatives);
    }
}

uint32_t tr__regex_parse(struct tr__exprs *x, const char *text, size_t n, const char *param)
{
    struct parser p = {.x = x, .text = text, .param = param, .n = n};
    uint32_t e;

    if (n > PATTERN_MAX)
        return fail(&p, TR_EUNSUPPORTED, "larger than 100000 bytes, read");
    if (!tr_utf8_valid(text, n))
        return fail(&p, TR_EINVAL, "not UTF-8");
    e = parse_alternatives(&p);
    if (x->b->r == 0 && p.at < n)
        return fail(&p, TR_EINVAL, ") without (");
    return e;
}
