/* Numbers: a subset of JSON's that every reader takes: no -0 and no exponent for integers, at
 * most 18 digits of them, 17 before and 17 behind a point, two of an exponent. Under a bound or
 * a multiple there are no exponents, and 15 digits in all unless the bound has more: so many a
 * double tells apart, and a reader's rounding cannot carry a number over its bound. */
#include <stdio.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"

enum { INTEGER_DIGITS = 18, NUMBER_DIGITS = 9, EXACT_DIGITS = 15 };

static uint32_t emit_regex(struct tr__schema *s, const char *pattern, uint32_t next)
{
    uint32_t e = tr__regex_parse(&s->x, pattern, strlen(pattern), NULL);

    return tr__emit(&s->x, e, TR__SPELL_RAW, false, next);
}

/* d = d and the language of the expression, or without it. */
static void meet_expr(struct tr__schema *s, struct tr__dfa *d, uint32_t e, bool without)
{
    struct tr__dfa other = {0};

    tr__dfa_of(&s->x, e, TR__MATCH_WHOLE, TR__SPELL_RAW, &other);
    tr__dfa_meet(s->b, d, &other, without);
}

/* Numbers without sign that equal an excluded one of that sign. */
static void exclude(struct tr__schema *s, const struct tr__shape *shape, bool negative,
                    struct tr__dfa *d)
{
    for (uint32_t i = 0; i < shape->n_excluded && s->b->r == 0; i++) {
        struct tr__decimal x;
        uint32_t over, under;
        struct tr__dfa equal = {0};
        if (tr_json_type(shape->excluded[i]) != TR_JSON_NUMBER ||
            !tr__decimal_of(shape->excluded[i], &x) ||
            (x.negative != negative && !tr__decimal_zero(&x)))
            continue;
        over = tr__decimal_over(&s->x, &x, false, TR__WHOLE_MAX, TR__WHOLE_MAX);
        under = tr__decimal_under(&s->x, &x, false, TR__WHOLE_MAX);
        tr__dfa_of(&s->x, over, TR__MATCH_WHOLE, TR__SPELL_RAW, &equal);
        meet_expr(s, &equal, under, false);
        tr__dfa_meet(s->b, d, &equal, true);
    }
}

/* Numbers without sign: whole ones, and with a fraction those of fewer digits before the point. */
static uint32_t base_expr(struct tr__schema *s, unsigned types, uint32_t whole, uint32_t before)
{
    char pattern[128];

    if (!(types & TR__TYPE_FRACTION))
        snprintf(pattern, sizeof(pattern), "0|[1-9][0-9]{0,%u}", whole - 1);
    else if (!(types & TR__TYPE_INTEGER))
        snprintf(pattern, sizeof(pattern), "(0|[1-9][0-9]{0,%u})\\.[0-9]{0,29}[1-9]", before - 1);
    else
        snprintf(pattern, sizeof(pattern), "0|[1-9][0-9]{0,%u}|(0|[1-9][0-9]{0,%u})\\.[0-9]{1,30}",
                 whole - 1, before - 1);
    return tr__regex_parse(&s->x, pattern, strlen(pattern), NULL);
}

/* Numbers of one sign, without it: low <= x <= high (absent ones NULL). */
static void one_sign(struct tr__schema *s, const struct tr__shape *shape, bool negative,
                     const struct tr__decimal *low, bool low_strict, const struct tr__decimal *high,
                     bool high_strict, struct tr__dfa *d)
{
    bool integer = !(shape->types & TR__TYPE_FRACTION);
    uint32_t most = integer ? INTEGER_DIGITS : NUMBER_DIGITS, frac = 0, whole;
    struct tr__decimal limit = {.frac = ""};

    if (high)
        most = (uint32_t)strlen(high->whole);
    else if (low)
        most = TR_MAX(most, (uint32_t)strlen(low->whole));
    if (!integer) {
        frac = most < EXACT_DIGITS ? EXACT_DIGITS - most : 1;
        frac = TR_MAX(frac, (uint32_t)(low ? strlen(low->frac) : 0));
        frac = TR_MAX(frac, (uint32_t)(high ? strlen(high->frac) : 0));
    }
    whole = integer || high ? most : TR_MAX(most, (uint32_t)EXACT_DIGITS);
    memset(limit.whole, '9', whole);
    tr__dfa_of(&s->x, base_expr(s, shape->types, whole, most), TR__MATCH_WHOLE, TR__SPELL_RAW, d);
    meet_expr(s, d, tr__decimal_under(&s->x, high ? high : &limit, high && high_strict, frac),
              false);
    if (low)
        meet_expr(s, d, tr__decimal_over(&s->x, low, low_strict, frac, whole), false);
    for (uint32_t i = 0; i < shape->n_multiples && s->b->r == 0; i++) {
        struct tr__decimal m;
        struct tr__dfa multiples = {0};
        if (!tr__decimal_of(shape->multiples[i], &m)) {
            tr__schema_fail(s, TR_EUNSUPPORTED, shape->multiples[i], NULL, "too many digits");
            return;
        }
        tr__decimal_multiples(s->b, &m, integer, &multiples);
        tr__dfa_meet(s->b, d, &multiples, false);
    }
    exclude(s, shape, negative, d);
}

static uint32_t emit_bounded(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    struct tr__dfa positive = {0}, negative = {0};
    const struct tr__decimal zero = {.whole = "0"};
    const struct tr__decimal *low = shape->has_low ? &shape->low : NULL;
    const struct tr__decimal *high = shape->has_high ? &shape->high : NULL;
    int low_sign = low ? (low->negative ? -1 : !tr__decimal_zero(low)) : -1;
    int high_sign = high ? (high->negative ? -1 : !tr__decimal_zero(high)) : 1;
    uint32_t out = 0;

    if (high_sign > 0 || (high_sign == 0 && !shape->high_strict)) {
        bool bounded = low && (low_sign > 0 || (low_sign == 0 && shape->low_strict));
        one_sign(s, shape, false, bounded ? low : NULL, shape->low_strict, high, shape->high_strict,
                 &positive);
        out = tr__dfa_emit(s->b, &positive, next);
    }
    if (low_sign < 0) {
        bool bounded = high && high_sign < 0;
        one_sign(s, shape, true, bounded ? high : &zero, bounded ? shape->high_strict : true, low,
                 shape->low_strict, &negative);
        out =
            tr__split(s->b, out, tr__byte(s->b, '-', '-', 0, tr__dfa_emit(s->b, &negative, next)));
    }
    tr__dfa_done(&positive);
    tr__dfa_done(&negative);
    return out;
}

uint32_t tr__emit_number(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    bool excludes = false;

    for (uint32_t i = 0; i < shape->n_excluded; i++)
        excludes |= tr_json_type(shape->excluded[i]) == TR_JSON_NUMBER;
    if (shape->has_low || shape->has_high || shape->n_multiples > 0 || excludes ||
        (shape->types & TR__TYPE_NUMBER) == TR__TYPE_FRACTION)
        return emit_bounded(s, shape, next);
    if (shape->types & TR__TYPE_FRACTION)
        return emit_regex(s, "-?(0|[1-9][0-9]{0,16})(\\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?", next);
    return emit_regex(s, "0|-?[1-9][0-9]{0,17}", next);
}
