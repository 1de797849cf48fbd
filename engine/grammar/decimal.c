#include "engine/grammar/decimal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

/* digits x 10^exponent. */
static bool place_point(const char *digits, int exponent, struct tr__decimal *ret)
{
    int n = (int)strlen(digits), point = n + exponent, end = n;
    size_t whole = 0, frac = 0;

    while (end > 0 && digits[end - 1] == '0')
        end--;
    if (point > TR__WHOLE_MAX || end - point > TR__WHOLE_MAX)
        return false;
    for (int i = 0; i < point; i++)
        if (whole > 0 || (i < n && digits[i] != '0'))
            ret->whole[whole++] = i < n ? digits[i] : '0';
    if (whole == 0)
        ret->whole[whole++] = '0';
    for (int i = point; i < end; i++)
        ret->frac[frac++] = i < 0 ? '0' : digits[i];
    ret->whole[whole] = ret->frac[frac] = '\0';
    return true;
}

bool tr__decimal_of(const struct tr_json *v, struct tr__decimal *ret)
{
    char text[64], digits[40];
    int64_t i;
    double d;
    int n = 0, exponent = 0;

    memset(ret, 0, sizeof(*ret));
    if (tr_json_is_integer(v) && tr_json_as_int(v, INT64_MIN, INT64_MAX, &i, NULL) == 0) {
        snprintf(text, sizeof(text), "%lld", (long long)i);
    } else {
        if (tr_json_as_double(v, -1e300, 1e300, &d, NULL) < 0)
            return false;
        for (int p = 1; p <= 17; p++) { /* the shortest that reads back */
            snprintf(text, sizeof(text), "%.*e", p - 1, d);
            if (strtod(text, NULL) == d)
                break;
        }
    }
    for (const char *s = text + (text[0] == '-'); *s && *s != 'e'; s++) {
        if (*s != '.')
            digits[n++] = *s;
    }
    digits[n] = '\0';
    if (strchr(text, 'e'))
        exponent = atoi(strchr(text, 'e') + 1) - (n - 1);
    if (!place_point(digits, exponent, ret))
        return false;
    ret->negative = text[0] == '-' && !tr__decimal_zero(ret);
    return true;
}

bool tr__decimal_zero(const struct tr__decimal *d)
{
    return d->whole[0] == '0' && d->frac[0] == '\0';
}

static int compare_size(const struct tr__decimal *a, const struct tr__decimal *b)
{
    size_t n = strlen(a->whole), m = strlen(b->whole);
    int r = n != m ? (n < m ? -1 : 1) : strcmp(a->whole, b->whole);

    return r ? r : strcmp(a->frac, b->frac);
}

int tr__decimal_compare(const struct tr__decimal *a, const struct tr__decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? -compare_size(a, b) : compare_size(a, b);
}

bool tr__decimal_scaled(const struct tr__decimal *d, unsigned places, uint32_t limit, uint32_t *ret)
{
    uint64_t n = 0;
    size_t frac = strlen(d->frac);

    if (frac > places)
        return false;
    for (const char *s = d->whole; *s && n <= limit; s++)
        n = n * 10 + (uint64_t)(*s - '0');
    for (unsigned i = 0; i < places && n <= limit; i++)
        n = n * 10 + (uint64_t)(i < frac ? d->frac[i] - '0' : 0);
    *ret = (uint32_t)n;
    return n <= limit;
}

/* ---- expressions ---- */

struct list {
    struct tr__exprs *x;
    uint32_t members, alternatives;
    uint32_t frac; /* digits behind the point, 0 = integers */
};

static void digits(struct list *l, char lo, char hi, uint32_t min, uint32_t max)
{
    uint32_t e = tr__expr_char(l->x, (uint8_t)lo, (uint8_t)hi);

    if (max > 0)
        tr__expr_append(l->x, &l->members,
                        min == 1 && max == 1 ? e : tr__expr_repeat(l->x, e, min, max));
}

static void text(struct list *l, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        digits(l, s[i], s[i], 1, 1);
}

static void end(struct list *l)
{
    tr__expr_append(l->x, &l->alternatives, tr__expr_close(l->x, TR__EXPR_SEQ, l->members));
    l->members = 0;
}

/* Any fraction or none, and the end. */
static void any_fraction(struct list *l)
{
    uint32_t saved = l->members, list = 0;

    if (l->frac > 0) {
        l->members = 0;
        text(l, ".", 1);
        digits(l, '0', '9', 1, l->frac);
        list = tr__expr_repeat(l->x, tr__expr_close(l->x, TR__EXPR_SEQ, l->members), 0, 1);
        l->members = saved;
        tr__expr_append(l->x, &l->members, list);
    }
    end(l);
}

static uint32_t room(const struct list *l, size_t used)
{
    return used < l->frac ? l->frac - (uint32_t)used : 0;
}

/* Fractions behind d's whole part that make more than d. */
static void fraction_over(struct list *l, const struct tr__decimal *d, bool strict)
{
    size_t n = strlen(d->whole), f = strlen(d->frac);

    for (size_t j = 0; j < f; j++) {
        if (d->frac[j] == '9')
            continue;
        text(l, d->whole, n);
        text(l, ".", 1);
        text(l, d->frac, j);
        digits(l, (char)(d->frac[j] + 1), '9', 1, 1);
        digits(l, '0', '9', 0, room(l, j + 1));
        end(l);
    }
    text(l, d->whole, n);
    if (!strict && f == 0) {
        any_fraction(l);
        return;
    }
    text(l, ".", 1);
    text(l, d->frac, f);
    if (strict) {
        digits(l, '0', '0', 0, room(l, f + 1));
        digits(l, '1', '9', 1, 1);
    }
    digits(l, '0', '9', 0, room(l, f + 1));
    end(l);
}

static void fraction_under(struct list *l, const struct tr__decimal *d, bool strict)
{
    size_t n = strlen(d->whole), f = strlen(d->frac);

    for (size_t j = 0; j < f; j++) {
        text(l, d->whole, n);
        if (j > 0) {
            text(l, ".", 1);
            text(l, d->frac, j);
        }
        end(l);
        if (d->frac[j] == '0')
            continue;
        text(l, d->whole, n);
        text(l, ".", 1);
        text(l, d->frac, j);
        digits(l, '0', (char)(d->frac[j] - 1), 1, 1);
        digits(l, '0', '9', 0, room(l, j + 1));
        end(l);
    }
    if (strict)
        return;
    text(l, d->whole, n);
    if (f == 0) {
        end(l);
        text(l, d->whole, n);
    }
    text(l, ".", 1);
    text(l, d->frac, f);
    digits(l, '0', '0', f == 0, room(l, f));
    end(l);
}

uint32_t tr__decimal_over(struct tr__exprs *x, const struct tr__decimal *d, bool strict,
                          uint32_t frac, uint32_t most)
{
    struct list l = {x, 0, 0, frac};
    uint32_t n = (uint32_t)strlen(d->whole);

    if (n < most) {
        digits(&l, '1', '9', 1, 1);
        digits(&l, '0', '9', n, most - 1);
        any_fraction(&l);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (d->whole[i] == '9')
            continue;
        text(&l, d->whole, i);
        digits(&l, (char)(d->whole[i] + 1), '9', 1, 1);
        digits(&l, '0', '9', n - i - 1, n - i - 1);
        any_fraction(&l);
    }
    if (frac > 0) {
        fraction_over(&l, d, strict);
    } else if (d->frac[0] == '\0' && !strict) {
        text(&l, d->whole, n);
        end(&l);
    }
    return tr__expr_close(x, TR__EXPR_ALT, l.alternatives);
}

uint32_t tr__decimal_under(struct tr__exprs *x, const struct tr__decimal *d, bool strict,
                           uint32_t frac)
{
    struct list l = {x, 0, 0, frac};
    uint32_t n = (uint32_t)strlen(d->whole);

    if (n > 1) {
        text(&l, "0", 1);
        any_fraction(&l);
        digits(&l, '1', '9', 1, 1);
        digits(&l, '0', '9', 0, n - 2);
        any_fraction(&l);
    }
    for (uint32_t i = 0; i < n; i++) {
        char least = i == 0 && n > 1 ? '1' : '0';
        if (d->whole[i] <= least)
            continue;
        text(&l, d->whole, i);
        digits(&l, least, (char)(d->whole[i] - 1), 1, 1);
        digits(&l, '0', '9', n - i - 1, n - i - 1);
        any_fraction(&l);
    }
    if (frac > 0) {
        fraction_under(&l, d, strict);
    } else if (d->frac[0] != '\0' || !strict) {
        text(&l, d->whole, n);
        end(&l);
    }
    return tr__expr_close(x, TR__EXPR_ALT, l.alternatives);
}

/* ---- multiples ---- */

enum { MAX_MULTIPLE = 15000 };

/* States: 2 + j x m + r, r the remainder of the digits so far, j of them behind the point (m >
 * 0). The start, and a state behind the point without digit, which shares remainders with j = 0,
 * come last. */
void tr__decimal_multiples(struct tr__nodes *b, const struct tr__decimal *d, bool integer,
                           struct tr__dfa *ret)
{
    unsigned places = (unsigned)strlen(d->frac);
    uint32_t m, phases = integer ? 1 : places + 1, pad;

    if (tr__decimal_zero(d) || d->negative ||
        !tr__decimal_scaled(d, places, MAX_MULTIPLE / phases, &m) || m == 0) {
        tr__nodes_fail(b, TR_EUNSUPPORTED, NULL, "multipleOf is too large or not positive");
        return;
    }
    memset(ret->class_of, 11, sizeof(ret->class_of)); /* 0-9, point, all else */
    for (int i = 0; i < 10; i++)
        ret->class_of['0' + i] = (uint8_t)i;
    ret->class_of['.'] = 10;
    tr__dfa_begin(b, ret, 12);
    /* Behind the point without digits: states of their own, one a remainder. */
    for (uint32_t i = 0; i < m * (phases + (phases > 1)) && b->r == 0; i++)
        tr__dfa_add(b, ret);
    for (uint32_t c = 0; c < 10 && b->r == 0; c++)
        ret->to[12 + c] = 2 + c % m;
    for (uint32_t j = 0; j <= phases && b->r == 0; j++) {
        uint32_t behind = j == phases ? 0 : j; /* digits behind the point */
        if (j == phases && phases == 1)
            break;
        pad = 1;
        for (uint32_t i = behind; i < places; i++)
            pad = (uint32_t)((uint64_t)pad * 10 % m);
        for (uint32_t r = 0; r < m; r++) {
            uint32_t at = 2 + j * m + r, *to = ret->to + (size_t)at * 12;
            bool dot = j == phases;
            ret->accept[at] = !dot && (uint64_t)r * pad % m == 0;
            for (uint32_t c = 0; c < 10; c++) {
                uint32_t next = (uint32_t)(((uint64_t)r * 10 + c) % m);
                if (j == 0)
                    to[c] = 2 + next;
                else if (dot || j + 1 < phases)
                    to[c] = 2 + (behind + 1) * m + next;
            }
            if (j == 0 && phases > 1)
                to[10] = 2 + phases * m + r;
        }
    }
    tr__dfa_trim(b, ret);
}
