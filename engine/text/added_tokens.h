/*
 * The tokens that are looked for in the text itself, before it is cut: control tokens and whatever
 * else was added to the vocabulary.
 */
#ifndef TR_ENGINE_TEXT_ADDED_TOKENS_H
#define TR_ENGINE_TEXT_ADDED_TOKENS_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"
#include "engine/text/tokenizer.h"

enum tr_added_flags {
    TR_ADDED_SINGLE_WORD = 1, /* no word character may stand next to it */
    TR_ADDED_LSTRIP = 2,      /* takes the white space before it */
    TR_ADDED_RSTRIP = 4       /* takes the white space after it */
};

struct tr_added_token {
    size_t at, n; /* its text, in tr_added_set.text */
    int32_t id;
    unsigned flags;
};

/* Built by tr_added_add, then tr_added_finish, then immutable. A zeroed struct is empty. */
struct tr_added_set {
    struct tr_added_token *tokens; /* owned; in the order of their texts after tr_added_finish */
    size_t n, cap;
    struct tr_buf text;
    bool first[256]; /* bytes that a token begins with */
};

/* A token whose text is n >= 1 bytes. TR_ENOMEM. */
TR_NODISCARD int tr_added_add(struct tr_added_set *s, const char *text, size_t n, int32_t id,
                              unsigned flags);
/* TR_EFORMAT: two tokens have the same text. */
TR_NODISCARD int tr_added_finish(struct tr_added_set *s);
void tr_added_done(struct tr_added_set *s);

/* The tokens in one text, from left to right: the longest at each place. */
struct tr_added_scan {
    const struct tr_added_set *set;
    const char *text; /* valid UTF-8 */
    size_t n;
    const struct tr_range *plain; /* a token overlaps none of these; ascending */
    size_t n_plain;
    size_t base; /* where the text begins in what `plain` counts from */
    size_t at;   /* where to look on */
    size_t done; /* end of the last token with the white space it took; text goes on from here */
};

/* The next token: text goes on up to *ret_begin (which is not beyond the old `done` if there is
 * none), then comes *ret_id, up to the new `done`. false, with *ret_begin = n: there is no more. */
bool tr_added_next(struct tr_added_scan *scan, size_t *ret_begin, int32_t *ret_id);

#endif
