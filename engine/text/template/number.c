/* Numbers to and from text, as Python's repr, int and float do it. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

/* The shortest digits that read back as f: as "%.*e" writes them. */
static void shortest(double f, char out[static 40])
{
    for (int digits = 0; digits < DBL_DECIMAL_DIG; digits++) {
        snprintf(out, 40, "%.*e", digits, f);
        double back = strtod(out, NULL);
        if (!(back < f) && !(back > f))
            return;
    }
}

size_t tr_tpl_float_text(double f, char out[static TPL_FLOAT_CHARS])
{
    if (isnan(f) || isinf(f))
        return (size_t)snprintf(out, TPL_FLOAT_CHARS, "%s",
                                isnan(f) ? "nan"
                                : f < 0  ? "-inf"
                                         : "inf");
    char e[40];
    shortest(f, e);
    int exponent = atoi(strchr(e, 'e') + 1);
    int digits = (int)(strchr(e, 'e') - e) - (e[0] == '-');
    digits -= digits > 1; /* the point */
    if (exponent >= -4 && exponent < 16) {
        int decimals = TR_MAX(digits - 1 - exponent, 1);
        return (size_t)snprintf(out, TPL_FLOAT_CHARS, "%.*f", decimals, f);
    }
    return (size_t)snprintf(out, TPL_FLOAT_CHARS, "%s", e);
}

/* Copies s without surrounding white space and without the underscores that may stand between
 * digits; false if it is too long for a number or an underscore stands elsewhere. */
static bool plain(const struct tpl_str *s, char *out, size_t cap)
{
    size_t from = 0, to = s->n, n;
    while (from < to && tr_uni_space(tr_uni_decode(s->s + from, &n)))
        from += n;
    while (to > from && tr_uni_space(tr_uni_decode(s->s + tr_uni_last(s->s, to), &n)))
        to -= n;
    if (to - from >= cap)
        return false;
    size_t len = 0;
    for (size_t i = from; i < to; i++) {
        char c = s->s[i];
        if (c == '\0')
            return false;
        if (c != '_') {
            out[len++] = c;
            continue;
        }
        if (i == from || i + 1 == to || s->s[i - 1] == '_' || s->s[i + 1] == '_' ||
            !strchr("0123456789abcdefABCDEFxXoO", s->s[i - 1]))
            return false;
    }
    out[len] = '\0';
    return len > 0;
}

static int digit_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'z' ? c - 'a' + 10
           : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                  : 99;
}

bool tr_tpl_parse_int(struct tpl_vm *vm, const struct tpl_str *s, int base, int64_t *ret)
{
    char text[128];
    if (!plain(s, text, sizeof text))
        return false;
    const char *p = text;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (*p == '0' && p[1]) {
        int prefixed = strchr("xX", p[1])   ? 16
                       : strchr("oO", p[1]) ? 8
                       : strchr("bB", p[1]) ? 2
                                            : 0;
        if (prefixed && (base == 0 || base == prefixed)) {
            base = prefixed;
            p += 2;
        }
    }
    if (base == 0) {
        base = 10;
        if (*p == '0' && strspn(p, "0") != strlen(p))
            return false;
    }
    if (!*p)
        return false;
    int64_t value = 0;
    for (; *p; p++) {
        int digit = digit_value(*p);
        if (digit >= base)
            return false;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            tr_tpl_fail(vm, "integer beyond 64 bits");
    }
    if (!negative && value == INT64_MIN)
        tr_tpl_fail(vm, "integer beyond 64 bits");
    *ret = negative ? value : -value;
    return true;
}

bool tr_tpl_parse_float(struct tpl_vm *vm, const struct tpl_str *s, double *ret)
{
    char *text = tr_tpl_alloc(vm, (size_t)s->n + 1);
    if (!plain(s, text, (size_t)s->n + 1))
        return false;
    const char *p = text + (*text == '-' || *text == '+');
    bool word = !strcasecmp(p, "inf") || !strcasecmp(p, "infinity") || !strcasecmp(p, "nan");
    /* strtod also knows hexadecimal and nan(...), Python does not. */
    if (!word && strspn(p, "0123456789.eE+-") != strlen(p))
        return false;
    char *end;
    *ret = strtod(text, &end);
    return *end == '\0' && end != text;
}
