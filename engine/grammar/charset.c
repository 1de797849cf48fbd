/* Sets of code points, and the bytes that spell them. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/expr.h"
#include "engine/grammar/vocab.h"
#include "engine/text/unicode.h"

/* ---- sets ---- */

void tr__set_done(struct tr__set *s)
{
    free(s->at);
    *s = (struct tr__set){0};
}

void tr__set_add(struct tr__nodes *b, struct tr__set *s, uint32_t lo, uint32_t hi)
{
    if (!tr__spend(b, 1) || lo > hi)
        return;
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 8;
        struct tr__range *grown = realloc(s->at, cap * sizeof(*grown));
        if (!grown) {
            tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
            return;
        }
        s->at = grown;
        s->cap = cap;
    }
    s->at[s->n++] = (struct tr__range){lo, hi};
}

static int compare(const void *a, const void *b)
{
    const struct tr__range *x = a, *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Takes lo..hi out of a sorted set. */
static void take_out(struct tr__nodes *b, struct tr__set *s, uint32_t lo, uint32_t hi)
{
    struct tr__set out = {0};

    for (uint32_t i = 0; i < s->n; i++) {
        struct tr__range r = s->at[i];
        if (r.lo < lo)
            tr__set_add(b, &out, r.lo, TR_MIN(r.hi, lo - 1));
        if (r.hi > hi)
            tr__set_add(b, &out, TR_MAX(r.lo, hi + 1), r.hi);
    }
    tr__set_done(s);
    *s = out;
}

void tr__set_tidy(struct tr__nodes *b, struct tr__set *s)
{
    uint32_t n = 0;

    if (s->n == 0)
        return;
    qsort(s->at, s->n, sizeof(*s->at), compare);
    for (uint32_t i = 1; i < s->n; i++) {
        if (s->at[i].lo <= s->at[n].hi + 1)
            s->at[n].hi = TR_MAX(s->at[n].hi, s->at[i].hi);
        else
            s->at[++n] = s->at[i];
    }
    s->n = n + 1;
    take_out(b, s, 0xD800, 0xDFFF);
}

void tr__set_invert(struct tr__nodes *b, struct tr__set *s)
{
    struct tr__set out = {0};
    uint32_t next = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].lo > next)
            tr__set_add(b, &out, next, s->at[i].lo - 1);
        next = s->at[i].hi + 1;
    }
    if (next <= TR__LAST_CHAR)
        tr__set_add(b, &out, next, TR__LAST_CHAR);
    tr__set_done(s);
    *s = out;
    tr__set_tidy(b, s);
}

/* The characters of some classes, looked for once. */
static void find_characters(struct tr__nodes *b, struct tr__set *s, unsigned classes)
{
    if (s->n > 0 || !tr__spend(b, 500000))
        return;
    for (uint32_t c = 0, end; c <= TR__LAST_CHAR && b->r == 0; c = end + 1) {
        for (end = c; end < TR__LAST_CHAR && tr_char_class(end) & classes; end++)
            ;
        if (end > c)
            tr__set_add(b, s, c, end - 1);
    }
}

bool tr__set_category(struct tr__exprs *x, struct tr__set *s, const char *name, size_t n)
{
    static const struct {
        const char *name, *word;
        unsigned classes;
    } known[TR__CATEGORIES] = {
        {"L", "Letter", TR_CHAR_LETTER},
        {"M", "Mark", TR_CHAR_MARK},
        {"N", "Number", TR_CHAR_DIGIT | TR_CHAR_NUMBER},
        {"Nd", "Decimal_Number", TR_CHAR_DIGIT},
        {"P", "Punctuation", TR_CHAR_PUNCT},
        {"S", "Symbol", TR_CHAR_SYMBOL},
    };

    for (size_t i = 0; i < TR__CATEGORIES; i++) {
        struct tr__set *own = &x->categories[i];
        bool same = (strlen(known[i].name) == n && memcmp(known[i].name, name, n) == 0) ||
                    (strlen(known[i].word) == n && memcmp(known[i].word, name, n) == 0);
        if (!same)
            continue;
        find_characters(x->b, own, known[i].classes);
        for (uint32_t k = 0; k < own->n; k++)
            tr__set_add(x->b, s, own->at[k].lo, own->at[k].hi);
        return true;
    }
    return false;
}

/* ---- bytes ---- */

/* Takes `bytes` more continuation bytes, the six bits of each, for a value lo..hi; `base` is what
 * the first of them has above its value. */
static uint32_t emit_tail(struct tr__nodes *b, uint32_t lo, uint32_t hi, unsigned bytes,
                          unsigned base, unsigned flags, uint32_t next)
{
    unsigned shift = 6 * (bytes - 1);
    uint32_t mask = (1u << shift) - 1, a = lo >> shift, z = hi >> shift, out = 0;

    if (bytes == 1)
        return tr__byte(b, base | lo, base | hi, flags, next);
    if (a == z)
        return tr__byte(b, base | a, base | a, flags,
                        emit_tail(b, lo & mask, hi & mask, bytes - 1, 0x80, 0, next));
    if (lo & mask) {
        out = tr__byte(b, base | a, base | a, flags,
                       emit_tail(b, lo & mask, mask, bytes - 1, 0x80, 0, next));
        a++;
    }
    if ((hi & mask) != mask) {
        out = tr__split(b, out,
                        tr__byte(b, base | z, base | z, flags,
                                 emit_tail(b, 0, hi & mask, bytes - 1, 0x80, 0, next)));
        z--;
    }
    if (a <= z)
        out = tr__split(b, out,
                        tr__byte(b, base | a, base | z, flags,
                                 emit_tail(b, 0, mask, bytes - 1, 0x80, 0, next)));
    return out;
}

static uint32_t emit_raw(struct tr__nodes *b, uint32_t lo, uint32_t hi, unsigned flags,
                         uint32_t next)
{
    static const uint32_t last[] = {0x7F, 0x7FF, 0xFFFF, TR__LAST_CHAR};
    static const unsigned base[] = {0, 0xC0, 0xE0, 0xF0};
    uint32_t out = 0, first = 0;

    for (unsigned k = 0; k < 4; first = last[k++] + 1) {
        uint32_t from = TR_MAX(lo, first), to = TR_MIN(hi, last[k]);
        if (from <= to)
            out = tr__split(b, out, emit_tail(b, from, to, k + 1, base[k], flags, next));
    }
    return out;
}

static uint32_t emit_escape(struct tr__nodes *b, uint32_t c, uint32_t next)
{
    static const char short_of[] = "btn\0fr"; /* 8..13 */
    static const char digits[2][17] = {"0123456789abcdef", "0123456789ABCDEF"};
    char letter = c == '"' || c == '\\' ? (char)c : c >= 8 && c <= 13 ? short_of[c - 8] : '\0';
    uint32_t out = 0;

    if (letter) {
        out = tr__byte(b, (uint8_t)letter, (uint8_t)letter, 0, next);
    } else {
        for (int i = 0; i < 2; i++)
            out = tr__split(
                b, out,
                tr__byte(b, (uint8_t)digits[i][c & 15], (uint8_t)digits[i][c & 15], 0, next));
        out = tr__byte(b, '0' + (c >> 4), '0' + (c >> 4), 0, out);
        out = tr__text(b, "u00", 3, out);
    }
    return tr__byte(b, '\\', '\\', 0, out);
}

/* The first character from c on that is written by an escape. */
static uint32_t next_escape(uint32_t c, enum tr__spelling spelling)
{
    return c <= '"'                                    ? '"'
           : c <= '<' && spelling == TR__SPELL_GUARDED ? '<'
           : c <= '\\'                                 ? '\\'
                                                       : TR__LAST_CHAR + 1;
}

uint32_t tr__emit_ranges(struct tr__nodes *b, const struct tr__range *r, uint32_t n,
                         enum tr__spelling spelling, unsigned flags, uint32_t next)
{
    uint32_t out = 0;

    if (next == 0)
        return 0;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t lo = r[i].lo, hi = r[i].hi;
        if (spelling == TR__SPELL_RAW) {
            out = tr__split(b, emit_raw(b, lo, hi, flags, next), out);
            continue;
        }
        for (uint32_t c = lo; c <= TR_MIN(hi, 0x1Fu); c++)
            out = tr__split(b, emit_escape(b, c, next), out);
        for (uint32_t from = TR_MAX(lo, 0x20u), to; from <= hi; from = to + 1) {
            to = next_escape(from, spelling);
            if (from == to)
                out = tr__split(b, emit_escape(b, from, next), out);
            else
                out = tr__split(b, emit_raw(b, from, to = TR_MIN(to - 1, hi), flags, next), out);
        }
    }
    return out;
}

bool tr__ranges_clean(const struct tr__range *r, uint32_t n)
{
    static const struct tr__range clean[] = {{0x20, '"' - 1},  {'"' + 1, '\\' - 1},
                                             {'\\' + 1, 0x7E}, {0x80, 0x2027},
                                             {0x202A, 0xD7FF}, {0xE000, TR__LAST_CHAR}};
    uint32_t at = 0;

    for (size_t i = 0; i < TR_ARRAY_LEN(clean); i++) {
        while (at < n && r[at].hi < clean[i].hi)
            at++;
        if (at == n || r[at].lo > clean[i].lo)
            return false;
    }
    return true;
}
