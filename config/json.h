/*
 * JSON in, checked: bytes or a file to a jansson document, and typed access that says where a value
 * is wrong.
 *
 * Access goes through cursors (struct tr_json), small values that remember the way from the root,
 * so that an error can say "config.json: rope_parameters.rope_theta: expected number, found string"
 * without anybody building that text before it is needed. A cursor points at its parent cursor:
 * keep the parent alive and in place while the child is in use (locals of the same function and of
 * its callers are fine).
 *
 * Rules: duplicate keys, lone surrogates, NUL in keys and nesting deeper than TR_JSON_MAX_DEPTH are
 * errors; NUL in strings is a character. null counts as absent for optional values. 16.0 is an
 * integer. Integers have any number of digits, and keep them. Error texts never contain bytes of
 * the input other than the printable ASCII of keys.
 */
#ifndef TR_CONFIG_JSON_H
#define TR_CONFIG_JSON_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

struct json_t; /* jansson's; files that include jansson.h may use node pointers directly */

enum {
    TR_JSON_MAX_DEPTH = 200,
    /* A document from outside takes at most TR_JSON_FACTOR times its text and TR_JSON_FREE, and at
     * most TR_JSON_MAX_BYTES. */
    TR_JSON_FACTOR = 24,
    TR_JSON_FREE = 32 << 20,
    TR_JSON_MAX_BYTES = 256 << 20
};

/* Any JSON value, scalars included. TR_EINVAL with line, column and byte position, or because its
 * values would take too much memory; TR_ENOMEM. Free the document with tr_json_free.
 * Thread-safe. */
TR_NODISCARD int tr_json_parse(struct json_t **ret, const void *bytes, size_t n,
                               struct tr_err *err);
/* Same for a file of at most max_bytes, which is the bound of its memory; a byte order mark is
 * passed over. TR_EIO (errno text),
 * TR_EFORMAT (position, too large). */
TR_NODISCARD int tr_json_read(struct json_t **ret, const char *file, size_t max_bytes,
                              struct tr_err *err);
struct json_t *tr_json_free(struct json_t *doc); /* NULL ok; returns NULL */

enum tr_json_type {
    TR_JSON_ABSENT, /* no such member */
    TR_JSON_NULL,
    TR_JSON_BOOL,
    TR_JSON_NUMBER,
    TR_JSON_STRING,
    TR_JSON_ARRAY,
    TR_JSON_OBJECT
};

struct tr_json {
    struct json_t *node;      /* borrowed from the document; NULL = absent */
    const struct tr_json *up; /* NULL at the root */
    const char *key;          /* borrowed: member name, at the root the file name; else NULL */
    size_t key_bytes;         /* length of key */
    size_t index;             /* place in the array */
};

/* The root cursor. file (borrowed, NULL for requests) prefixes messages; with it typed access fails
 * with TR_EFORMAT, without it with TR_EINVAL. */
struct tr_json tr_json_root(struct json_t *doc, const char *file);
/* The member of that name; absent if there is none or `object` is no object. */
struct tr_json tr_json_get(const struct tr_json *object, const char *key);
/* Element i; absent beyond the end or if `array` is no array. */
struct tr_json tr_json_at(const struct tr_json *array, size_t i);
/* Walks the members in file order: start with *iter = NULL; false at the end (and for no
 * object). */
bool tr_json_next(const struct tr_json *object, void **iter, struct tr_json *ret);

enum tr_json_type tr_json_type(const struct tr_json *v);
bool tr_json_given(const struct tr_json *v);      /* present and not null */
bool tr_json_is_integer(const struct tr_json *v); /* a number written without . and e */
/* The digits and sign of an integer that int64 does not hold; NULL if v is none. As a double it may
 * be infinite. Borrowed from the document. */
const char *tr_json_big(const struct tr_json *v);
size_t tr_json_size(const struct tr_json *v); /* elements or members; 0 for everything else */

/* Fails at this value: fills err with "path: text" and param = path, returns the code (see
 * tr_json_root). */
int tr_json_fail(const struct tr_json *v, struct tr_err *err, const char *fmt, ...) TR_PRINTF(3, 4);

/* Typed access to the value itself; absent and null are errors. Bounds are inclusive. On failure
 * *ret is untouched. */
TR_NODISCARD int tr_json_expect(const struct tr_json *v, enum tr_json_type type,
                                struct tr_err *err);
TR_NODISCARD int tr_json_as_int(const struct tr_json *v, int64_t min, int64_t max, int64_t *ret,
                                struct tr_err *err);
/* Any integer from -2^63 to 2^64-1, as its 64 bits. */
TR_NODISCARD int tr_json_as_word(const struct tr_json *v, uint64_t *ret, struct tr_err *err);
TR_NODISCARD int tr_json_as_double(const struct tr_json *v, double min, double max, double *ret,
                                   struct tr_err *err);
TR_NODISCARD int tr_json_as_bool(const struct tr_json *v, bool *ret, struct tr_err *err);
/* *ret is borrowed from the document, valid UTF-8, NUL-terminated, and may hold NULs: ret_n (NULL
 * allowed only if the caller refuses those; then a NUL inside is an error) is its length. */
TR_NODISCARD int tr_json_as_string(const struct tr_json *v, const char **ret, size_t *ret_n,
                                   struct tr_err *err);

/* The same for a member that must be there. */
TR_NODISCARD int tr_json_int(const struct tr_json *object, const char *key, int64_t min,
                             int64_t max, int64_t *ret, struct tr_err *err);
TR_NODISCARD int tr_json_double(const struct tr_json *object, const char *key, double min,
                                double max, double *ret, struct tr_err *err);
TR_NODISCARD int tr_json_bool(const struct tr_json *object, const char *key, bool *ret,
                              struct tr_err *err);
TR_NODISCARD int tr_json_string(const struct tr_json *object, const char *key, const char **ret,
                                size_t *ret_n, struct tr_err *err);
TR_NODISCARD int tr_json_array(const struct tr_json *object, const char *key, struct tr_json *ret,
                               struct tr_err *err);
TR_NODISCARD int tr_json_object(const struct tr_json *object, const char *key, struct tr_json *ret,
                                struct tr_err *err);

/* The same for an optional member: absent or null leaves *ret as it is (put the default there
 * first). For arrays and objects *ret becomes an absent cursor then: size 0, every lookup in it
 * absent. */
TR_NODISCARD int tr_json_opt_int(const struct tr_json *object, const char *key, int64_t min,
                                 int64_t max, int64_t *ret, struct tr_err *err);
TR_NODISCARD int tr_json_opt_double(const struct tr_json *object, const char *key, double min,
                                    double max, double *ret, struct tr_err *err);
TR_NODISCARD int tr_json_opt_bool(const struct tr_json *object, const char *key, bool *ret,
                                  struct tr_err *err);
TR_NODISCARD int tr_json_opt_string(const struct tr_json *object, const char *key, const char **ret,
                                    size_t *ret_n, struct tr_err *err);
TR_NODISCARD int tr_json_opt_array(const struct tr_json *object, const char *key,
                                   struct tr_json *ret, struct tr_err *err);
TR_NODISCARD int tr_json_opt_object(const struct tr_json *object, const char *key,
                                    struct tr_json *ret, struct tr_err *err);

/* Appends s as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD, byte by byte. */
void tr_json_quote(struct tr_buf *b, const char *s, size_t n);
/* Appends the value as compact JSON; nothing given is null. */
void tr_json_write(struct tr_buf *b, const struct tr_json *v);

#endif
