/*
 * Rows of weights as files store them (safetensors, GGUF), block by block.
 *
 * GGUF's blocks, all fields little-endian, nothing padded; d, m and dmin are fp16. "halves" of 32:
 * byte i holds k i in its low bits and k i+16 above.
 *   Q8_0   d, i8 q[32]                        w = d q
 *   Q4_0   d, u8 qs[16] halves                w = d (q - 8)
 *   Q4_1   d, m, qs[16] halves                w = d q + m
 *   Q5_0   d, u32 qh, qs[16] halves           w = d (q - 16); bit i of qh is bit 4 of element i
 *   Q5_1   d, m, qh, qs[16]                   w = d q + m
 *   IQ4_NL d, qs[16] halves                   w = d T[q]
 *   MXFP4  u8 e, qs[16] halves                w = 2^(e - 128) M[q]
 *   NVFP4  64: u8 e4m3[4], u8 qs[4][8]        w = e4m3 / 2 M[q], a scale every 16; in each 8 bytes
 *                                             k i is the low nibble and k i+8 the high one. The
 *                                             tensor beside it, "scale", is a factor of the matrix
 *   Q1_0   128: d, u8 qs[16]                  w = bit ? d : -d
 *   Q2_0   64: d, u8 qs[16]                   w = d (q - 1), four to a byte, lowest bits first
 * The others have 256 elements:
 *   Q4_K   d, dmin, u8 scales[12], qs[128]    w = d sc q - dmin mn; 8 sub-blocks of 32 with 6-bit
 *                                             sc and mn; bytes 32i.. hold sub-block 2i in the low
 *                                             nibbles, 2i+1 in the high ones
 *   Q5_K   d, dmin, scales[12], u8 qh[32],    the same, and bit s of qh[i] is bit 4 of element i of
 *          qs[128]                            sub-block s
 *   Q6_K   u8 ql[128], u8 qh[64],             w = d sc (q - 32); a scale every 16 k. Half h of the
 *          i8 scales[16], d                   256 has ql[64h..], qh[32h..]: its run s = 0..3 of 32
 *                                             takes the nibble (low for s < 2) of ql[32 (s % 2)
 *                                             + i] and bits 2s, 2s+1 of qh[i]
 *   Q2_K   u8 scales[16], qs[64], d, dmin     w = d sc q - dmin mn; nibbles sc (low) and mn every
 *                                             16; run s of half h: bits 2s, 2s+1 of qs[32h + i]
 *   Q3_K   u8 hmask[32], qs[64], scales[12],  w = d (sc - 32) q; q: two bits as Q2_K, less 4 unless
 *          d                                  bit 4h+s of hmask[i] is set; see read_q3_k
 *   IQ4_XS d, u16 high, u8 low[4], qs[128]    w = d (sc - 32) T[q]; run s: 16 bytes halves; sc has
 *                                             its low nibble in `low`, two high bits in `high`
 *   TQ1_0  qs[48], qh[4], d                   w = d (t - 1); five trits a byte, see read_tq1_0
 *   TQ2_0  qs[64], d                          w = d (t - 1); as Q2_K's qs
 *   IQ3_*, IQ2_*, IQ1_*                       see blocks_iq.c
 */
#ifndef TR_ENGINE_KERNELS_QUANTS_H
#define TR_ENGINE_KERNELS_QUANTS_H

#include "engine/kernels/kernels.h"

/* 32 k of one row of any quantised type, apart. What the scales mean is said by tr__scales. */
struct tr_file_block {
    uint8_t q[32]; /* codes, as panels hold them: Q8_0 xor 0x80, the others unsigned */
    uint16_t d,
        dmin;      /* fp16 bits of the block or super-block; F16_MIN: dmin is m, which is added */
    uint8_t sc[2]; /* of the two halves of 16, or alike; S16 and S32: int8; E8: e */
    uint8_t mn[2];
};

/* Elements and bytes of a file block. */
int tr__file_block_len(enum tr_wtype type);
int tr__file_block_bytes(enum tr_wtype type);

/* Reads k [32 index, 32 index + 32) of a row. */
void tr__file_block_read(enum tr_wtype type, const uint8_t *row, int index,
                         struct tr_file_block *ret);
/* The same of the IQ1, IQ2 and IQ3 types: run s = 0..7 of the block at b (blocks_iq.c). */
void tr__iq_block_read(enum tr_wtype type, const uint8_t *b, int s, struct tr_file_block *ret);

/* The values of codes 0..15 (of 3 bits: 0..7, then zeros), or NULL: a value is code - offset. */
const int8_t *tr__values(enum tr_wtype type);

/* What a linear code is less. */
static inline int tr__offset(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q8_0:
        return 128;
    case TR_W_Q4_0:
        return 8;
    case TR_W_Q5_0:
        return 16;
    case TR_W_Q3_K:
        return 4;
    case TR_W_Q6_K:
        return 32;
    case TR_W_TQ1_0:
    case TR_W_TQ2_0:
    case TR_W_Q1_0:
    case TR_W_Q2_0:
        return 1;
    default:
        return 0;
    }
}

/* What d is multiplied by: the values of some types are kept as integers. */
static inline float tr__unit(enum tr_wtype type)
{
    switch (type) {
    case TR_W_IQ2_XXS:
    case TR_W_IQ2_XS:
    case TR_W_IQ2_S:
    case TR_W_IQ1_S:
    case TR_W_IQ1_M:
        return 0.125F;
    case TR_W_IQ3_XXS:
        return 0.25F;
    default:
        return 1.0F;
    }
}

#endif
