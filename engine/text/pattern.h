/*
 * What a tokenizer.json splits or replaces by: a string or a regular expression.
 *
 * The expressions are written for Oniguruma (in its Ruby syntax), which Hugging Face tokenizers
 * use; they are rewritten to what means the same to PCRE2. The known ones run as scanners instead.
 */
#ifndef TR_ENGINE_TEXT_PATTERN_H
#define TR_ENGINE_TEXT_PATTERN_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"
#include "config/json.h"

struct tr_pattern; /* immutable */

/* A string to find, if literal, else an expression. TR_EFORMAT with the reason: no valid
 * expression, or one that means something else to PCRE2 and cannot be rewritten. */
TR_NODISCARD int tr_pattern_new(struct tr_pattern **ret, const char *text, size_t n, bool literal,
                                struct tr_err *err);
/* From the member "pattern" of a JSON object: {"String": ...} or {"Regex": ...}. */
TR_NODISCARD int tr_pattern_parse(struct tr_pattern **ret, const struct tr_json *v,
                                  struct tr_err *err);
struct tr_pattern *tr_pattern_free(struct tr_pattern *p); /* NULL ok; returns NULL */

/* Memory of one thread's matching, reused from text to text. A zeroed struct is empty. */
struct tr_match_space {
    void *data;
};
void tr_match_space_done(struct tr_match_space *space);

/* The matches in one text, from left to right, as Hugging Face's find_iter has them: after an empty
 * match the next one is not empty at the same place. */
struct tr_matches {
    const struct tr_pattern *pattern;
    struct tr_match_space *space;
    const char *text; /* valid UTF-8 */
    size_t n;
    size_t from;     /* where the next search begins: \G */
    size_t last_end; /* end of the last match, SIZE_MAX before it */
};

struct tr_matches tr_matches_in(const struct tr_pattern *p, struct tr_match_space *space,
                                const char *text, size_t n);
/* 1 and a match, 0 at the end, or an error: TR_EUNSUPPORTED if the expression takes more steps or
 * memory on this text than one may spend, TR_ENOMEM. */
int tr_matches_next(struct tr_matches *m, size_t *ret_begin, size_t *ret_end);

#endif
