/* Character classes and case mapping by binary search in generated tables, ASCII answered first. */
#include "engine/text/template/unicode.h"

#include "engine/text/template/unicode_tables.h"

uint32_t tr_uni_decode(const char *s, size_t *n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (p[0] < 0x80) {
        *n = 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *n = 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    }
    if (p[0] < 0xf0) {
        *n = 3;
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    *n = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

size_t tr_uni_encode(uint32_t c, char *out)
{
    unsigned char *p = (unsigned char *)out;
    if (c < 0x80) {
        p[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (unsigned char)(0xc0 | c >> 6);
        p[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (unsigned char)(0xe0 | c >> 12);
        p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        p[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    p[0] = (unsigned char)(0xf0 | c >> 18);
    p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    p[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t tr_uni_count(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += !continues(s[i]);
    return count;
}

size_t tr_uni_skip(const char *s, size_t n, size_t chars)
{
    size_t i = 0;
    while (chars-- && i < n)
        for (i++; i < n && continues(s[i]); i++)
            ;
    return i;
}

size_t tr_uni_last(const char *s, size_t n)
{
    size_t i = n - 1;
    while (i > 0 && continues(s[i]))
        i--;
    return i;
}

bool tr_uni_valid(const char *s, size_t n, size_t *ret_bad)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (size_t i = 0; i < n;) {
        unsigned char lead = (unsigned char)s[i];
        size_t len = lead < 0x80             ? 1
                     : (lead & 0xe0) == 0xc0 ? 2
                     : (lead & 0xf0) == 0xe0 ? 3
                     : (lead & 0xf8) == 0xf0 ? 4
                                             : 0;
        *ret_bad = i;
        if (len == 0 || len > n - i)
            return false;
        for (size_t k = 1; k < len; k++)
            if (!continues(s[i + k]))
                return false;
        size_t unused;
        uint32_t c = tr_uni_decode(s + i, &unused);
        if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            return false;
        i += len;
    }
    return true;
}

static bool in_ranges(const struct range *table, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c > table[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && c >= table[lo].first;
}

#define IN(table, c) in_ranges(table, TR_ARRAY_LEN(table), c)

bool tr_uni_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool tr_uni_printable(uint32_t c)
{
    return c < 0x7f ? c >= 0x20 : IN(printable, c);
}

bool tr_uni_alpha(uint32_t c)
{
    return IN(alphabetic, c);
}

bool tr_uni_digit(uint32_t c)
{
    return IN(digits, c);
}

bool tr_uni_decimal(uint32_t c)
{
    return IN(decimals, c);
}

bool tr_uni_numeric(uint32_t c)
{
    return IN(numerics, c);
}

bool tr_uni_cased(uint32_t c)
{
    return IN(cased, c);
}

bool tr_uni_case_ignorable(uint32_t c)
{
    return IN(case_ignorable, c);
}

static const struct {
    const struct case_run *runs;
    size_t n_runs;
    const struct case_special *special;
    size_t n_special;
} cases[] = {
    [TR_UNI_UPPER] = {upper_runs, TR_ARRAY_LEN(upper_runs), upper_special,
                      TR_ARRAY_LEN(upper_special)},
    [TR_UNI_LOWER] = {lower_runs, TR_ARRAY_LEN(lower_runs), lower_special,
                      TR_ARRAY_LEN(lower_special)},
    [TR_UNI_TITLE] = {title_runs, TR_ARRAY_LEN(title_runs), title_special,
                      TR_ARRAY_LEN(title_special)},
};

int tr_uni_map(uint32_t c, enum tr_uni_case to, uint32_t out[3])
{
    out[0] = c;
    if (c < 0x80) {
        if (to == TR_UNI_LOWER ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z')
            out[0] = c ^ 0x20;
        return 1;
    }
    for (size_t i = 0; i < cases[to].n_special; i++) {
        const struct case_special *special = &cases[to].special[i];
        if (special->from != c)
            continue;
        int n = 0;
        while (n < 3 && special->to[n]) {
            out[n] = special->to[n];
            n++;
        }
        return n;
    }
    const struct case_run *runs = cases[to].runs;
    size_t lo = 0, hi = cases[to].n_runs;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c > runs[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < cases[to].n_runs && c >= runs[lo].first &&
        (c - runs[lo].first) % (uint32_t)runs[lo].step == 0)
        out[0] = (uint32_t)((int32_t)c + runs[lo].delta);
    return 1;
}
