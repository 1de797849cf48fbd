/*
 * The vocabulary: ids, the text of each token in the file, the bytes it stands for, and the ways
 * back from both to the id.
 *
 * A byte-level vocabulary writes bytes in an alphabet of 256 printable characters: those that are
 * printable in Latin-1 stand for themselves, the other 68 are U+0100 and up.
 */
#ifndef TR_ENGINE_TEXT_VOCAB_H
#define TR_ENGINE_TEXT_VOCAB_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

enum tr_token_flags {
    TR_TOKEN_MODEL = 1,  /* of the BPE model: merges and pieces may produce it */
    TR_TOKEN_ADDED = 2,  /* looked for in the text itself; stands for its text literally */
    TR_TOKEN_SPECIAL = 4 /* a control token */
};

/* A part of tr_vocab.text. */
struct tr_slice {
    uint32_t at, n;
};

/* text and bytes are the same part where a token stands for its text literally: added tokens, and
 * texts that are not of the byte-level alphabet. */
struct tr_token {
    struct tr_slice text;  /* as in the file; n = 0: the id has no token */
    struct tr_slice bytes; /* what it stands for */
    unsigned flags;
};

/* An open-addressing table from texts or bytes to ids. */
struct tr_token_index {
    uint32_t *slots; /* id + 1; 0 = free */
    size_t mask;
};

struct tr_vocab {
    int size;                       /* ids [0, size) */
    struct tr_token *tokens;        /* owned, by id */
    struct tr_buf text;             /* owned; all texts, each followed by a NUL */
    struct tr_token_index by_text;  /* every token */
    struct tr_token_index by_bytes; /* those that tr_vocab_index_bytes was called for */
};

TR_NODISCARD int tr_vocab_init(struct tr_vocab *v, int size);
void tr_vocab_done(struct tr_vocab *v); /* a zeroed struct is fine */

/* Adds a token, or flags to the token if it is there already. TR_EINVAL: the id is out of range,
 * the text is empty or no UTF-8, or id or text belong to another token. TR_ENOMEM. */
TR_NODISCARD int tr_vocab_add(struct tr_vocab *v, int64_t id, const char *text, size_t n,
                              unsigned flags);
/* From now on tr_vocab_find_bytes finds the id by its bytes. Two tokens never have the same. */
void tr_vocab_index_bytes(struct tr_vocab *v, int32_t id);

int32_t tr_vocab_find(const struct tr_vocab *v, const char *text, size_t n);        /* -1 if none */
int32_t tr_vocab_find_bytes(const struct tr_vocab *v, const char *bytes, size_t n); /* -1 if none */

/* The token of an id, NULL if the id is out of range or has none. */
const struct tr_token *tr_vocab_token(const struct tr_vocab *v, int32_t id);
static inline const char *tr_vocab_text(const struct tr_vocab *v, struct tr_slice span)
{
    return v->text.data + span.at;
}

uint32_t tr_alphabet_char(unsigned char byte); /* the character that stands for a byte */

#endif
