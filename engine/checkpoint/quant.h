/*
 * Quantised matrices of safetensors: a module's weight that is kept in several tensors.
 *
 * tr__quant_find looks for them by the tensors that a module has, whatever config.json lists say,
 * and gives the source one tensor "MODULE.weight" of the matrix' own shape for each, with a struct
 * tr_quant that says how to read it. From there it is a tensor as any other.
 *
 * Every scheme is, for row r and column j, in exact arithmetic before the last rounding to float
 *     w = (code[r][j] - zero[r][g]) * scale[r][g] + bias[r][g],      g = group of j
 * with floating-point codes (E2M1, E4M3) taken as integers of a fixed unit.
 */
#ifndef TR_ENGINE_CHECKPOINT_QUANT_H
#define TR_ENGINE_CHECKPOINT_QUANT_H

#include "engine/checkpoint/quant_config.h"
#include "engine/checkpoint/source.h"

enum tr_scheme {
    TR_SCHEME_PACKED, /* integers, packed along the rows; scale, perhaps zero points and g_idx */
    TR_SCHEME_INT8,   /* an int8 each */
    TR_SCHEME_FP8,    /* an E4M3 each; a scale for a matrix, a row, a block or 32 columns */
    TR_SCHEME_NVFP4,  /* two E2M1 a byte, an E4M3 for 16 columns, a factor for the matrix */
    TR_SCHEME_MXFP4,  /* two E2M1 a byte, an E8M0 for 32 columns */
    TR_SCHEME_GPTQ,   /* integers, packed along the columns, transposed */
    TR_SCHEME_AWQ,    /* the same, packed along the rows in an order of its own */
    TR_SCHEME_MLX     /* integers, packed; scales and biases */
};

/* One tensor of a module, as rows and columns of elements. */
struct tr_part {
    int file;
    uint64_t offset;
    uint64_t rows, cols; /* 0 rows: the module has none */
    unsigned bytes;      /* of an element */
    const char *type;    /* static: "BF16", "I32" */
};

struct tr_quant {
    enum tr_scheme scheme;
    uint64_t rows; /* of the matrix, stacked ones one after the other */
    int k;
    int bits;       /* of an integer code */
    int group;      /* columns that share a scale */
    int block_rows; /* rows that do */
    bool minus_one; /* stored zero points are less one */
    bool symmetric; /* all zero points are in the middle */
    bool over;      /* `factor` divides the scales, else it multiplies them */
    float factor;
    struct tr_part codes, scales, zeros, biases;
    struct tr_part index; /* column -> group, where that is not column / group */
    int lowest, highest;  /* bounds of code - zero, in the codes' unit */
    uint64_t bytes;       /* of all parts */
    enum tr_wtype kept;   /* the type that holds it without loss; TR_W_Q8_0 or TR_W_BF16: none does,
                             this is the nearest at its size */
    char stored[64];      /* "int4, groups of 128": for people */
};

/* Gives the sealed source a tensor for each quantised matrix; its parts are marked. TR_EFORMAT: a
 * part is missing, of another shape or type than the scheme has, or nothing known; TR_EIO,
 * TR_ENOMEM. */
TR_NODISCARD int tr__quant_find(struct tr_source *s, const struct tr_quant_config *config,
                                struct tr_err *err);

/* May the matrix' codes and scales be taken over into this type? */
bool tr__quant_holds(const struct tr_quant *q, enum tr_wtype type);

#endif
