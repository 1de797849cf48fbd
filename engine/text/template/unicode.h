/*
 * What Python's str methods know of Unicode: UTF-8 steps, character classes and full case mapping.
 *
 * Every text that reaches these functions is valid UTF-8 (the JSON reader and the template loader
 * see to it), so decoding does not check.
 */
#ifndef TR_ENGINE_TEXT_TEMPLATE_UNICODE_H
#define TR_ENGINE_TEXT_TEMPLATE_UNICODE_H

#include <stdbool.h>

#include "config/base.h"

/* The code point at s, its length in *n (1..4). */
uint32_t tr_uni_decode(const char *s, size_t *n);
/* Writes c at out (at least 4 bytes), returns the length. */
size_t tr_uni_encode(uint32_t c, char *out);
/* Code points in n bytes. */
size_t tr_uni_count(const char *s, size_t n);
/* Bytes of the first `chars` code points of s, at most n. */
size_t tr_uni_skip(const char *s, size_t n, size_t chars);
/* The first byte of the last code point of s[0..n), n > 0. */
size_t tr_uni_last(const char *s, size_t n);
/* Whether n bytes are UTF-8 without surrogates. *ret_bad is the first offending offset. */
bool tr_uni_valid(const char *s, size_t n, size_t *ret_bad);

bool tr_uni_space(uint32_t c);     /* str.isspace */
bool tr_uni_printable(uint32_t c); /* str.isprintable */
bool tr_uni_alpha(uint32_t c);
bool tr_uni_digit(uint32_t c);
bool tr_uni_decimal(uint32_t c);
bool tr_uni_numeric(uint32_t c);
bool tr_uni_cased(uint32_t c);
bool tr_uni_case_ignorable(uint32_t c);

enum tr_uni_case { TR_UNI_UPPER, TR_UNI_LOWER, TR_UNI_TITLE };
/* The full mapping of one character: up to 3 code points into out, returns how many. The final
 * sigma is the caller's matter, as it depends on the neighbours. */
int tr_uni_map(uint32_t c, enum tr_uni_case to, uint32_t out[3]);

#endif
