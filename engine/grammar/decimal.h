/*
 * Decimal numbers as digits, so that bounds are exact, and the JSON numbers on one side of a bound
 * as expressions: no exponents, a fraction of a given number of digits at most.
 */
#ifndef TR_ENGINE_GRAMMAR_DECIMAL_H
#define TR_ENGINE_GRAMMAR_DECIMAL_H

#include "config/json.h"
#include "engine/grammar/automaton.h"

enum { TR__DIGITS = 40, TR__WHOLE_MAX = 30 };

struct tr__decimal {
    bool negative;                            /* never for 0 */
    char whole[TR__DIGITS], frac[TR__DIGITS]; /* "0" or no leading zero; no trailing zero */
};

/* Of a JSON number; false if it has more digits than TR__WHOLE_MAX before the point, or more
 * than 30 behind it. */
bool tr__decimal_of(const struct tr_json *v, struct tr__decimal *ret);
int tr__decimal_compare(const struct tr__decimal *a, const struct tr__decimal *b);
bool tr__decimal_zero(const struct tr__decimal *d);
/* d times 10^places as an integer; false if it is none or exceeds limit. */
bool tr__decimal_scaled(const struct tr__decimal *d, unsigned places, uint32_t limit,
                        uint32_t *ret);

/* The texts of numbers without sign >= |d| or <= |d| (> or <, if strict). digits: the most
 * before the point, at least d's own; frac: the most behind it, at least d's own, 0 = integers
 * only. */
uint32_t tr__decimal_over(struct tr__exprs *x, const struct tr__decimal *d, bool strict,
                          uint32_t frac, uint32_t digits);
uint32_t tr__decimal_under(struct tr__exprs *x, const struct tr__decimal *d, bool strict,
                           uint32_t frac);
/* Multiples of m without sign. Errors: sticky. */
void tr__decimal_multiples(struct tr__nodes *b, const struct tr__decimal *m, bool integer,
                           struct tr__dfa *ret);

#endif
