/*
 * Panel products with F16 and BF16 weights: fused multiply-adds over sixteen columns. Included by
 * one file a level.
 *
 * BF16 keeps the order of the AMX instruction TDPBF16PS: per 32 k, even and odd k in a chain each,
 * then the sum of the two is added. (VDPBF16PS has another order, and is no faster than this on
 * most processors.) The rows are widened to float once for all panels, a tile of rows and k at a
 * time that stays in L2.
 */
#ifndef TR_ENGINE_KERNELS_GEMM_FLOAT_BODY_H
#define TR_ENGINE_KERNELS_GEMM_FLOAT_BODY_H

#include "engine/kernels/panel.h"
#include "engine/kernels/vec_body.h"

#ifdef __AVX2__

/* Rows that a pass over a panel serves. */
#ifdef __AVX512F__
enum { FLOAT_ROWS = 8 };
#define FLOAT_SWITCH ROWS_SWITCH_8
#else
enum { FLOAT_ROWS = 2 };
#define FLOAT_SWITCH ROWS_SWITCH_2
#endif
enum { TILE_ROWS = 32, TILE = 32768 }; /* TILE: floats of widened rows */

/* y += k of one panel for n_r rows; `first`: y is only written. */
INLINE void bf16_rows(int n_r, const uint8_t *w, int k, const float *x, size_t ldx, bool first,
                      float *y, size_t ldy)
{
    v16 acc[FLOAT_ROWS];
    UNROLL
    for (int r = 0; r < n_r; r++)
        acc[r] = first ? v16_set1(0.0F) : v16_load(y + (size_t)r * ldy);
    for (int i = 0; i < k; i += TR_BLOCK) {
        v16 even[FLOAT_ROWS];
        v16 odd[FLOAT_ROWS];
        UNROLL
        for (int r = 0; r < n_r; r++)
            even[r] = odd[r] = v16_set1(0.0F);
        for (int j = i; j < i + TR_BLOCK; j += 2, w += TR_LINE) {
            if (n_r > 1)
                prefetch_lines(w, 1);
            v16 we = v16_even(w);
            v16 wo = v16_odd(w);
            UNROLL
            for (int r = 0; r < n_r; r++) {
                even[r] = v16_fma(v16_set1(x[r * ldx + j]), we, even[r]);
                odd[r] = v16_fma(v16_set1(x[r * ldx + j + 1]), wo, odd[r]);
            }
        }
        UNROLL
        for (int r = 0; r < n_r; r++)
            acc[r] = v16_add(acc[r], v16_add(even[r], odd[r]));
    }
    UNROLL
    for (int r = 0; r < n_r; r++)
        v16_store(y + (size_t)r * ldy, acc[r]);
}

INLINE void f16_rows(int n_r, const uint8_t *w, int k, const float *x, size_t ldx, float *y,
                     size_t ldy)
{
    v16 acc[FLOAT_ROWS];
    UNROLL
    for (int r = 0; r < n_r; r++)
        acc[r] = v16_set1(0.0F);
    for (int i = 0; i < k; i++, w += TR_LINE / 2) {
        if (n_r > 1 && i % 2 == 0)
            prefetch_lines(w, 1);
        v16 wi = v16_load_f16((const uint16_t *)(const void *)w);
        UNROLL
        for (int r = 0; r < n_r; r++)
            acc[r] = v16_fma(v16_set1(x[r * ldx + i]), wi, acc[r]);
    }
    UNROLL
    for (int r = 0; r < n_r; r++)
        v16_store(y + (size_t)r * ldy, acc[r]);
}

static void gemm_f16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                     float *y, size_t ldy)
{
    size_t ldx = (size_t)tr_rows_stride(x->k);
    for (int p = p0; p < p1; p++) {
        const uint8_t *w = (const uint8_t *)panels + (size_t)p * tr__panel_bytes(TR_W_F16, k);
        for (int r = 0; r < m; r += FLOAT_ROWS) {
            const float *rows = x->f32 + r * ldx;
            float *out = y + r * ldy + (size_t)p * TR_PANEL;
#define CALL(n) f16_rows(n, w, k, rows, ldx, out, ldy)
            FLOAT_SWITCH(m - r, CALL)
#undef CALL
        }
    }
}

static void gemm_bf16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                      float *y, size_t ldy)
{
    _Alignas(64) float tile[TILE];
    size_t stride = (size_t)tr_rows_stride(x->k);
    int padded = TR_ROUND_UP(k, TR_BLOCK);
    int rows = TR_MIN(m, TILE_ROWS);
    int depth = TR_MIN(padded, TILE / rows / TR_BLOCK * TR_BLOCK);
    for (int r0 = 0; r0 < m; r0 += rows) {
        int here = TR_MIN(rows, m - r0);
        for (int k0 = 0; k0 < padded; k0 += depth) {
            int n = TR_MIN(depth, padded - k0);
            for (int r = 0; r < here; r++) {
                for (int i = 0; i < n; i += 16)
                    v16_store(tile + r * depth + i,
                              v16_load_bf16(x->bf16 + (r0 + r) * stride + k0 + i));
            }
            for (int p = p0; p < p1; p++) {
                const uint8_t *w = (const uint8_t *)panels +
                                   (size_t)p * tr__panel_bytes(TR_W_BF16, k) +
                                   (size_t)k0 * TR_PANEL * 2;
                for (int r = 0; r < here; r += FLOAT_ROWS) {
                    const float *in = tile + r * depth;
                    float *out = y + (r0 + r) * ldy + (size_t)p * TR_PANEL;
#define CALL(n_r) bf16_rows(n_r, w, n, in, (size_t)depth, k0 == 0, out, ldy)
                    FLOAT_SWITCH(here - r, CALL)
#undef CALL
                }
            }
        }
    }
}

#endif /* __AVX2__ */
#endif
