/*
 * Rows of weights as files store them (safetensors, GGUF), block by block.
 *
 * GGUF's blocks, all fields little-endian, nothing padded; d and dmin are fp16:
 *   Q8_0  d, i8 q[32]                         w = d q
 *   Q4_0  d, u8 qs[16]                        w = d (q - 8); k i in the low nibble of byte i, k i+16
 *                                             in the high one
 *   Q4_K  d, dmin, u8 scales[12], u8 qs[128]  w = d sc q - dmin mn; 8 sub-blocks of 32 with 6-bit sc
 *                                             and mn; bytes 32i.. hold sub-block 2i in the low
 *                                             nibbles, 2i+1 in the high ones
 *   Q5_K  d, dmin, u8 scales[12], u8 qh[32],  the same, and bit s of qh[i] is bit 4 of element i of
 *         u8 qs[128]                          sub-block s
 *   Q6_K  u8 ql[128], u8 qh[64],              w = d sc (q - 32); a scale every 16 k. Half h of the
 *         i8 scales[16], d                    256 has ql[64h..], qh[32h..]: its run s = 0..3 of 32 k
 *                                             takes the nibble (low for s < 2) of ql[32 (s % 2) + i]
 *                                             and bits 2s, 2s+1 of qh[i]
 */
#ifndef TR_ENGINE_KERNELS_QUANTS_H
#define TR_ENGINE_KERNELS_QUANTS_H

#include "engine/kernels/kernels.h"

/* 32 k of one row of any quantised type, apart. */
struct tr_file_block {
    uint8_t q[32];    /* as panels hold them: Q8_0 xor 0x80, the others unsigned */
    uint16_t d, dmin; /* fp16 bits of the block or super-block */
    uint8_t sc[2];    /* K types: sub-scale; Q6_K: int8 of the two halves of 16, else equal */
    uint8_t mn;       /* Q4_K, Q5_K: sub-minimum */
};

/* Elements and bytes of a file block. */
int tr__file_block_len(enum tr_wtype type);
int tr__file_block_bytes(enum tr_wtype type);

/* Reads k [32 index, 32 index + 32) of a row. */
void tr__file_block_read(enum tr_wtype type, const uint8_t *row, int index,
                         struct tr_file_block *ret);

#endif
