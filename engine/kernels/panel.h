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
 * How a type's codes lie in a block's lines:
 *   8  8 lines: quads 0..7 (Q8_0: value xor 0x80)
 *   4  4 lines: line i = quads i (low nibbles) and i+4 (high)
 *   5  the same, then a line whose bit q of byte 4j+b is bit 4 of quad q
 *   6  the same, then 2 lines h = 0, 1: bits 2i, 2i+1 of a byte are bits 4, 5 of quad 4h+i
 *   3  2 lines h = 0, 1: bits 2i, 2i+1 of a byte are bits 0, 1 of quad 4h+i; then a line whose
 *      bit q is bit 2 of quad q
 *   2  the first two lines of these
 *
 * How its scales lie, and in groups of how many blocks:
 *   F16      2 blocks  1 line:  fp16 d[2 blocks][16]
 *   F16_MIN  2         2 lines: fp16 d[2][16], fp16 m[2][16]
 *   K        8         5: u8 sc[8][16], u8 mn[8][16], fp16 d[16], fp16 dmin[16]
 *   K_HALF   8         5: u8 (sc + 16 mn)[16 halves][16], fp16 d[16], fp16 dmin[16]
 *   S32      8         3: i8 sc[8][16], fp16 d[16], 32 bytes unused
 *   S16      8         5: i8 sc[16 halves][16], fp16 d[16], 32 bytes unused
 *   E8       8         2: u8 e[8][16], the exponent field of a float
 *   E4M3     8         5: u8 e4m3[16 halves][16], float factor[16]
 *
 * A sub-block's scale is widened to a byte: Q4_K takes 4.625 bits a weight instead of 4.5, Q6_K
 * 6.625 instead of 6.5625. Types whose files are packed tighter than 3 bits (IQ2, IQ1) take 3.625,
 * the ternary ones 2.5.
 */
#ifndef TR_ENGINE_KERNELS_PANEL_H
#define TR_ENGINE_KERNELS_PANEL_H

#include "engine/kernels/kernels.h"

enum { TR_PANEL = 16, TR_LINE = 64, TR_BLOCK = 32, TR_SUPER = 256 };

enum tr_codes { TR_CODES_8, TR_CODES_4, TR_CODES_5, TR_CODES_6, TR_CODES_3, TR_CODES_2 };

enum tr_scales {
    TR_SCALES_F16,
    TR_SCALES_F16_MIN,
    TR_SCALES_K,
    TR_SCALES_K_HALF,
    TR_SCALES_S32,
    TR_SCALES_S16,
    TR_SCALES_E8,
    TR_SCALES_E4M3
};

/* All functions of a type are constants to the compiler where the type is one. */
static inline enum tr_codes tr__codes(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q8_0:
        return TR_CODES_8;
    case TR_W_Q5_K:
    case TR_W_Q5_0:
    case TR_W_Q5_1:
        return TR_CODES_5;
    case TR_W_Q6_K:
        return TR_CODES_6;
    case TR_W_Q3_K:
    case TR_W_IQ2_XXS:
    case TR_W_IQ2_XS:
    case TR_W_IQ2_S:
    case TR_W_IQ1_S:
    case TR_W_IQ1_M:
        return TR_CODES_3;
    case TR_W_Q2_K:
    case TR_W_TQ1_0:
    case TR_W_TQ2_0:
    case TR_W_Q1_0:
    case TR_W_Q2_0:
        return TR_CODES_2;
    default:
        return TR_CODES_4;
    }
}

static inline enum tr_scales tr__scales(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q4_1:
    case TR_W_Q5_1:
        return TR_SCALES_F16_MIN;
    case TR_W_Q4_K:
    case TR_W_Q5_K:
        return TR_SCALES_K;
    case TR_W_Q2_K:
        return TR_SCALES_K_HALF;
    case TR_W_IQ4_XS:
    case TR_W_IQ3_XXS:
    case TR_W_IQ3_S:
        return TR_SCALES_S32;
    case TR_W_Q6_K:
    case TR_W_Q3_K:
    case TR_W_IQ2_XXS:
    case TR_W_IQ2_XS:
    case TR_W_IQ2_S:
    case TR_W_IQ1_S:
    case TR_W_IQ1_M:
        return TR_SCALES_S16;
    case TR_W_MXFP4:
        return TR_SCALES_E8;
    case TR_W_NVFP4:
        return TR_SCALES_E4M3;
    default:
        return TR_SCALES_F16;
    }
}

/* Are its codes places in a table of values (tr__values)? */
static inline bool tr__has_values(enum tr_wtype type)
{
    switch (type) {
    case TR_W_IQ4_NL:
    case TR_W_IQ4_XS:
    case TR_W_MXFP4:
    case TR_W_NVFP4:
    case TR_W_IQ3_XXS:
    case TR_W_IQ3_S:
    case TR_W_IQ2_XXS:
    case TR_W_IQ2_XS:
    case TR_W_IQ2_S:
    case TR_W_IQ1_S:
    case TR_W_IQ1_M:
        return true;
    default:
        return false;
    }
}

/* Has it a scale for every 16 k, not 32? */
static inline bool tr__has_halves(enum tr_scales s)
{
    return s == TR_SCALES_S16 || s == TR_SCALES_K_HALF || s == TR_SCALES_E4M3;
}

/* Does a weight have a second summand, code x scale - minimum? */
static inline bool tr__has_min(enum tr_scales s)
{
    return s == TR_SCALES_F16_MIN || s == TR_SCALES_K || s == TR_SCALES_K_HALF;
}

struct tr_panel_shape {
    int block_lines; /* 64-byte lines of quants in a block of 32 k */
    int blocks;      /* blocks in a group */
    int scale_lines; /* lines after them */
};

/* Of a quantised type. */
static inline struct tr_panel_shape tr__panel_shape(enum tr_wtype type)
{
    static const uint8_t lines[] = {[TR_CODES_8] = 8, [TR_CODES_4] = 4, [TR_CODES_5] = 5,
                                    [TR_CODES_6] = 6, [TR_CODES_3] = 3, [TR_CODES_2] = 2};
    static const uint8_t blocks[] = {
        [TR_SCALES_F16] = 2, [TR_SCALES_F16_MIN] = 2, [TR_SCALES_K] = 8,  [TR_SCALES_K_HALF] = 8,
        [TR_SCALES_S32] = 8, [TR_SCALES_S16] = 8,     [TR_SCALES_E8] = 8, [TR_SCALES_E4M3] = 8};
    static const uint8_t scales[] = {
        [TR_SCALES_F16] = 1, [TR_SCALES_F16_MIN] = 2, [TR_SCALES_K] = 5,  [TR_SCALES_K_HALF] = 5,
        [TR_SCALES_S32] = 3, [TR_SCALES_S16] = 5,     [TR_SCALES_E8] = 2, [TR_SCALES_E4M3] = 5};
    enum tr_scales s = tr__scales(type);
    return (struct tr_panel_shape){lines[tr__codes(type)], blocks[s], scales[s]};
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

/* Within the scales of a group: minima of K, then d and dmin of K, K_HALF and S16; d of S32; the
 * minima of F16_MIN; the factors of E4M3. */
enum {
    TR_K_MINS = 128,
    TR_K_D = 256,
    TR_K_DMIN = 288,
    TR_S32_D = 128,
    TR_F16_MINS = 64,
    TR_E4M3_FACTOR = 256
};

#endif
