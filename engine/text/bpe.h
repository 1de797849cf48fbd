/*
 * Byte pair encoding: the merges of a vocabulary, and one piece of text to ids.
 *
 * A piece begins as the tokens of its bytes (or, without a byte-level alphabet, of its characters).
 * The adjacent pair with the lowest rank is merged, the leftmost among equals, until no pair has a
 * rank. A heap makes that n log n for a piece of n symbols.
 */
#ifndef TR_ENGINE_TEXT_BPE_H
#define TR_ENGINE_TEXT_BPE_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocab.h"

struct tr_merge {
    int32_t left, right; /* left = -1: a free slot */
    uint32_t rank;
    int32_t id; /* of both together */
};

struct tr_bpe {
    struct tr_vocab *vocab;  /* borrowed */
    bool byte_level;         /* symbols are bytes, not characters */
    bool ignore_merges;      /* a piece that is a token is that token */
    int32_t byte_ids[256];   /* -1 = no token: such a byte vanishes */
    struct tr_merge *merges; /* owned; hash table by (left, right) */
    size_t mask;
    int32_t *merged; /* owned; rank to id */
    uint32_t n_merges, max_merges;
};

/* Room for max_merges merges; all tokens of the model must be in vocab already. */
TR_NODISCARD int tr_bpe_init(struct tr_bpe *b, struct tr_vocab *vocab, size_t max_merges,
                             bool byte_level, bool ignore_merges);
void tr_bpe_done(struct tr_bpe *b); /* a zeroed struct is fine */

/* The merge of the next rank, by token texts. TR_EINVAL: left, right or both together is no token
 * of the model. TR_ENOMEM. */
TR_NODISCARD int tr_bpe_add_merge(struct tr_bpe *b, const char *left, size_t n_left,
                                  const char *right, size_t n_right);
/* After the last merge: looks up the pieces that are one token, so that most words of a text need
 * no merging. */
TR_NODISCARD int tr_bpe_finish(struct tr_bpe *b);
bool tr_bpe_complete(const struct tr_bpe *b); /* every byte has a token */

/* Memory of one encoding, reused from piece to piece. A zeroed struct is empty. */
struct tr_bpe_space {
    struct tr_bpe_symbol *symbols;
    uint64_t *heap; /* rank << 32 | position */
    size_t n_heap, max_symbols, max_heap;
};
void tr_bpe_space_done(struct tr_bpe_space *s);

/* Appends the ids of a piece of n >= 1 bytes, valid UTF-8. TR_ENOMEM, TR_ETOOLONG (beyond 2^31). */
TR_NODISCARD int tr_bpe_encode(const struct tr_bpe *b, struct tr_bpe_space *s, const char *text,
                               size_t n, struct tr_ids *out);

TR_NODISCARD int tr_ids_add(struct tr_ids *ids, int32_t id);

#endif
