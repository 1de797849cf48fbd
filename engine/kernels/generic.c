/*
 * The specification of the element-wise kernels and of lane sums, in plain C.
 *
 * Every other level must give these bits. fmaf is one fused operation here too: without FMA
 * hardware libm computes it, slowly and exactly.
 */
#include <string.h>

#include "engine/kernels/levels.h"
#include "engine/kernels/math.h"

enum { LANES = 16, RUN = 1024 };

/* Lane j += lane j + 8, then + 4, + 2, + 1. */
static float reduce(float lane[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}

static void rmsnorm(const float *x, const float *w, int n, float eps, float *y)
{
    float lane[LANES] = {0};
    for (int i = 0; i < n; i++)
        lane[i % LANES] = fmaf(x[i], x[i], lane[i % LANES]);
    float r = 1.0F / sqrtf(reduce(lane) / (float)n + eps);
    for (int i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

static void add(float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += y[i];
}

static void combine(const float *s, const float *const *x, int n_x, float *y, int n)
{
    for (int j = 0; j < n_x; j++)
        for (int i = 0; i < n; i++)
            y[i] = fmaf(s[j], x[j][i], y[i]);
}

static void swiglu(const float *gate, const float *up, int n, float *y)
{
    for (int i = 0; i < n; i++)
        y[i] = tr_siluf(gate[i]) * up[i];
}

static void sigmoid(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = tr_sigmoidf(x[i]);
}

static void gate_by(float *o, const float *z, int n)
{
    for (int i = 0; i < n; i++)
        o[i] *= tr_sigmoidf(z[i]);
}

static void to_bf16(const float *x, int n, uint16_t *y)
{
    for (int i = 0; i < n; i++)
        y[i] = tr_f32_bf16(x[i]);
    memset(y + n, 0, (size_t)(tr_rows_stride(n) - n) * sizeof *y);
}

/* One block of 32. The largest magnitude is found among the bit patterns, where NaN is the largest:
 * it reaches the scale, and with it the product. */
static void quantize_block(const float *x, int8_t *q, float *scale, int32_t *sum)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++)
        bits = TR_MAX(bits, tr_f32_bits(x[i]) & 0x7FFFFFFFU);
    float amax = tr_bits_f32(bits);
    bool zero = amax < 1e-30F;
    float inv = zero ? 0.0F : 127.0F / amax;
    int half[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        float v = x[i] * inv;
        v = v > -127.0F ? v : -127.0F; /* only NaN is caught here: 0 * inf */
        v += 12582912.0F;              /* 1.5 * 2^23: rounds half to even into the low bits */
        q[i] = (int8_t)(tr_f32_bits(v) & 0xFFU);
        half[i / 16] += q[i];
    }
    *scale = zero ? 0.0F : amax / 127.0F;
    *sum = (int32_t)((uint32_t)half[1] << 16 | (uint16_t)half[0]);
}

static void quantize(const float *x, int n, int8_t *q, float *scale, int32_t *sum)
{
    for (int i = 0; i < tr_rows_stride(n); i += 32) {
        float block[32] = {0};
        memcpy(block, x + TR_MIN(i, n), (size_t)TR_MAX(0, TR_MIN(32, n - i)) * sizeof *x);
        quantize_block(block, q + i, scale + i / 32, sum + i / 32);
    }
}

static void router_f32(const float *w, int k, int e0, int e1, const float *x, size_t ldx, int m,
                       float *y, size_t ldy)
{
    for (int r = 0; r < m; r++) {
        for (int e = e0; e < e1; e++) {
            float lane[LANES] = {0};
            for (int i = 0; i < k; i++)
                lane[i % LANES] =
                    fmaf(x[(size_t)r * ldx + i], w[(size_t)e * k + i], lane[i % LANES]);
            y[(size_t)r * ldy + e] = reduce(lane);
        }
    }
}

static void router_bf16(const uint16_t *w, int k, int e0, int e1, const float *x, size_t ldx, int m,
                        float *y, size_t ldy)
{
    for (int r = 0; r < m; r++) {
        for (int e = e0; e < e1; e++) {
            float lane[LANES] = {0};
            for (int i = 0; i < k; i++)
                lane[i % LANES] = fmaf(x[(size_t)r * ldx + i], tr_bf16_f32(w[(size_t)e * k + i]),
                                       lane[i % LANES]);
            y[(size_t)r * ldy + e] = reduce(lane);
        }
    }
}

static double sum_exp(const float *x, int n, float max)
{
    double total = 0.0;
    for (int i = 0; i < n; i += RUN) {
        float lane[LANES] = {0};
        for (int j = 0; j < TR_MIN(RUN, n - i); j++)
            lane[j % LANES] += tr_expf(x[i + j] - max);
        total += (double)reduce(lane);
    }
    return total;
}

void tr__add_generic(struct tr_kernels *k)
{
    k->rmsnorm = rmsnorm;
    k->add = add;
    k->combine = combine;
    k->swiglu = swiglu;
    k->sigmoid = sigmoid;
    k->gate = gate_by;
    k->to_bf16 = to_bf16;
    k->quantize = quantize;
    k->router_f32 = router_f32;
    k->router_bf16 = router_bf16;
    k->sum_exp = sum_exp;
}
