/*
 * Cutting a text into the pieces that are encoded one by one: the pre_tokenizer of a
 * tokenizer.json.
 *
 * A list of splits runs, each inside the pieces of the one before, so that \A, \G and lookarounds
 * of an expression see one piece as the whole text.
 */
#ifndef TR_ENGINE_TEXT_PRETOKENIZER_H
#define TR_ENGINE_TEXT_PRETOKENIZER_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"
#include "config/json.h"
#include "engine/text/pattern.h"

struct tr_pretokenizer; /* immutable */

/* From the value of "pre_tokenizer": null, Split, Digits, ByteLevel, or a Sequence of those with a
 * ByteLevel at its end only. Errors name what is not supported. */
TR_NODISCARD int tr_pretokenizer_new(struct tr_pretokenizer **ret, const struct tr_json *v,
                                     struct tr_err *err);
/* From the name in a GGUF file: "afmoe", "gpt-2" or "gpt2", "default". TR_EUNSUPPORTED names
 * others. */
TR_NODISCARD int tr_pretokenizer_named(struct tr_pretokenizer **ret, const char *name,
                                       struct tr_err *err);
struct tr_pretokenizer *tr_pretokenizer_free(struct tr_pretokenizer *p); /* NULL ok; returns NULL */

bool tr_pretokenizer_byte_level(const struct tr_pretokenizer *p); /* pieces are bytes */
bool tr_pretokenizer_drops(const struct tr_pretokenizer *p);      /* some text may be in no piece */

/* Takes one piece, n >= 1 bytes; valid during the call only. Not 0: stop, and return that. */
typedef int (*tr_piece_fn)(void *arg, const char *piece, size_t n);

/* Calls fn for each piece of valid text, in order. Errors: fn's; those of tr_matches_next. */
TR_NODISCARD int tr_pretokenizer_run(const struct tr_pretokenizer *p, struct tr_match_space *space,
                                     const char *text, size_t n, tr_piece_fn fn, void *arg);

#endif
