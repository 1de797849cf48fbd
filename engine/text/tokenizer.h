/*
 * Byte-level BPE as the checkpoint's tokenizer.json (or a GGUF's vocabulary) describes it.
 *
 * A loaded tokenizer is immutable: every function that takes a const pointer may be called from any
 * thread at the same time.
 */
#ifndef TR_ENGINE_TEXT_TOKENIZER_H
#define TR_ENGINE_TEXT_TOKENIZER_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

struct tr_tokenizer;

/* Bytes begin..end of a text. */
struct tr_range {
    size_t begin, end;
};

/* Reads DIR/tokenizer.json, and what there is of tokenizer_config.json (else
 * special_tokens_map.json), generation_config.json and config.json. vocab_size is the number of
 * rows of the head: ids without a token string up to it are padding, more are an error. */
TR_NODISCARD int tr_tokenizer_load(struct tr_tokenizer **ret, const char *dir, int vocab_size,
                                   struct tr_err *err);

/* From GGUF metadata; every pointer is borrowed for the call only. Strings are length-counted. */
struct tr_vocab_source {
    const char *const *tokens;   /* n_tokens texts in the byte-level alphabet */
    const uint32_t *token_bytes; /* their lengths */
    /* ggml token types: 1 normal, 2 unknown, 3 control, 4 user, 5 unused, 6 byte */
    const int32_t *types;
    int n_tokens;
    const char *const *merges; /* "a b" */
    const uint32_t *merge_bytes;
    int n_merges;
    const char *pre;                    /* tokenizer.ggml.pre: "afmoe", ... */
    int bos_id, eos_id, pad_id, eot_id; /* -1 = not stated */
    bool add_bos;
    const char *chat_template; /* NULL = none */
    const char *tool_template; /* of chats with tools; NULL = none */
};
TR_NODISCARD int tr_tokenizer_from_vocab(struct tr_tokenizer **ret,
                                         const struct tr_vocab_source *src, struct tr_err *err);
struct tr_tokenizer *tr_tokenizer_free(struct tr_tokenizer *t); /* NULL ok; returns NULL */

enum tr_encode_flags {
    TR_ENCODE_SPECIAL =
        1, /* added and special tokens in the text become their ids (Hugging Face's default) */
    TR_ENCODE_BOS =
        2 /* apply the post-processor / add_bos_token; no second BOS if the text begins with it */
};

/* Growing array of ids; a zeroed struct is empty. Owned by the caller: free(ids). */
struct tr_ids {
    int32_t *ids;
    size_t n, cap;
};

/* Appends the ids of text (bytes, need not be NUL-terminated; NUL is a character). At most n log n
 * in n. Nothing is appended on failure: TR_ETOOLONG as soon as more than max_ids would come out (0
 * = no limit); TR_EINVAL, not UTF-8; TR_EUNSUPPORTED, an expression of the checkpoint (none of the
 * Trinity family's own) takes more steps on this text than one may spend; TR_ENOMEM. */
TR_NODISCARD int tr_tokenizer_encode(const struct tr_tokenizer *t, const char *text, size_t n,
                                     unsigned flags, size_t max_ids, struct tr_ids *out);

/* Like tr_tokenizer_encode, but added and special tokens are not recognised where they overlap one
 * of the n_plain ranges (ascending, disjoint): that text is encoded as what it spells. The rest of
 * the pipeline sees one text, so merges across the borders stay as they are. */
TR_NODISCARD int tr_tokenizer_encode_spans(const struct tr_tokenizer *t, const char *text, size_t n,
                                           const struct tr_range *plain, size_t n_plain,
                                           unsigned flags, size_t max_ids, struct tr_ids *out);

/* The bytes a token stands for, NULL if the id has no token string (padding rows). *ret_special: a
 * control token, left out of text when special tokens are skipped. The pointer lives as long as the
 * tokenizer. */
const char *tr_tokenizer_piece(const struct tr_tokenizer *t, int32_t id, size_t *ret_n,
                               bool *ret_special);
/* The token as it stands in the vocabulary file (byte-level alphabet), for token strings; NULL if
 * none. */
const char *tr_tokenizer_raw(const struct tr_tokenizer *t, int32_t id);

int tr_tokenizer_size(const struct tr_tokenizer *t); /* vocab_size */
bool tr_tokenizer_has_id(const struct tr_tokenizer *t,
                         int32_t id); /* in range and with a token string */
/* Whether the id is an added token: found in a text by its spelling, never made by merges. */
bool tr_tokenizer_is_added(const struct tr_tokenizer *t, int32_t id);
int32_t tr_tokenizer_find(const struct tr_tokenizer *t, const char *token,
                          size_t n);                    /* added token or piece by its text; -1 */
int32_t tr_tokenizer_bos(const struct tr_tokenizer *t); /* -1 if none */
int32_t tr_tokenizer_eos(const struct tr_tokenizer *t);
int32_t tr_tokenizer_pad(const struct tr_tokenizer *t);
bool tr_tokenizer_adds_bos(const struct tr_tokenizer *t);
/* End-of-generation ids: eos of generation_config (else config) and tokenizer_config, <|im_end|>,
 * <|end_of_text|>, <|begin_of_text|> where they exist. Ascending. */
const int32_t *tr_tokenizer_eog(const struct tr_tokenizer *t, int *ret_n);
/* Whether every text comes back from its ids: bytes of a text are never changed or dropped. */
bool tr_tokenizer_is_exact(const struct tr_tokenizer *t);
/* The chat template source of the checkpoint folder, NULL if none. */
const char *tr_tokenizer_chat_template(const struct tr_tokenizer *t);
/* The one for chats with tools (the template named tool_use), if it is another; NULL = none. */
const char *tr_tokenizer_tool_template(const struct tr_tokenizer *t);

#endif
