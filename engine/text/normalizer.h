/*
 * The normalizer of a tokenizer.json: what is done to a text before it is cut.
 */
#ifndef TR_ENGINE_TEXT_NORMALIZER_H
#define TR_ENGINE_TEXT_NORMALIZER_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"
#include "config/json.h"
#include "engine/text/pattern.h"

struct tr_normalizer; /* immutable */

/* From the value of "normalizer": NFC, NFD, NFKC, NFKD, Prepend, Replace, a Sequence of those. null
 * gives *ret = NULL: nothing to do. Errors name what is not supported. */
TR_NODISCARD int tr_normalizer_new(struct tr_normalizer **ret, const struct tr_json *v,
                                   struct tr_err *err);
struct tr_normalizer *tr_normalizer_free(struct tr_normalizer *z); /* NULL ok; returns NULL */

/* Replaces the valid text in `text` by its normal form. TR_ENOMEM, TR_ETOOLONG, those of
 * tr_matches_next. */
TR_NODISCARD int tr_normalizer_run(const struct tr_normalizer *z, struct tr_match_space *space,
                                   struct tr_buf *text);

#endif
