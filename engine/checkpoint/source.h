/*
 * The tensors of a checkpoint as its files describe them, whatever the format: where each one's
 * bytes are, in which type, in which shape. Nothing here has been read but headers.
 */
#ifndef TR_ENGINE_CHECKPOINT_SOURCE_H
#define TR_ENGINE_CHECKPOINT_SOURCE_H

#include "config/buf.h"
#include "engine/checkpoint/file.h"
#include "engine/kernels/kernels.h"

enum {
    TR_MAX_DIMS = 8,
    TR_MAX_FILES = 512, /* shards or split files; every one is open while loading */
    TR_MAX_TENSORS = 1 << 21,
    TR_MAX_NAME = 255 /* bytes of a tensor's name */
};

struct tr_tensor {
    char *name;                 /* owned; printable ASCII */
    const char *type_name;      /* static; the format's word: "BF16", "Q4_K", "I64" */
    enum tr_wtype type;         /* TR_W_COUNT: a type that no weight may have */
    int n_dims;                 /* 0 = a scalar */
    uint64_t dims[TR_MAX_DIMS]; /* outermost first */
    int file;                   /* index in the source's files */
    uint64_t offset;            /* of the first byte in the file */
    uint64_t bytes;
    bool used;                     /* some weight is read from it */
    bool part;                     /* belongs to a quantised matrix, or to no weight at all */
    struct tr_quant *quant;        /* owned; the matrix is kept in several parts (quant.h) */
    const struct tr_tensor *scale; /* F32: what its values are to be multiplied by, one number for
                                      each of the outermost of three dimensions; NULL: nothing */
};

struct tr_quant;

struct tr_source {
    struct tr_file *files; /* [TR_MAX_FILES], n_files open */
    int n_files;
    struct tr_tensor *tensors; /* sorted by name after tr__source_seal */
    size_t n_tensors, cap;
    struct tr_buf warnings; /* lines: what is odd and no error */
};

TR_NODISCARD int tr__source_init(struct tr_source *s, struct tr_err *err);
void tr__source_done(struct tr_source *s); /* a zeroed struct is fine */

/* Opens one more file; its index in *ret. */
TR_NODISCARD int tr__source_add_file(struct tr_source *s, const char *path, int *ret,
                                     struct tr_err *err);
/* Adds a copy of *t under the given name (n bytes, need not end with NUL), which becomes t->name.
 * TR_EFORMAT for a name no message could show. */
TR_NODISCARD int tr__source_add(struct tr_source *s, const struct tr_tensor *t, const char *name,
                                size_t n, struct tr_err *err);
/* After the last tensor: sorts them; TR_EFORMAT if a name occurs twice. */
TR_NODISCARD int tr__source_seal(struct tr_source *s, struct tr_err *err);
/* NULL if there is none of that name; only after tr__source_seal. */
struct tr_tensor *tr__source_find(const struct tr_source *s, const char *name);

/* Adds a line to the warnings. */
void tr__source_warn(struct tr_source *s, const char *fmt, ...) TR_PRINTF(2, 3);

/* Printable ASCII without spaces, 1 to TR_MAX_NAME bytes: may stand in a message as it is. */
bool tr__name_printable(const char *name, size_t n);
/* Elements of the shape; false if the product does not fit 63 bits. */
bool tr__tensor_elements(const struct tr_tensor *t, uint64_t *ret);
/* "[8, 64]" */
void tr__tensor_show_shape(struct tr_buf *b, const uint64_t *dims, int n_dims);

/* A list of names for one message: "a, b, c and 17 more". Holds its text by value. */
struct tr_names {
    size_t n;       /* names added */
    size_t shown;   /* of those, in text */
    char text[256]; /* the names that fit, with ", " between */
};
void tr__names_add(struct tr_names *names, const char *name);
/* " and 17 more", or "" if all are shown; static buffer of the caller's, 32 bytes. */
const char *tr__names_rest(const struct tr_names *names, char rest[32]);

#endif
