/*
 * Token bytes to text, one token at a time: what comes out is valid UTF-8 and whole characters
 * only.
 *
 * A token may end in the middle of a character; its beginning (at most three bytes) then waits for
 * the next token. Bytes that are no UTF-8 become U+FFFD exactly as Python's
 * bytes.decode("utf-8", "replace") makes them, however the bytes were cut into tokens.
 */
#ifndef TR_ENGINE_TEXT_DETOKENIZER_H
#define TR_ENGINE_TEXT_DETOKENIZER_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "engine/text/tokenizer.h"

/* One answer's state; a zeroed struct is at the beginning. Owns nothing. */
struct tr_detok {
    char tail[3];    /* the beginning of a character that is not whole yet */
    unsigned n_tail; /* bytes of it */
    size_t n_chars;  /* characters given out so far */
};

/* Appends the text that these bytes complete to out (its oom flag tells of failure). Returns the
 * place of their first byte in the text, counted in characters from 0: the text_offset of a token.
 * A token that begins inside a character has the place of that character. */
size_t tr_detok_bytes(struct tr_detok *d, const char *bytes, size_t n, struct tr_buf *out);

/* The same for the bytes of a token. An id without a token string, and a special token if
 * skip_special, has none. */
size_t tr_detok_token(struct tr_detok *d, const struct tr_tokenizer *t, int32_t id,
                      bool skip_special, struct tr_buf *out);

/* The text is at its end: an unfinished character is dropped if the answer was cut (length, stop
 * string, deadline), else becomes U+FFFD. */
void tr_detok_end(struct tr_detok *d, bool cut, struct tr_buf *out);

/* Appends the name of a token in the legacy logprobs arrays: its text, or bytes:\xNN\xNN if its
 * bytes are not valid UTF-8 by themselves or if as_bytes. An id without a token string has none. */
void tr_detok_name(const struct tr_tokenizer *t, int32_t id, bool as_bytes, struct tr_buf *out);

#endif
