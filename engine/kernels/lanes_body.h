/*
 * The element-wise kernels and lane sums of generic.c over sixteen lanes at once. Included by one
 * file a level, which compiles it with that level's flags.
 */
#ifndef TR_ENGINE_KERNELS_LANES_BODY_H
#define TR_ENGINE_KERNELS_LANES_BODY_H

#include <string.h>

#include "engine/kernels/kernels.h"
#include "engine/kernels/vec_body.h"

#ifdef __AVX2__

static void rmsnorm(const float *x, const float *w, int n, float eps, float *y)
{
    v16 acc = v16_set1(0.0F);
    for (int i = 0; i < n; i += 16) {
        v16 v = v16_load_upto(x + i, n - i);
        acc = v16_fma(v, v, acc);
    }
    v16 r = v16_set1(1.0F / sqrtf(v16_sum(acc) / (float)n + eps));
    for (int i = 0; i < n; i += 16) {
        v16 v = v16_mul(v16_load_upto(x + i, n - i), r);
        v16_store_upto(y + i, v16_mul(v, v16_load_upto(w + i, n - i)), n - i);
    }
}

static void add(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i += 16) {
        v16 v = v16_add(v16_load_upto(x + i, n - i), v16_load_upto(y + i, n - i));
        v16_store_upto(x + i, v, n - i);
    }
}

static void combine(const float *s, const float *const *x, int n_x, float *y, int n)
{
    for (int i = 0; i < n; i += 16) {
        v16 v = v16_load_upto(y + i, n - i);
        for (int j = 0; j < n_x; j++)
            v = v16_fma(v16_set1(s[j]), v16_load_upto(x[j] + i, n - i), v);
        v16_store_upto(y + i, v, n - i);
    }
}

static void swiglu(const float *gate, const float *up, int n, float *y)
{
    for (int i = 0; i < n; i += 16) {
        v16 g = v16_load_upto(gate + i, n - i);
        v16 v = v16_mul(v16_mul(g, v16_sigmoid(g)), v16_load_upto(up + i, n - i));
        v16_store_upto(y + i, v, n - i);
    }
}

static void sigmoid(float *x, int n)
{
    for (int i = 0; i < n; i += 16)
        v16_store_upto(x + i, v16_sigmoid(v16_load_upto(x + i, n - i)), n - i);
}

static void gate_by(float *o, const float *z, int n)
{
    for (int i = 0; i < n; i += 16) {
        v16 s = v16_sigmoid(v16_load_upto(z + i, n - i));
        v16_store_upto(o + i, v16_mul(v16_load_upto(o + i, n - i), s), n - i);
    }
}

static void to_bf16(const float *x, int n, uint16_t *y)
{
    for (int i = 0; i < tr_rows_stride(n); i += 16) {
        v16 v = i < n ? v16_load_upto(x + i, n - i) : v16_set1(0.0F);
        v16_store_bf16(y + i, v);
    }
}

static void quantize(const float *x, int n, int8_t *q, float *scale, int32_t *sum)
{
    v16 least = v16_set1(-127.0F);
    for (int i = 0; i < tr_rows_stride(n); i += 32) {
        v16 a = i < n ? v16_load_upto(x + i, n - i) : v16_set1(0.0F);
        v16 b = i + 16 < n ? v16_load_upto(x + i + 16, n - i - 16) : v16_set1(0.0F);
        float amax = v16_amax(a, b);
        bool zero = amax < 1e-30F;
        v16 inv = v16_set1(zero ? 0.0F : 127.0F / amax);
        int low = v16_store_i8(q + i, v16_max(v16_mul(a, inv), least));
        int high = v16_store_i8(q + i + 16, v16_max(v16_mul(b, inv), least));
        scale[i / 32] = zero ? 0.0F : amax / 127.0F;
        sum[i / 32] = (int32_t)((uint32_t)high << 16 | (uint16_t)low);
    }
}

/* Experts whose weights are read side by side; and what a block of dots keeps in registers, experts
 * by rows, where there are rows enough. */
#ifdef __AVX512F__
enum { ROUTER_SIDE = 4, ROUTER_E = 4, ROUTER_R = 4 };
#else
enum { ROUTER_SIDE = 4, ROUTER_E = 2, ROUTER_R = 3 };
#endif

INLINE v16 router_weight(bool bf16, const void *w, size_t i, int n)
{
    if (!bf16)
        return v16_load_upto((const float *)w + i, n);
    if (n >= 16)
        return v16_load_bf16((const uint16_t *)w + i);
    uint16_t part[16] = {0};
    memcpy(part, (const uint16_t *)w + i, (size_t)n * sizeof *part);
    return v16_load_bf16(part);
}

/* acc moved on by elements [c, c + n), n <= 16. */
INLINE void router_lanes(bool bf16, int n_e, int n_r, const void *w, int k, int e, const float *x,
                         size_t ldx, int c, int n, v16 acc[ROUTER_SIDE][ROUTER_R])
{
    v16 xs[ROUTER_R];
    UNROLL
    for (int r = 0; r < n_r; r++)
        xs[r] = v16_load_upto(x + (size_t)r * ldx + c, n);
    UNROLL
    for (int i = 0; i < n_e; i++) {
        v16 ws = router_weight(bf16, w, (size_t)(e + i) * k + c, n);
        UNROLL
        for (int r = 0; r < n_r; r++)
            acc[i][r] = v16_fma(xs[r], ws, acc[i][r]);
    }
}

INLINE void router_block(bool bf16, int n_e, int n_r, const void *w, int k, int e, const float *x,
                         size_t ldx, float *y, size_t ldy)
{
    v16 acc[ROUTER_SIDE][ROUTER_R];
    UNROLL
    for (int i = 0; i < n_e; i++) {
        UNROLL
        for (int r = 0; r < n_r; r++)
            acc[i][r] = v16_set1(0.0F);
    }
    int c = 0;
    for (; c + 16 <= k; c += 16)
        router_lanes(bf16, n_e, n_r, w, k, e, x, ldx, c, 16, acc);
    if (c < k)
        router_lanes(bf16, n_e, n_r, w, k, e, x, ldx, c, k - c, acc);
    UNROLL
    for (int i = 0; i < n_e; i++) {
        UNROLL
        for (int r = 0; r < n_r; r++)
            y[(size_t)r * ldy + e + i] = v16_sum(acc[i][r]);
    }
}

/* Rows that go through all experts together: they stay in L2 meanwhile. */
enum { ROUTER_TILE = 48 };

INLINE void router_tile(bool bf16, const void *w, int k, int e0, int e1, const float *x, size_t ldx,
                        int m, float *y, size_t ldy)
{
    int e = e0;
    for (; e + ROUTER_SIDE <= e1; e += ROUTER_SIDE) {
        int r = 0;
        for (; r + ROUTER_R <= m; r += ROUTER_R) {
            UNROLL
            for (int i = 0; i < ROUTER_SIDE; i += ROUTER_E)
                router_block(bf16, ROUTER_E, ROUTER_R, w, k, e + i, x + r * ldx, ldx, y + r * ldy,
                             ldy);
        }
        for (; r < m; r++)
            router_block(bf16, ROUTER_SIDE, 1, w, k, e, x + r * ldx, ldx, y + r * ldy, ldy);
    }
    for (; e < e1; e++) {
        for (int r = 0; r < m; r++)
            router_block(bf16, 1, 1, w, k, e, x + r * ldx, ldx, y + r * ldy, ldy);
    }
}

INLINE void router(bool bf16, const void *w, int k, int e0, int e1, const float *x, size_t ldx,
                   int m, float *y, size_t ldy)
{
    for (int r = 0; r < m; r += ROUTER_TILE)
        router_tile(bf16, w, k, e0, e1, x + r * ldx, ldx, TR_MIN(ROUTER_TILE, m - r), y + r * ldy,
                    ldy);
}

static void router_f32(const float *w, int k, int e0, int e1, const float *x, size_t ldx, int m,
                       float *y, size_t ldy)
{
    router(false, w, k, e0, e1, x, ldx, m, y, ldy);
}

static void router_bf16(const uint16_t *w, int k, int e0, int e1, const float *x, size_t ldx, int m,
                        float *y, size_t ldy)
{
    router(true, w, k, e0, e1, x, ldx, m, y, ldy);
}

static double sum_exp(const float *x, int n, float max)
{
    enum { RUN = 1024 };
    v16 m = v16_set1(max);
    double total = 0.0;
    for (int i = 0; i < n; i += RUN) {
        int end = TR_MIN(i + RUN, n);
        v16 acc = v16_set1(0.0F);
        for (int j = i; j < end; j += 16) {
            v16 e = v16_exp(v16_sub(v16_load_upto(x + j, end - j), m));
            acc = v16_add(acc, v16_window(e, v16_set1(0.0F), 0, end - j));
        }
        total += (double)v16_sum(acc);
    }
    return total;
}

#endif /* __AVX2__ */
#endif
