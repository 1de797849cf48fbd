/*
 * UTF-8 and the few character properties that tokenizing needs. The only file that knows utf8proc.
 *
 * Text that has passed tr_utf8_valid once is read with tr_utf8_at, which checks nothing.
 */
#ifndef TR_ENGINE_TEXT_UNICODE_H
#define TR_ENGINE_TEXT_UNICODE_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

/* What stands at p[0..n), n >= 1: k > 0, a character of k bytes; 0, the beginning of a character
 * that is longer than n; -k, k bytes that begin no character (the maximal part that Unicode and
 * Python's "replace" turn into one U+FFFD). *ret (NULL ok) is the code point if the result is >
 * 0. */
int tr_utf8_scan(const char *p, size_t n, uint32_t *ret);

bool tr_utf8_valid(const char *text, size_t n);

/* Appends code point c (a scalar value) as UTF-8. */
void tr_utf8_put(struct tr_buf *b, uint32_t c);

/* The character at p of valid text and its length. */
static inline uint32_t tr_utf8_at(const char *text, size_t *ret_n)
{
    const unsigned char *p = (const unsigned char *)text;

    if (p[0] < 0x80) {
        *ret_n = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *ret_n = 2;
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    }
    if (p[0] < 0xF0) {
        *ret_n = 3;
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *ret_n = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* Where the character that ends before text[at] begins; at >= 1, valid text. */
static inline size_t tr_utf8_before(const char *text, size_t at)
{
    do
        at--;
    while ((text[at] & 0xC0) == 0x80);
    return at;
}

/* Classes of characters: general categories L, M, Nd, Nl and No, P, S; the property White_Space;
 * carriage return and line feed (which are white space too). */
enum tr_char_class {
    TR_CHAR_LETTER = 1,
    TR_CHAR_MARK = 2,
    TR_CHAR_DIGIT = 4,
    TR_CHAR_NUMBER = 8,
    TR_CHAR_PUNCT = 16,
    TR_CHAR_SYMBOL = 32,
    TR_CHAR_SPACE = 64,
    TR_CHAR_BREAK = 128
};

extern const unsigned char tr_char_ascii[128];
unsigned tr_char_class_slow(uint32_t c);

static inline unsigned tr_char_class(uint32_t c)
{
    return c < 128 ? tr_char_ascii[c] : tr_char_class_slow(c);
}

/* A word character as Unicode's regular expressions have it: alphabetic, mark, decimal digit,
 * connector, joiner. */
bool tr_char_is_word(uint32_t c);

enum tr_unicode_form { TR_NFC, TR_NFD, TR_NFKC, TR_NFKD };

/* Appends the normal form of valid text. TR_ENOMEM, TR_ETOOLONG. */
TR_NODISCARD int tr_unicode_normalize(enum tr_unicode_form form, const char *text, size_t n,
                                      struct tr_buf *out);

#endif
