/* Reading rows of quantised matrices: as floats, or their codes and scales in another format. */
#ifndef TR_ENGINE_CHECKPOINT_QUANT_ROWS_H
#define TR_ENGINE_CHECKPOINT_QUANT_ROWS_H

#include "config/hash.h"
#include "engine/checkpoint/quant.h"

/* Some rows of a matrix in memory, and one of them taken apart. A zeroed struct is empty. */
struct tr_quant_rows {
    const struct tr_quant *q;
    uint64_t first;
    int n;
    struct tr_window {
        uint8_t *data;
        size_t cap;
        uint64_t row0, col0, cols; /* which part of the part it is */
    } codes, scales, zeros, biases, index;
    int32_t *value; /* [k] code - zero of the row */
    double *scale;  /* [groups] */
    double *bias;   /* [groups] */
    size_t cap_k;
    int32_t e4m3[256]; /* FP8: the codes' values */
};

void tr__quant_rows_done(struct tr_quant_rows *r);

/* Reads rows [first, first + n); *ret_hash = hash of what was read. The tensor's name is for
 * messages. TR_EIO, TR_ENOMEM. */
TR_NODISCARD int tr__quant_rows_read(struct tr_quant_rows *r, const struct tr_source *s,
                                     const struct tr_tensor *t, uint64_t first, int n,
                                     struct tr_hash *ret_hash, struct tr_err *err);
/* About how many bytes that reads. */
uint64_t tr__quant_rows_bytes(const struct tr_quant *q, int n);

/* Row i of those that were read, as floats [k], each rounded once. TR_EFORMAT: a code or a scale is
 * not a number. */
TR_NODISCARD int tr__quant_rows_floats(struct tr_quant_rows *r, int i, float *y,
                                       struct tr_err *err);
/* The same row in the file format of a type that holds it (tr__quant_holds). */
TR_NODISCARD int tr__quant_rows_blocks(struct tr_quant_rows *r, int i, enum tr_wtype type,
                                       uint8_t *row, struct tr_err *err);

#endif
