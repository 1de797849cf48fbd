/*
 * Sixteen floats as one value, for kernels that are written once and compiled for AVX2 (two
 * registers) and AVX-512 (one): IEEE 754 gives both the same bits.
 *
 * The choice follows the flags that the including file is compiled with.
 */
#ifndef TR_ENGINE_KERNELS_VEC_BODY_H
#define TR_ENGINE_KERNELS_VEC_BODY_H

#include "engine/kernels/math.h"

#if defined(__AVX2__)

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* Unrolls the loop that follows when its count is a constant: arrays of v16 must end up in
 * registers. */
#ifdef __clang__
#define UNROLL    _Pragma("clang loop unroll(full)")
#define KEEP_LOOP _Pragma("clang loop unroll(disable)")
#else
#define UNROLL    _Pragma("GCC unroll 16")
#define KEEP_LOOP _Pragma("GCC unroll 1")
#endif

/* Fetches the n lines that lie `ahead` bytes ahead: panels follow one another. Called in the order
 * of addresses. With four rows it more than doubles the speed; a single row gains, too (a core: 256
 * bits Q4_K 5.9 -> 10 GB/s, Q4_0 7.0 -> 8.5; 512 bits Q4_K 6.5 -> 9.5, Q2_K 4.9 -> 8, Q4_0 8.5 ->
 * 9.5), and most from farther ahead. */
enum { AHEAD = 2304, AHEAD_OF_ONE = 3584 };
INLINE void prefetch_from(const void *p, int n, int ahead)
{
    UNROLL
    for (int i = 0; i < n; i++)
        _mm_prefetch((const char *)p + ahead + 64 * i, _MM_HINT_T0);
}

INLINE void prefetch_lines(const void *p, int n)
{
    prefetch_from(p, n, AHEAD);
}

/* Runs call(n) with n a constant, the smaller of `rows` and 2, 4 or 8. */
#define ROWS_CASE(n, call)                                                                         \
    case n:                                                                                        \
        call(n);                                                                                   \
        break;
#define ROWS_LAST(n, call)                                                                         \
    default:                                                                                       \
        call(n);                                                                                   \
        break;
#define ROWS_SWITCH_2(rows, call)                                                                  \
    switch (rows) {                                                                                \
        ROWS_CASE(1, call)                                                                         \
        ROWS_LAST(2, call)                                                                         \
    }
#define ROWS_SWITCH_4(rows, call)                                                                  \
    switch (rows) {                                                                                \
        ROWS_CASE(1, call)                                                                         \
        ROWS_CASE(2, call)                                                                         \
        ROWS_CASE(3, call)                                                                         \
        ROWS_LAST(4, call)                                                                         \
    }
#define ROWS_SWITCH_8(rows, call)                                                                  \
    switch (rows) {                                                                                \
        ROWS_CASE(1, call)                                                                         \
        ROWS_CASE(2, call)                                                                         \
        ROWS_CASE(3, call)                                                                         \
        ROWS_CASE(4, call)                                                                         \
        ROWS_CASE(5, call)                                                                         \
        ROWS_CASE(6, call)                                                                         \
        ROWS_CASE(7, call)                                                                         \
        ROWS_LAST(8, call)                                                                         \
    }

#ifdef __AVX512F__

typedef __m512 v16;

INLINE v16 v16_set1(float f)
{
    return _mm512_set1_ps(f);
}

INLINE v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void v16_store(float *p, v16 a)
{
    _mm512_storeu_ps(p, a);
}

/* The first n < 16; lanes beyond are +0. */
INLINE v16 v16_load_part(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1U << n) - 1U), p);
}

INLINE void v16_store_part(float *p, v16 a, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1U << n) - 1U), a);
}

INLINE v16 v16_add(v16 a, v16 b)
{
    return _mm512_add_ps(a, b);
}

INLINE v16 v16_sub(v16 a, v16 b)
{
    return _mm512_sub_ps(a, b);
}

INLINE v16 v16_mul(v16 a, v16 b)
{
    return _mm512_mul_ps(a, b);
}

INLINE v16 v16_div(v16 a, v16 b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once. */
INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a > b ? a : b, a < b ? a : b: b if one is NaN. */
INLINE v16 v16_max(v16 a, v16 b)
{
    return _mm512_max_ps(a, b);
}

INLINE v16 v16_min(v16 a, v16 b)
{
    return _mm512_min_ps(a, b);
}

/* a >= b ? a_value : +0, a_value where one is NaN. */
INLINE v16 v16_zero_below(v16 a, v16 b, v16 value)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), value);
}

/* Lanes [lo, hi) of a, the others from b; bounds outside [0, 16] are allowed. */
INLINE v16 v16_window(v16 a, v16 b, int lo, int hi)
{
    uint32_t below_hi = hi <= 0 ? 0U : hi >= 16 ? 0xFFFFU : (1U << hi) - 1U;
    uint32_t below_lo = lo <= 0 ? 0U : lo >= 16 ? 0xFFFFU : (1U << lo) - 1U;
    return _mm512_mask_mov_ps(b, (__mmask16)(below_hi & ~below_lo), a);
}

/* 2^n of the integer n in the low bits of t. */
INLINE v16 v16_scale_of(v16 t)
{
    __m512i n = _mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(n, 23));
}

INLINE v16 v16_neg(v16 a)
{
    __m512i sign = _mm512_set1_epi32(INT32_MIN);
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), sign));
}

/* Lower and upper half of a word pair widened from bf16: a panel line's even and odd k. */
INLINE v16 v16_even(const void *line)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(line), 16));
}

INLINE v16 v16_odd(const void *line)
{
    __m512i high = _mm512_set1_epi32((int32_t)0xFFFF0000);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(line), high));
}

INLINE v16 v16_load_bf16(const uint16_t *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

INLINE v16 v16_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE v16 v16_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

INLINE void v16_store_bf16(uint16_t *p, v16 a)
{
    __m512i u = _mm512_castps_si512(a);
    __m512i top = _mm512_srli_epi32(u, 16);
    __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
    r = _mm512_srli_epi32(r, 16);
    __m512i quiet = _mm512_or_si512(top, _mm512_set1_epi32(0x40));
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(r));
}

/* Lane j += lane j + 8, then + 4, + 2, + 1. */
INLINE float v16_sum(v16 a)
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* The largest lane; none is NaN. */
INLINE float v16_largest(v16 a)
{
    return _mm512_reduce_max_ps(a);
}

/* The largest magnitude of 32 values, as bits: NaN is larger than all. */
INLINE float v16_amax(v16 a, v16 b)
{
    __m512i mask = _mm512_set1_epi32(INT32_MAX);
    __m512i m = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), mask),
                                 _mm512_and_si512(_mm512_castps_si512(b), mask));
    return tr_bits_f32((uint32_t)_mm512_reduce_max_epi32(m));
}

/* Stores 16 values, all in [-127, 127], rounded half to even; returns their sum. */
INLINE int v16_store_i8(int8_t *q, v16 a)
{
    __m128i b = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a));
    _mm_storeu_si128((__m128i *)(void *)q, b);
    __m128i s = _mm_sad_epu8(_mm_xor_si128(b, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(s) + _mm_extract_epi16(s, 4) - 16 * 128;
}

#else /* AVX2 */

typedef struct {
    __m256 lo, hi;
} v16;

INLINE v16 v16_set1(float f)
{
    __m256 v = _mm256_set1_ps(f);
    return (v16){v, v};
}

INLINE v16 v16_load(const float *p)
{
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

INLINE void v16_store(float *p, v16 a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

/* Lanes j with j < n set. */
INLINE __m256i first_lanes(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE v16 v16_load_part(const float *p, int n)
{
    return (v16){_mm256_maskload_ps(p, first_lanes(n)),
                 n > 8 ? _mm256_maskload_ps(p + 8, first_lanes(n - 8)) : _mm256_setzero_ps()};
}

INLINE void v16_store_part(float *p, v16 a, int n)
{
    _mm256_maskstore_ps(p, first_lanes(n), a.lo);
    if (n > 8)
        _mm256_maskstore_ps(p + 8, first_lanes(n - 8), a.hi);
}

INLINE v16 v16_add(v16 a, v16 b)
{
    return (v16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

INLINE v16 v16_sub(v16 a, v16 b)
{
    return (v16){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

INLINE v16 v16_mul(v16 a, v16 b)
{
    return (v16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

INLINE v16 v16_div(v16 a, v16 b)
{
    return (v16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

INLINE v16 v16_max(v16 a, v16 b)
{
    return (v16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

INLINE v16 v16_min(v16 a, v16 b)
{
    return (v16){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

INLINE v16 v16_zero_below(v16 a, v16 b, v16 value)
{
    return (v16){_mm256_and_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_NLT_UQ), value.lo),
                 _mm256_and_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_NLT_UQ), value.hi)};
}

INLINE v16 v16_window(v16 a, v16 b, int lo, int hi)
{
    __m256i m0 = _mm256_andnot_si256(first_lanes(lo), first_lanes(hi));
    __m256i m1 = _mm256_andnot_si256(first_lanes(lo - 8), first_lanes(hi - 8));
    return (v16){_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(m0)),
                 _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(m1))};
}

INLINE __m256 scale_of(__m256 t)
{
    __m256i n = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}

INLINE v16 v16_scale_of(v16 t)
{
    return (v16){scale_of(t.lo), scale_of(t.hi)};
}

INLINE v16 v16_neg(v16 a)
{
    __m256 sign = _mm256_set1_ps(-0.0F);
    return (v16){_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}

INLINE __m256i load_bytes(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE v16 v16_even(const void *line)
{
    const char *p = line;
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(load_bytes(p), 16)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(load_bytes(p + 32), 16))};
}

INLINE v16 v16_odd(const void *line)
{
    const char *p = line;
    __m256i high = _mm256_set1_epi32((int32_t)0xFFFF0000);
    return (v16){_mm256_castsi256_ps(_mm256_and_si256(load_bytes(p), high)),
                 _mm256_castsi256_ps(_mm256_and_si256(load_bytes(p + 32), high))};
}

INLINE __m256 widen_bf16(const uint16_t *p)
{
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

INLINE v16 v16_load_bf16(const uint16_t *p)
{
    return (v16){widen_bf16(p), widen_bf16(p + 8)};
}

INLINE v16 v16_load_f16(const uint16_t *p)
{
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8)))};
}

INLINE __m256 widen_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

INLINE v16 v16_load_i8(const int8_t *p)
{
    return (v16){widen_i8(p), widen_i8(p + 8)};
}

INLINE __m256i round_bf16(__m256 a)
{
    __m256i u = _mm256_castps_si256(a);
    __m256i top = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd);
    r = _mm256_srli_epi32(r, 16);
    __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}

INLINE void v16_store_bf16(uint16_t *p, v16 a)
{
    __m256i r = _mm256_packus_epi32(round_bf16(a.lo), round_bf16(a.hi));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(r, 0xD8));
}

INLINE float v16_sum(v16 a)
{
    __m256 s8 = _mm256_add_ps(a.lo, a.hi);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

INLINE float v16_largest(v16 a)
{
    __m256 m8 = _mm256_max_ps(a.lo, a.hi);
    __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

INLINE float v16_amax(v16 a, v16 b)
{
    __m256i mask = _mm256_set1_epi32(INT32_MAX);
    __m256i m[4] = {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi), _mm256_castps_si256(b.lo),
                    _mm256_castps_si256(b.hi)};
    UNROLL
    for (int i = 0; i < 4; i++)
        m[i] = _mm256_and_si256(m[i], mask);
    __m256i m8 = _mm256_max_epi32(_mm256_max_epi32(m[0], m[1]), _mm256_max_epi32(m[2], m[3]));
    __m128i m4 = _mm_max_epi32(_mm256_castsi256_si128(m8), _mm256_extracti128_si256(m8, 1));
    __m128i m2 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0x4E));
    return tr_bits_f32((uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(m2, _mm_shuffle_epi32(m2, 0xB1))));
}

INLINE int v16_store_i8(int8_t *q, v16 a)
{
    __m256i w = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
    w = _mm256_permute4x64_epi64(w, 0xD8);
    __m128i b = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)(void *)q, b);
    __m128i s = _mm_sad_epu8(_mm_xor_si128(b, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(s) + _mm_extract_epi16(s, 4) - 16 * 128;
}

#endif /* AVX2 */

/* Up to 16 elements: all of them if n >= 16. */
INLINE v16 v16_load_upto(const float *p, int n)
{
    return n >= 16 ? v16_load(p) : v16_load_part(p, n);
}

INLINE void v16_store_upto(float *p, v16 a, int n)
{
    if (n >= 16)
        v16_store(p, a);
    else
        v16_store_part(p, a, n);
}

/* tr_expf in each lane. */
INLINE v16 v16_exp(v16 x)
{
    v16 lowest = v16_set1(-87.33654F);
    v16 shift = v16_set1(12582912.0F);
    v16 c = v16_max(lowest, v16_min(v16_set1(88.0F), x));
    v16 t = v16_fma(c, v16_set1(1.44269504F), shift);
    v16 n = v16_sub(t, shift);
    v16 r = v16_fma(n, v16_set1(-0.693145752F), c);
    r = v16_fma(n, v16_set1(-1.42860677e-6F), r);
    v16 p = v16_set1(1.38888889e-3F);
    p = v16_fma(p, r, v16_set1(8.33333333e-3F));
    p = v16_fma(p, r, v16_set1(4.16666667e-2F));
    p = v16_fma(p, r, v16_set1(1.66666667e-1F));
    p = v16_fma(p, r, v16_set1(0.5F));
    p = v16_fma(p, r, v16_set1(1.0F));
    p = v16_fma(p, r, v16_set1(1.0F));
    return v16_zero_below(x, lowest, v16_mul(p, v16_scale_of(t)));
}

/* tr_sigmoidf in each lane. */
INLINE v16 v16_sigmoid(v16 x)
{
    v16 one = v16_set1(1.0F);
    return v16_div(one, v16_add(one, v16_exp(v16_neg(x))));
}

#endif /* __AVX2__ */
#endif
