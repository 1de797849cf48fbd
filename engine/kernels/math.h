/*
 * The engine's own exp, log, sin and cos: the same bits on every x86 and with every C library.
 *
 * Only + - * /, explicit fma and integer operations are used, each correctly rounded by IEEE 754,
 * and the build has -ffp-contract=off, so the compiler can't change a bit either. libm is not used:
 * its results differ between versions and, through ifunc, between processors.
 */
#ifndef TR_ENGINE_KERNELS_MATH_H
#define TR_ENGINE_KERNELS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float tr_bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t tr_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline double tr_bits_f64(uint64_t u)
{
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint64_t tr_f64_bits(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* e^x, at most 1.3 ulp off; exactly 1 at 0; 0 below -87.3; 1.65e38 at 88 and above; NaN stays NaN.
 * 2^n * p(r), |r| <= ln2/2, p of degree 6. Branch-free, so that loops over it vectorise. */
static inline float tr_expf(float x)
{
    const float shift = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    float c = x > 88.0F ? 88.0F : x;
    c = c < -87.33654F ? -87.33654F : c;
    float t = fmaf(c, 1.44269504F, shift);
    float n = t - shift;
    float r = fmaf(n, -0.693145752F, c);
    r = fmaf(n, -1.42860677e-6F, r);
    float p = 1.38888889e-3F;
    p = fmaf(p, r, 8.33333333e-3F);
    p = fmaf(p, r, 4.16666667e-2F);
    p = fmaf(p, r, 1.66666667e-1F);
    p = fmaf(p, r, 0.5F);
    p = fmaf(p, r, 1.0F);
    p = fmaf(p, r, 1.0F);
    uint32_t scale = (tr_f32_bits(t) + 127U) << 23; /* low bits of t hold n */
    float y = p * tr_bits_f32(scale);
    return x < -87.33654F ? 0.0F : y;
}

/* 1 / (1 + e^-x); no overflow for any x. */
static inline float tr_sigmoidf(float x)
{
    return 1.0F / (1.0F + tr_expf(-x));
}

static inline float tr_siluf(float x)
{
    return x * tr_sigmoidf(x);
}

/* e^x in double, about 1 ulp; for sums over a vocabulary and for set-up. Saturates like tr_expf. */
static inline double tr_exp(double x)
{
    if (x != x)
        return x;
    if (x < -708.0)
        return 0.0;
    if (x > 709.0)
        x = 709.0;
    const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
    double n = (x * 1.4426950408889634 + shift) - shift;
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double term = 1.0;
    double sum = 1.0;
    for (int i = 1; i <= 14; i++) {
        term = term * r / (double)i;
        sum += term;
    }
    return sum * tr_bits_f64((uint64_t)((int64_t)n + 1023) << 52);
}

/* Natural logarithm in double for normal x > 0, about 1 ulp; -inf at 0, NaN below. */
static inline double tr_log(double x)
{
    if (x != x || x < 0.0)
        return tr_bits_f64(0x7FF8000000000000U);
    if (x < 2.2250738585072014e-308)
        return -tr_bits_f64(0x7FF0000000000000U);
    uint64_t u = tr_f64_bits(x);
    if (u == 0x7FF0000000000000U)
        return x;
    int e = (int)(u >> 52) - 1023;
    double m = tr_bits_f64((u & 0xFFFFFFFFFFFFFU) | 0x3FF0000000000000U);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1.0) / (m + 1.0);
    double s2 = s * s;
    double sum = 0.0;
    for (int i = 21; i >= 1; i -= 2)
        sum = sum * s2 + 1.0 / (double)i;
    return (double)e * 0.693147180369123816490 +
           (2.0 * s * sum + (double)e * 1.90821492927058770002e-10);
}

/* sin and cos of x >= 0 (x < 1e7), absolute error below 1e-13. */
static inline void tr_sincos(double x, double *ret_sin, double *ret_cos)
{
    const double shift = 6755399441055744.0;
    double n = (x * 0.63661977236758134308 + shift) - shift; /* quarter turns */
    double r = x - n * 1.57079632673412561417e+00;           /* pi/2 in three parts */
    r -= n * 6.07710050630396597660e-11;
    r -= n * 2.02226624879595063154e-21;
    double r2 = r * r;
    double s = 0.0;
    double c = 0.0;
    for (int i = 8; i >= 1; i--) {
        s = (1.0 + s) * (-r2 / (double)((2 * i) * (2 * i + 1)));
        c = (1.0 + c) * (-r2 / (double)((2 * i - 1) * (2 * i)));
    }
    s = r + r * s;
    c = 1.0 + c;
    int64_t q = (int64_t)n & 3;
    *ret_sin = q == 0 ? s : q == 1 ? c : q == 2 ? -s : -c;
    *ret_cos = q == 0 ? c : q == 1 ? -s : q == 2 ? -c : s;
}

/* bfloat16 <-> float. To bf16: round to nearest even; NaN stays NaN. */
static inline float tr_bf16_f32(uint16_t h)
{
    return tr_bits_f32((uint32_t)h << 16);
}

static inline uint16_t tr_f32_bf16(float f)
{
    uint32_t u = tr_f32_bits(f);
    if ((u & 0x7FFFFFFFU) > 0x7F800000U)
        return (uint16_t)((u >> 16) | 0x40U);
    return (uint16_t)((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
}

/* IEEE half <-> float, exact one way, round to nearest even the other. */
static inline float tr_f16_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16;
    uint32_t e = (h >> 10) & 31U;
    uint32_t m = h & 0x3FFU;
    if (e == 31U)
        return tr_bits_f32(sign | 0x7F800000U | (m << 13));
    if (e == 0U) { /* zero or subnormal: m * 2^-24, exact */
        float v = (float)m * 5.9604644775390625e-8F;
        return sign ? -v : v;
    }
    return tr_bits_f32(sign | ((e + 112U) << 23) | (m << 13));
}

static inline uint16_t tr_f32_f16(float f)
{
    uint32_t u = tr_f32_bits(f);
    uint32_t sign = (u >> 16) & 0x8000U;
    u &= 0x7FFFFFFFU;
    if (u > 0x7F800000U)
        return (uint16_t)(sign | 0x7E00U);
    if (u >= 0x477FF000U)
        return (uint16_t)(sign | 0x7C00U);
    if (u < 0x38800000U) { /* subnormal half: let the addition round */
        float v = tr_bits_f32(u) + 0.5F;
        return (uint16_t)(sign | (tr_f32_bits(v) - 0x3F000000U));
    }
    u += 0xFFFU + ((u >> 13) & 1U);
    return (uint16_t)(sign | ((u - 0x38000000U) >> 13));
}

#endif
