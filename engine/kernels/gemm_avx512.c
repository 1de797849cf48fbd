/*
 * Panel products of the quantised types with AVX-512 VNNI.
 *
 * VPDPBUSD multiplies unsigned weights with signed activations. A line of a panel is one register
 * of sixteen columns, four k each; a block's eight registers are unpacked once and serve up to
 * eight rows. Where a type has an offset, the dot starts at minus offset times the sum of the row's
 * block, so that it ends as the exact signed integer.
 */
#include <string.h>

#include "engine/kernels/blocks_avx512_body.h"
#include "engine/kernels/levels.h"

enum { ROWS = 8 };

/* low * the sum of the first half + high * the sum of the second, in every lane. */
INLINE __m512i sums_times(int32_t halves, int low, int high)
{
    int32_t factors = (int32_t)((uint32_t)high << 16 | (uint16_t)low);
    return _mm512_madd_epi16(_mm512_set1_epi32(halves), _mm512_set1_epi32(factors));
}

/* dot + quads [from, to) times the row's bytes. */
INLINE __m512i dot_quads(__m512i dot, const __m512i w[QUADS], const int8_t *a, int from, int to)
{
    UNROLL
    for (int i = from; i < to; i++) {
        int32_t quad;
        memcpy(&quad, a + 4 * i, sizeof quad);
        dot = _mm512_dpbusd_epi32(dot, w[i], _mm512_set1_epi32(quad));
    }
    return dot;
}

/* acc moved on by one block of one row. */
INLINE __m512 step(enum tr_wtype type, const __m512i w[QUADS], const struct scales *s,
                   const int8_t *a, float as, int32_t halves, __m512 acc)
{
    const int parts = tr__has_halves(tr__scales(type)) ? 2 : 1;
    const int bias = bias_of(type);
    __m512 scale = _mm512_set1_ps(as);
    UNROLL
    for (int h = 0; h < parts; h++) {
        const int first = h == 0; /* which halves count */
        const int second = h == parts - 1;
        __m512i dot = _mm512_setzero_si512();
        if (bias)
            dot = sums_times(halves, -bias * first, -bias * second);
        dot = dot_quads(dot, w, a, h * QUADS / parts, (h + 1) * QUADS / parts);
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(s->half[h], scale), acc);
        if (tr__has_min(tr__scales(type)))
            acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(sums_times(halves, first, second)),
                                   _mm512_mul_ps(s->min[h], scale), acc);
    }
    return acc;
}

/* One panel for n_r rows. */
INLINE void rows(enum tr_wtype type, struct values v, int n_r, const uint8_t *panel, int k,
                 const struct tr_rows *x, float *y, size_t ldy)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    const int ahead = n_r > 1 ? AHEAD : AHEAD_OF_ONE;
    size_t stride = (size_t)tr_rows_stride(x->k);
    __m512 acc[ROWS];
    UNROLL
    for (int r = 0; r < n_r; r++)
        acc[r] = _mm512_setzero_ps();
    for (int b0 = 0; b0 < k / TR_BLOCK; b0 += shape.blocks, panel += tr__group_bytes(type)) {
        int blocks = TR_MIN(shape.blocks, k / TR_BLOCK - b0);
        for (int b = 0; b < blocks; b++) {
            __m512i w[QUADS];
            const uint8_t *block = panel + (size_t)(b * shape.block_lines) * TR_LINE;
            prefetch_from(block, shape.block_lines, ahead);
            if (b == shape.blocks - 1)
                prefetch_from(panel + tr__scales_at(type), shape.scale_lines, ahead);
            unpack(type, block, v.table, w);
            struct scales s = read_scales(type, panel + tr__scales_at(type), b, v.unit);
            UNROLL
            for (int r = 0; r < n_r; r++) {
                size_t at = r * stride / TR_BLOCK + b0 + b;
                acc[r] = step(type, w, &s, x->q8 + at * TR_BLOCK, x->q8_scale[at], x->q8_sum[at],
                              acc[r]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < n_r; r++)
        _mm512_storeu_ps(y + r * ldy, acc[r]);
}

INLINE void gemm(enum tr_wtype type, struct values v, const void *panels, int k, int p0, int p1,
                 const struct tr_rows *x, int m, float *y, size_t ldy)
{
    for (int p = p0; p < p1; p++) {
        const uint8_t *panel = (const uint8_t *)panels + (size_t)p * tr__panel_bytes(type, k);
        for (int r = 0, served; r < m; r += served) {
            struct tr_rows at = tr_rows_at(x, r);
            float *out = y + r * ldy + (size_t)p * TR_PANEL;
#define CALL(n) rows(type, v, n, panel, k, &at, out, ldy)
            served = TR_MIN(m - r, ROWS);
            if (tr__common(type)) {
                ROWS_SWITCH_8(served, CALL)
            } else if (served == ROWS) {
                CALL(ROWS);
            } else if (served >= ROWS / 2) {
                served = ROWS / 2;
                CALL(ROWS / 2);
            } else {
                served = 1;
                CALL(1);
            }
#undef CALL
        }
    }
}

TR__LAYOUTS(TR__LAYOUT_OF)
TR__QUANTS(TR__GEMM_OF)

void tr__add_avx512_gemm(struct tr_kernels *k)
{
    TR__QUANTS(TR__ADD_GEMM)
}
