/*
 * Guesses of what a sequence will say, from what it (or its prompt) said before: where the last
 * three tokens stood earlier, the tokens after them are the draft. Verified in the same step as the
 * next token, so a wrong guess costs a row and a right one saves a step; the answer stays the same.
 */
#ifndef TR_ENGINE_SCHEDULE_NGRAM_H
#define TR_ENGINE_SCHEDULE_NGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "config/err.h"

struct tr_ngram {
    int32_t *last; /* [mask + 1]: where a trigram with that hash ended last; owned */
    uint32_t mask;
    int n_seen;  /* trigrams ending before this place are in the table */
    int length;  /* drafts to try: grows with success */
    int rest;    /* steps to sit out after failures, */
    int penalty; /* more each time */
};

/* What tr_ngram_init allocates. */
size_t tr_ngram_bytes(int max_ids);
TR_NODISCARD int tr_ngram_init(struct tr_ngram *g, int max_ids);
void tr_ngram_done(struct tr_ngram *g);
/* Writes at most `max` guesses behind ids[0, n); returns how many. */
int tr_ngram_draft(struct tr_ngram *g, int32_t *ids, int n, int max);
/* How many of the drafts were right. */
void tr_ngram_learn(struct tr_ngram *g, int drafts, int accepted);

#endif
