/*
 * Keys and values in 8 bits: what a page of TR_KV_Q8 holds.
 *
 * A sub-block (16 keys or 16 values of one layer and head) begins with its scales, bf16
 * [ceil(head_dim / 32)][16]: one per position and run of 32 dims, since a few dims of a key are far
 * larger than the rest. Then the int8 values, keys transposed ([head_dim][16]), values by rows
 * ([16][head_dim]). x = scale * q, |q| <= 127. The scale is rounded up to bf16, so that no value
 * exceeds 127 and no finite input overflows it.
 */
#ifndef TR_ENGINE_KERNELS_KV_Q8_H
#define TR_ENGINE_KERNELS_KV_Q8_H

#include "engine/kernels/kernels.h"

/* Dims that share a scale; the last run may be shorter. */
enum { TR_KV_Q8_RUN = 32 };

/* Bytes of the scales in front of a sub-block, and of the whole; the second a multiple of 64. */
static inline size_t tr_kv_q8_scale_bytes(int head_dim)
{
    return (size_t)TR_CEIL_DIV(head_dim, TR_KV_Q8_RUN) * TR_ATTN_SUB * sizeof(uint16_t);
}

static inline size_t tr_kv_q8_sub_bytes(int head_dim)
{
    return TR_ROUND_UP(tr_kv_q8_scale_bytes(head_dim) + (size_t)head_dim * TR_ATTN_SUB, 64);
}

/* Stores one key and one value row [head_dim] at slot 0..15 of a key and a value sub-block. */
void tr_kv_q8_put(void *keys, void *values, int slot, int head_dim, const float *k, const float *v);

#endif
