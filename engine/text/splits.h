/*
 * The regular expressions of the Trinity family's pre-tokenizer, as scanners written by hand.
 *
 * They mean what the expressions mean, in time linear in the text (the digit expression is
 * quadratic for any backtracking matcher) and ten times as fast. tests/unit/text/splits.c holds
 * them against the expressions themselves.
 */
#ifndef TR_ENGINE_TEXT_SPLITS_H
#define TR_ENGINE_TEXT_SPLITS_H

#include <stdbool.h>

#include "config/base.h"

/* The first match in valid text[0..n) that begins at `from` or later; from = 0, or the end of the
 * match before. No match is empty. */
typedef bool (*tr_split_fn)(const char *text, size_t n, size_t from, size_t *ret_begin,
                            size_t *ret_end);

struct tr_known_split {
    const char *regex;
    tr_split_fn split;
};

/* In the order in which the family applies them, each to the pieces of the one before. */
enum { TR_KNOWN_SPLITS = 5 };
extern const struct tr_known_split tr_known_splits[TR_KNOWN_SPLITS];

#endif
