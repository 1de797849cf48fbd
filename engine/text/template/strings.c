/* String algorithms that filters and methods share; every result keeps the origin of its parts. */
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

/* Whether the capital sigma that ends at byte `after` is a final one: a cased letter before it,
 * none after it, case-ignorable characters not counted. */
static bool final_sigma(const struct tpl_str *s, size_t after)
{
    size_t at = after - 2, n;
    uint32_t c = 0;
    bool found = false;
    while (at > 0 && !found) {
        at = tr_uni_last(s->s, at);
        c = tr_uni_decode(s->s + at, &n);
        found = !tr_uni_case_ignorable(c);
    }
    if (!found || !tr_uni_cased(c))
        return false;
    for (at = after; at < s->n; at += n) {
        c = tr_uni_decode(s->s + at, &n);
        if (!tr_uni_case_ignorable(c))
            return !tr_uni_cased(c);
    }
    return true;
}

static int lower(const struct tpl_str *s, size_t after, uint32_t c, uint32_t out[3])
{
    if (c != 0x3a3)
        return tr_uni_map(c, TR_UNI_LOWER, out);
    out[0] = final_sigma(s, after) ? 0x3c2 : 0x3c3;
    return 1;
}

/* The other case of a character; title case letters have both, and stay. */
static int swapped(const struct tpl_str *s, size_t after, uint32_t c, uint32_t out[3])
{
    uint32_t up[3], low[3];
    int n_up = tr_uni_map(c, TR_UNI_UPPER, up), n_low = lower(s, after, c, low);
    bool has_upper = n_up != 1 || up[0] != c, has_lower = n_low != 1 || low[0] != c;
    out[0] = c;
    if (has_upper == has_lower)
        return 1;
    memcpy(out, has_upper ? up : low, sizeof up);
    return has_upper ? n_up : n_low;
}

/* how: u upper, l lower, c capitalize, t title, s swapcase */
struct tpl_value tr_tpl_change_case(struct tpl_vm *vm, const struct tpl_str *s, char how)
{
    size_t mark = vm->text.len;
    struct tpl_reader reader = {.s = s};
    uint32_t c, out[3];
    enum tpl_origin origin;
    bool after_cased = false;
    tr_tpl_spend(vm, s->n / 16);
    for (bool first = true; tr_tpl_read(&reader, &c, &origin); first = false) {
        int n;
        if (how == 'u')
            n = tr_uni_map(c, TR_UNI_UPPER, out);
        else if (how == 's')
            n = swapped(s, reader.at, c, out);
        else if (how == 'l' || (how == 'c' && !first) || (how == 't' && after_cased))
            n = lower(s, reader.at, c, out);
        else
            n = tr_uni_map(c, TR_UNI_TITLE, out);
        for (int i = 0; i < n; i++)
            tr_tpl_put_char(vm, out[i], origin);
        after_cased = how == 't' && tr_uni_cased(c);
    }
    return tr_tpl_with_markup(vm, tr_tpl_cut(vm, mark), s->markup);
}

static bool strips(uint32_t c, const struct tpl_str *chars)
{
    if (!chars)
        return tr_uni_space(c);
    struct tpl_reader reader = {.s = chars};
    uint32_t one;
    enum tpl_origin origin;
    while (tr_tpl_read(&reader, &one, &origin))
        if (one == c)
            return true;
    return false;
}

struct tpl_value tr_tpl_strip(struct tpl_vm *vm, struct tpl_str *s, const struct tpl_str *chars,
                              int sides)
{
    size_t from = 0, to = s->n, n;
    uint64_t per_char = 1 + (chars ? chars->n / 16 : 0);
    while (sides & 1 && from < to && strips(tr_uni_decode(s->s + from, &n), chars)) {
        from += n;
        tr_tpl_spend(vm, per_char);
    }
    while (sides & 2 && from < to) {
        size_t last = from + tr_uni_last(s->s + from, to - from);
        if (!strips(tr_uni_decode(s->s + last, &n), chars))
            break;
        to = last;
        tr_tpl_spend(vm, per_char);
    }
    return from == 0 && to == s->n ? tpl_of_str(s) : tr_tpl_part(vm, s, from, to);
}

/* Puts `with` before every character and at the end, at most count times. */
static void interleave(struct tpl_vm *vm, const struct tpl_str *s, const struct tpl_str *with,
                       int64_t count)
{
    size_t at = 0;
    for (; count != 0; count -= count > 0) {
        tr_tpl_put_str(vm, with);
        if (at >= s->n)
            return;
        size_t n = tr_uni_skip(s->s + at, s->n - at, 1);
        tr_tpl_put_part(vm, s, at, at + n);
        at += n;
    }
    tr_tpl_put_part(vm, s, at, s->n);
}

struct tpl_value tr_tpl_replace(struct tpl_vm *vm, const struct tpl_str *s,
                                const struct tpl_str *old, const struct tpl_str *with,
                                int64_t count)
{
    size_t mark = vm->text.len, at = 0;
    if (old->n == 0) {
        tr_tpl_spend(vm, s->n / 8);
        interleave(vm, s, with, count);
        return tr_tpl_cut(vm, mark);
    }
    tr_tpl_spend(vm, s->n / 64);
    for (; count != 0; count -= count > 0) {
        const char *found = memmem(s->s + at, s->n - at, old->s, old->n);
        if (!found)
            break;
        tr_tpl_spend(vm, 1);
        tr_tpl_put_part(vm, s, at, (size_t)(found - s->s));
        tr_tpl_put_str(vm, with);
        at = (size_t)(found - s->s) + old->n;
    }
    tr_tpl_put_part(vm, s, at, s->n);
    return tr_tpl_cut(vm, mark);
}

static bool ends_line(uint32_t c)
{
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

struct tpl_value tr_tpl_lines(struct tpl_vm *vm, const struct tpl_str *s, bool keep)
{
    struct tpl_value lines = {0};
    /* First round counts, second fills in. */
    for (int round = 0; round < 2; round++) {
        size_t start = 0, count = 0, n;
        for (size_t at = 0; at < s->n;) {
            uint32_t c = tr_uni_decode(s->s + at, &n);
            size_t end = at;
            at += n;
            if (!ends_line(c) && at < s->n)
                continue;
            if (!ends_line(c))
                end = at;
            else if (c == '\r' && at < s->n && s->s[at] == '\n')
                at++;
            if (round)
                lines.u.list->v[count] = tr_tpl_part(vm, s, start, keep ? at : end);
            count++;
            start = at;
        }
        if (!round)
            lines = tr_tpl_list(vm, count, TPL_LIST);
    }
    return lines;
}

struct tpl_value tr_tpl_escape(struct tpl_vm *vm, struct tpl_value v)
{
    v = tr_tpl_to_str(vm, v);
    const struct tpl_str *s = v.u.str;
    if (s->markup)
        return v;
    static const char chars[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t mark = vm->text.len, run = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *found = s->s[i] ? strchr(chars, s->s[i]) : NULL;
        if (!found)
            continue;
        tr_tpl_put_part(vm, s, run, i);
        tr_tpl_puts(vm, names[found - chars], tr_tpl_origin_at(s, i));
        run = i + 1;
    }
    tr_tpl_put_part(vm, s, run, s->n);
    return tr_tpl_with_markup(vm, tr_tpl_cut(vm, mark), true);
}
