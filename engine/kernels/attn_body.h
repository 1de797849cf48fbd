/*
 * Attention over one block of keys, as attn_generic.c defines it, over sixteen keys (scores) and
 * sixteen dims (output) at once. Included by one file a level.
 *
 * A few query rows go through the block together, so that a key or value is widened to float once
 * for all of them: the heads of a group in decode, and more in prefill.
 *
 * In decode the block comes from memory, in pieces too short for the processor to run ahead of:
 * each line read fetches its counterpart of the phase that follows, values behind keys, the next
 * block's keys behind values.
 */
#ifndef TR_ENGINE_KERNELS_ATTN_BODY_H
#define TR_ENGINE_KERNELS_ATTN_BODY_H

#include <string.h>

#include "engine/kernels/kv_q8.h"
#include "engine/kernels/vec_body.h"

#ifdef __AVX2__

/* Query rows at once, key sub-blocks a score loop keeps in registers, registers for an output loop:
 * rows times 16-dim chunks. */
#ifdef __AVX512F__
enum { ATTN_ROWS = 8, ATTN_SUBS = 2, ATTN_SUMS = 16 };
#else
enum { ATTN_ROWS = 4, ATTN_SUBS = 1, ATTN_SUMS = 4 };
#endif
enum { SUBS = TR_ATTN_KEYS / TR_ATTN_SUB, MAX_CHUNKS = 4, RUN_CHUNKS = TR_KV_Q8_RUN / 16 };

/* Query rows from which a bf16 block is widened to memory first, and rows that share that. */
enum { WIDE_FROM = 2 * ATTN_ROWS, WIDE_ROWS = 8 * ATTN_ROWS };

/* Sixteen elements at index i of a sub-block, n of them (n >= 16: all) within the row. */
INLINE v16 kv_load(enum tr_kv_type type, const void *sub, size_t i, int head_dim, int n)
{
    union {
        float f32[16];
        uint16_t bf16[16];
        int8_t q8[16];
    } part = {{0}};
    switch (type) {
    case TR_KV_F32:
        return v16_load_upto((const float *)sub + i, n);
    case TR_KV_BF16: {
        const uint16_t *p = (const uint16_t *)sub + i;
        if (n < 16)
            p = memcpy(part.bf16, p, (size_t)n * sizeof *p);
        return v16_load_bf16(p);
    }
    default: {
        const int8_t *p = (const int8_t *)sub + tr_kv_q8_scale_bytes(head_dim) + i;
        if (n < 16)
            p = memcpy(part.q8, p, (size_t)n);
        return v16_load_i8(p);
    }
    }
}

/* Fetches element i of a sub-block early, into L2: L1 has too few buffers for misses to keep the
 * memory busy. Eight bits take longer to compute with than to read. */
INLINE void kv_prefetch(enum tr_kv_type type, const void *sub, size_t i)
{
    if (type != TR_KV_Q8)
        _mm_prefetch((const char *)sub + i * (type == TR_KV_F32 ? 4 : 2), _MM_HINT_T1);
}

/* Scores of n_r rows with n_s sub-blocks from `sub` on: s[r][16 keys of each]. `fetch`: the values
 * are fetched meanwhile. */
INLINE void scores(enum tr_kv_type type, int n_r, int n_s, bool fetch,
                   const struct tr_attn_block *b, const float *q, int sub, float s[][TR_ATTN_KEYS])
{
    int n = b->head_dim;
    int run = type == TR_KV_Q8 ? TR_KV_Q8_RUN : n;
    v16 total[ATTN_ROWS][ATTN_SUBS];
    UNROLL
    for (int r = 0; r < n_r; r++) {
        UNROLL
        for (int i = 0; i < n_s; i++)
            total[r][i] = v16_set1(0.0F);
    }
    for (int d0 = 0; d0 < n; d0 += run) {
        v16 acc[ATTN_ROWS][ATTN_SUBS];
        UNROLL
        for (int r = 0; r < n_r; r++) {
            UNROLL
            for (int i = 0; i < n_s; i++)
                acc[r][i] = v16_set1(0.0F);
        }
        for (int d = d0; d < TR_MIN(d0 + run, n); d++) {
            v16 k[ATTN_SUBS];
            UNROLL
            for (int i = 0; i < n_s; i++) {
                k[i] = kv_load(type, b->k[sub + i], (size_t)d * TR_ATTN_SUB, n, 16);
                if (fetch)
                    kv_prefetch(type, b->v[sub + i], (size_t)d * TR_ATTN_SUB);
            }
            UNROLL
            for (int r = 0; r < n_r; r++) {
                v16 qd = v16_set1(q[(size_t)r * n + d]);
                UNROLL
                for (int i = 0; i < n_s; i++)
                    acc[r][i] = v16_fma(qd, k[i], acc[r][i]);
            }
        }
        UNROLL
        for (int i = 0; i < n_s; i++) {
            const uint16_t *scales = b->k[sub + i];
            UNROLL
            for (int r = 0; r < n_r; r++) {
                if (type == TR_KV_Q8) {
                    v16 scale = v16_load_bf16(scales + d0 / TR_KV_Q8_RUN * TR_ATTN_SUB);
                    total[r][i] = v16_fma(acc[r][i], scale, total[r][i]);
                } else {
                    total[r][i] = acc[r][i];
                }
            }
        }
    }
    UNROLL
    for (int r = 0; r < n_r; r++) {
        UNROLL
        for (int i = 0; i < n_s; i++)
            v16_store(s[r] + (sub + i) * TR_ATTN_SUB, v16_mul(total[r][i], v16_set1(b->scale)));
    }
}

/* Turns one row's scores into weights p, +0 outside [lo, hi), and moves its maximum and sum on.
 * Returns what the output so far is to be multiplied by. */
INLINE float softmax_step(const struct tr_attn_block *b, int row, float s[TR_ATTN_KEYS])
{
    v16 low = v16_set1(-INFINITY);
    v16 zero = v16_set1(0.0F);
    v16 p[SUBS];
    v16 largest = low;
    UNROLL
    for (int i = 0; i < SUBS; i++) {
        p[i] = v16_window(v16_load(s + i * TR_ATTN_SUB), low, b->lo - i * TR_ATTN_SUB,
                          b->hi - i * TR_ATTN_SUB);
        largest = v16_max(p[i], largest);
    }
    float old = b->max[row];
    float here = v16_largest(largest);
    float max = (here > old ? here : old) + 0.0F; /* no -0: lanes meet in another order */
    v16 sum = zero;
    UNROLL
    for (int i = 0; i < SUBS; i++) {
        p[i] = v16_window(v16_exp(v16_sub(p[i], v16_set1(max))), zero, b->lo - i * TR_ATTN_SUB,
                          b->hi - i * TR_ATTN_SUB);
        v16_store(s + i * TR_ATTN_SUB, p[i]);
        sum = v16_add(sum, p[i]);
    }
    float c = old == -INFINITY ? 0.0F : tr_expf(old - max);
    b->max[row] = max;
    b->sum[row] = fmaf(b->sum[row], c, v16_sum(sum));
    return c;
}

/* o[d0 ..] of n_r rows, n_c chunks of 16 dims (n: how many dims are left, for the last). */
INLINE void outputs(enum tr_kv_type type, int n_r, int n_c, const struct tr_attn_block *b, float *o,
                    int d0, int n, float p[][TR_ATTN_KEYS], const float *c)
{
    int head_dim = b->head_dim;
    float weighted[ATTN_ROWS][TR_ATTN_KEYS];
    if (type == TR_KV_Q8) { /* p times the value's scale in the run of dims that d0 lies in */
        for (int i = b->lo / TR_ATTN_SUB; i * TR_ATTN_SUB < b->hi; i++) {
            const uint16_t *scales = b->v[i];
            v16 scale = v16_load_bf16(scales + d0 / TR_KV_Q8_RUN * TR_ATTN_SUB);
            UNROLL
            for (int r = 0; r < n_r; r++)
                v16_store(weighted[r] + i * TR_ATTN_SUB,
                          v16_mul(v16_load(p[r] + i * TR_ATTN_SUB), scale));
        }
        p = weighted;
    }
    v16 acc[ATTN_ROWS][MAX_CHUNKS];
    UNROLL
    for (int r = 0; r < n_r; r++) {
        UNROLL
        for (int i = 0; i < n_c; i++)
            acc[r][i] = v16_mul(v16_load_upto(o + (size_t)r * head_dim + d0 + 16 * i, n - 16 * i),
                                v16_set1(c[r]));
    }
    for (int j = b->lo; j < b->hi; j++) {
        const void *sub = b->v[j / TR_ATTN_SUB];
        const void *next = b->next[j / TR_ATTN_SUB];
        size_t at = (size_t)(j % TR_ATTN_SUB) * head_dim + d0;
        kv_prefetch(type, next ? next : sub, at);
        v16 v[MAX_CHUNKS];
        UNROLL
        for (int i = 0; i < n_c; i++)
            v[i] = kv_load(type, sub, at + 16 * i, head_dim, n - 16 * i);
        UNROLL
        for (int r = 0; r < n_r; r++) {
            v16 pj = v16_set1(p[r][j]);
            UNROLL
            for (int i = 0; i < n_c; i++)
                acc[r][i] = v16_fma(pj, v[i], acc[r][i]);
        }
    }
    UNROLL
    for (int r = 0; r < n_r; r++) {
        UNROLL
        for (int i = 0; i < n_c; i++)
            v16_store_upto(o + (size_t)r * head_dim + d0 + 16 * i, acc[r][i], n - 16 * i);
    }
}

INLINE void attn_rows(enum tr_kv_type type, int n_r, const struct tr_attn_block *b, int row)
{
    int n = b->head_dim;
    const float *q = b->q + (size_t)row * n;
    float *o = b->o + (size_t)row * n;
    float p[ATTN_ROWS][TR_ATTN_KEYS];
    float c[ATTN_ROWS];
    int sub = b->lo / TR_ATTN_SUB;
    int end = TR_CEIL_DIV(b->hi, TR_ATTN_SUB);
    if (end - sub < SUBS)
        memset(p, 0, sizeof p);
    /* sub-blocks of 8 bits are so short that reading two at once confuses the hardware's
     * prefetcher */
    int subs = ATTN_SUBS;
    if (type == TR_KV_Q8)
        subs = 1;
    for (; sub + subs <= end; sub += subs)
        scores(type, n_r, subs, true, b, q, sub, p);
    for (; sub < end; sub++)
        scores(type, n_r, 1, true, b, q, sub, p);
    for (int r = 0; r < n_r; r++)
        c[r] = softmax_step(b, row + r, p[r]);
    const int chunks = TR_MIN(type == TR_KV_Q8 ? RUN_CHUNKS : MAX_CHUNKS, ATTN_SUMS / n_r);
    int d = 0;
    for (; d + 16 * chunks <= n; d += 16 * chunks)
        outputs(type, n_r, chunks, b, o, d, 16 * chunks, p, c);
    for (; d < n; d += 16)
        outputs(type, n_r, 1, b, o, d, n - d, p, c);
}

/* A sub-block's keys, or 16 dims of its values, as floats. */
INLINE void widen(const uint16_t *from, size_t stride, int n, float *to)
{
    for (int i = 0; i < n; i++)
        v16_store(to + (size_t)i * 16, v16_load_bf16(from + i * stride));
}

/* o[d0 .. d0 + 16) of n_r rows, the values being widened: v[key][16]. */
INLINE void wide_outputs(int n_r, const struct tr_attn_block *b, const float *v, float *o,
                         float p[][TR_ATTN_KEYS], const float *c)
{
    v16 acc[ATTN_ROWS];
    UNROLL
    for (int r = 0; r < n_r; r++)
        acc[r] = v16_mul(v16_load(o + (size_t)r * b->head_dim), v16_set1(c[r]));
    for (int j = b->lo; j < b->hi; j++) {
        v16 vj = v16_load(v + (size_t)j * 16);
        UNROLL
        for (int r = 0; r < n_r; r++)
            acc[r] = v16_fma(v16_set1(p[r][j]), vj, acc[r]);
    }
    UNROLL
    for (int r = 0; r < n_r; r++)
        v16_store(o + (size_t)r * b->head_dim, acc[r]);
}

/* A bf16 block for n rows, a multiple of ATTN_ROWS and at most WIDE_ROWS, head_dim being a multiple
 * of 16: the same numbers as attn_rows, with each key and value widened once. */
static void attn_bf16_wide(const struct tr_attn_block *b, int row, int n)
{
    _Alignas(64) float wide[TR_MAX_HEAD_DIM * TR_ATTN_SUB]; /* keys of a sub-block; then values */
    float p[WIDE_ROWS][TR_ATTN_KEYS];
    float c[WIDE_ROWS];
    int d = b->head_dim;
    const float *q = b->q + (size_t)row * d;
    float *o = b->o + (size_t)row * d;
    int first = b->lo / TR_ATTN_SUB;
    int end = TR_CEIL_DIV(b->hi, TR_ATTN_SUB);
    struct tr_attn_block as_floats = *b;
    if (end - first < SUBS)
        memset(p, 0, sizeof p);
    for (int sub = first; sub < end; sub++) {
        widen(b->k[sub], TR_ATTN_SUB, d, wide);
        as_floats.k[sub] = wide;
        for (int r = 0; r < n; r += ATTN_ROWS)
            scores(TR_KV_F32, ATTN_ROWS, 1, false, &as_floats, q + (size_t)r * d, sub, p + r);
    }
    for (int r = 0; r < n; r++)
        c[r] = softmax_step(b, row + r, p[r]);
    for (int d0 = 0; d0 < d; d0 += 16) {
        for (int sub = first; sub < end; sub++)
            widen((const uint16_t *)b->v[sub] + d0, (size_t)d, TR_ATTN_SUB,
                  wide + (size_t)sub * TR_ATTN_SUB * 16);
        for (int r = 0; r < n; r += ATTN_ROWS)
            wide_outputs(ATTN_ROWS, b, wide, o + (size_t)r * d + d0, p + r, c + r);
    }
}

#define ATTN_KERNEL(name, type)                                                                    \
    static void name##_1(const struct tr_attn_block *b, int row)                                   \
    {                                                                                              \
        attn_rows(type, 1, b, row);                                                                \
    }                                                                                              \
    static void name##_2(const struct tr_attn_block *b, int row)                                   \
    {                                                                                              \
        attn_rows(type, 2, b, row);                                                                \
    }                                                                                              \
    static void name##_4(const struct tr_attn_block *b, int row)                                   \
    {                                                                                              \
        attn_rows(type, 4, b, row);                                                                \
    }                                                                                              \
    static void name##_most(const struct tr_attn_block *b, int row)                                \
    {                                                                                              \
        attn_rows(type, ATTN_ROWS, b, row);                                                        \
    }                                                                                              \
    static void name(const struct tr_attn_block *b)                                                \
    {                                                                                              \
        int row = 0;                                                                               \
        if ((type) == TR_KV_BF16 && b->head_dim % 16 == 0) {                                       \
            for (int n; b->m - row >= WIDE_FROM; row += n) {                                       \
                n = TR_MIN((b->m - row) / ATTN_ROWS * ATTN_ROWS, WIDE_ROWS);                       \
                attn_bf16_wide(b, row, n);                                                         \
            }                                                                                      \
        }                                                                                          \
        for (; b->m - row >= ATTN_ROWS; row += ATTN_ROWS)                                          \
            name##_most(b, row);                                                                   \
        for (; b->m - row >= 4; row += 4)                                                          \
            name##_4(b, row);                                                                      \
        for (; b->m - row >= 2; row += 2)                                                          \
            name##_2(b, row);                                                                      \
        for (; row < b->m; row++)                                                                  \
            name##_1(b, row);                                                                      \
    }

ATTN_KERNEL(attn_f32, TR_KV_F32)
ATTN_KERNEL(attn_bf16, TR_KV_BF16)
ATTN_KERNEL(attn_q8, TR_KV_Q8)

#endif /* __AVX2__ */
#endif
