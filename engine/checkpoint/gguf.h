/*
 * GGUF, versions 2 and 3: key-value metadata, tensor directory, data; one file or a split set.
 *
 * The header is read once, every count, length, type and offset is checked against the file, and
 * the values then stay where they are in the header's bytes. Splits of one set are one checkpoint:
 * the first holds the metadata, all of them tensors.
 */
#ifndef TR_ENGINE_CHECKPOINT_GGUF_H
#define TR_ENGINE_CHECKPOINT_GGUF_H

#include "engine/checkpoint/config.h"
#include "engine/checkpoint/source.h"

struct tr_gguf;
struct tr_tokenizer;

/* Opens the file and, if it is the first of a split set, the others beside it; adds their tensors
 * to the source and seals it. TR_EFORMAT, TR_EIO, TR_ENOMEM. */
TR_NODISCARD int tr__gguf_open(struct tr_gguf **ret, struct tr_source *s, const char *path,
                               struct tr_err *err);
struct tr_gguf *tr__gguf_close(struct tr_gguf *g); /* NULL ok; returns NULL */

/* The model's shape. A key that is missing has its one safe reading or is an error naming it. */
TR_NODISCARD int tr__gguf_config(const struct tr_gguf *g, struct tr_model_config *ret,
                                 struct tr_err *err);
/* The tokenizer, with the chat template, for a head of vocab_size rows. */
TR_NODISCARD int tr__gguf_tokenizer(const struct tr_gguf *g, int vocab_size,
                                    struct tr_tokenizer **ret, struct tr_err *err);

/* ---- metadata (gguf_values.c), for those who read it ---- */

enum tr_gguf_type {
    TR_GGUF_U8,
    TR_GGUF_I8,
    TR_GGUF_U16,
    TR_GGUF_I16,
    TR_GGUF_U32,
    TR_GGUF_I32,
    TR_GGUF_F32,
    TR_GGUF_BOOL,
    TR_GGUF_STRING,
    TR_GGUF_ARRAY,
    TR_GGUF_U64,
    TR_GGUF_I64,
    TR_GGUF_F64,
    TR_GGUF_TYPES
};

/* A value: `count` of `type`, one after the other. Borrowed from the struct tr_gguf. */
struct tr_gguf_value {
    enum tr_gguf_type type; /* of the elements of an array; never ARRAY */
    bool array;
    uint64_t count;      /* 1 if no array */
    const uint8_t *data; /* a string is u64 length and bytes */
};

/* The name of the first file, for messages. */
const char *tr__gguf_name(const struct tr_gguf *g);
bool tr__gguf_find(const struct tr_gguf *g, const char *key, struct tr_gguf_value *ret);
/* Scalars. `ret` keeps what it has if the key is absent and `required` is false. Any integer type
 * of at most 32 bits is an integer; F32 and F64 are numbers. Bounds are inclusive. */
TR_NODISCARD int tr__gguf_int(const struct tr_gguf *g, const char *key, bool required, int64_t min,
                              int64_t max, int64_t *ret, struct tr_err *err);
TR_NODISCARD int tr__gguf_double(const struct tr_gguf *g, const char *key, bool required,
                                 double min, double max, double *ret, struct tr_err *err);
TR_NODISCARD int tr__gguf_bool(const struct tr_gguf *g, const char *key, bool required, bool *ret,
                               struct tr_err *err);
/* *ret is not NUL-terminated. */
TR_NODISCARD int tr__gguf_string(const struct tr_gguf *g, const char *key, bool required,
                                 const char **ret, size_t *ret_n, struct tr_err *err);
/* Takes the next element off v: an integer or bool (false if it is neither, or too large for 63
 * bits), a string. v->count must be above 0. */
bool tr__gguf_next_int(struct tr_gguf_value *v, int64_t *ret);
bool tr__gguf_next_string(struct tr_gguf_value *v, const char **ret, size_t *ret_n);

#endif
