/* Strings whose parts remember their origin: reading, cutting, joining, and writing values as
 * text. */
#ifndef TR_ENGINE_TEXT_TEMPLATE_TEXT_H
#define TR_ENGINE_TEXT_TEMPLATE_TEXT_H

#include "engine/text/template/value.h"

size_t tr_tpl_chars(struct tpl_str *s); /* code points */
/* Bytes before code point i (at most the whole). */
size_t tr_tpl_offset(struct tpl_str *s, size_t i);
enum tpl_origin tr_tpl_origin_at(const struct tpl_str *s, size_t byte);

/* Appends bytes from..to of s to the text in the making, with their origins. */
void tr_tpl_put_part(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to);
void tr_tpl_put_str(struct tpl_vm *vm, const struct tpl_str *s);
/* The text above the mark as a string; the text ends at the mark then. */
struct tpl_value tr_tpl_cut(struct tpl_vm *vm, size_t mark);
/* Bytes from..to as a string that shares them. */
struct tpl_value tr_tpl_part(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to);
/* a + b. Appending again and again to the same string is linear. */
struct tpl_value tr_tpl_concat(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b);
/* The same string with or without the markup mark. */
struct tpl_value tr_tpl_with_markup(struct tpl_vm *vm, struct tpl_value s, bool markup);

/* Offset of the first / last occurrence of `what` in bytes from..to of s; -1 = none. */
int64_t tr_tpl_find(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to,
                    const struct tpl_str *what);
int64_t tr_tpl_rfind(struct tpl_vm *vm, const struct tpl_str *s, size_t from, size_t to,
                     const struct tpl_str *what);

/* Walks the code points of a string with their origins. */
struct tpl_reader {
    const struct tpl_str *s;
    size_t at;      /* next byte */
    uint32_t piece; /* that it lies in */
};
bool tr_tpl_read(struct tpl_reader *r, uint32_t *ret_c, enum tpl_origin *ret_origin);

/* str(v) and repr(v), appended. */
void tr_tpl_put_value(struct tpl_vm *vm, struct tpl_value v);
void tr_tpl_put_repr(struct tpl_vm *vm, struct tpl_value v);
/* str(v); strings are returned as they are, markup too. */
struct tpl_value tr_tpl_to_str(struct tpl_vm *vm, struct tpl_value v);

/* json.dumps. */
struct tpl_json_style {
    bool ensure_ascii, sort_keys;
    const struct tpl_str *indent; /* NULL = one line */
    const struct tpl_str *item_separator, *key_separator;
};
void tr_tpl_put_json(struct tpl_vm *vm, struct tpl_value v, const struct tpl_json_style *style);

/* Numbers. */
enum { TPL_FLOAT_CHARS = 400 };
/* repr(float) into out, returns the length. */
size_t tr_tpl_float_text(double f, char out[static TPL_FLOAT_CHARS]);
/* int(s, base) and float(s) of Python: false if the text is none. Out of the int64 range fails. */
bool tr_tpl_parse_int(struct tpl_vm *vm, const struct tpl_str *s, int base, int64_t *ret);
bool tr_tpl_parse_float(struct tpl_vm *vm, const struct tpl_str *s, double *ret);

#endif
