/*
 * "P16" panels: how pack.c lays a matrix out and the gemm kernels read it.
 *
 * A panel is 16 output columns (rows of W) side by side with k ascending; it is read once, front to
 * back, in lines of 64 bytes. In a line, column j owns bytes [4j, 4j+4): a line is one AVX-512
 * register, two AVX2 ones, or a row of an AMX B tile. Panel p begins at p * tr__panel_bytes.
 *
 * F16: a line is 2 k, each 16 fp16 (the exception to the rule above: k-major within the line).
 *
 * BF16: a line is a pair (k, k+1), column j's even k in its low half. k is padded to 32 with zeros:
 * 16 lines are one AMX tile.
 *
 * Quantised types: a block is 32 k of 16 columns. A "quad" q is the 4 k from 4q on, q = 0..7: in
 * its line, byte 4j+b belongs to column j, k = 4q + b. A group is some blocks followed by their
 * scales. A group that k does not fill is allocated whole; its unused blocks are zero and never
 * read.
 *
 *   type  lines of a block                        blocks  scale lines of a group
 *   Q8_0  8: quads 0..7 as value xor 0x80         2       1: fp16 d[2 blocks][16]
 *   Q4_0  4: line i = quads i (low nibbles)       2       1: the same
 *            and i+4 (high), value + 8
 *   Q4_K  4: nibbles as Q4_0, values 0..15        8       5: u8 sc[8][16], u8 mn[8][16],
 *                                                            fp16 d[16], fp16 dmin[16]
 *   Q5_K  5: nibbles, then a line whose bit q     8       5: the same
 *            of byte 4j+b is bit 4 of quad q
 *   Q6_K  6: nibbles, then 2 lines h = 0, 1:      8       5: i8 sc[16 halves][16], fp16 d[16],
 *            bits 2i, 2i+1 of a byte are bits             32 bytes unused
 *            4, 5 of quad 4h+i; value + 32
 *
 * The 6-bit sub-block scales of the K types are widened to bytes: 4.625, 5.625 and 6.625 bits a
 * weight instead of 4.5, 5.5 and 6.5625.
 */
#ifndef TR_ENGINE_KERNELS_PANEL_H
#define TR_ENGINE_KERNELS_PANEL_H

#include "engine/kernels/kernels.h"

enum { TR_PANEL = 16, TR_LINE = 64, TR_BLOCK = 32, TR_SUPER = 256 };

struct tr_panel_shape {
    int block_lines; /* 64-byte lines of quants in a block of 32 k */
    int blocks;      /* blocks in a group */
    int scale_lines; /* lines after them */
};

/* Of a quantised type; a constant to the compiler where the type is one. */
static inline struct tr_panel_shape tr__panel_shape(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q8_0:
        return (struct tr_panel_shape){8, 2, 1};
    case TR_W_Q4_0:
        return (struct tr_panel_shape){4, 2, 1};
    case TR_W_Q4_K:
        return (struct tr_panel_shape){4, 8, 5};
    case TR_W_Q5_K:
        return (struct tr_panel_shape){5, 8, 5};
    default: /* TR_W_Q6_K */
        return (struct tr_panel_shape){6, 8, 5};
    }
}

static inline size_t tr__group_bytes(enum tr_wtype type)
{
    struct tr_panel_shape s = tr__panel_shape(type);
    return (size_t)(s.block_lines * s.blocks + s.scale_lines) * TR_LINE;
}

static inline size_t tr__panel_bytes(enum tr_wtype type, int k)
{
    switch (type) {
    case TR_W_F16:
        return (size_t)TR_CEIL_DIV(k, 2) * TR_LINE;
    case TR_W_BF16:
        return (size_t)TR_CEIL_DIV(k, TR_BLOCK) * 16 * TR_LINE;
    default:
        return (size_t)TR_CEIL_DIV(k / TR_BLOCK, tr__panel_shape(type).blocks) *
               tr__group_bytes(type);
    }
}

/* Bytes from a group's start to its scales. */
static inline size_t tr__scales_at(enum tr_wtype type)
{
    struct tr_panel_shape s = tr__panel_shape(type);
    return (size_t)(s.block_lines * s.blocks) * TR_LINE;
}

/* Within the scales of a K type. */
enum { TR_K_MINS = 128, TR_K_D = 256, TR_K_DMIN = 288 };

#endif
