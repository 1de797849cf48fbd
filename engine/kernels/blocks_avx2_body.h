/* Blocks of quantised panels in AVX2 registers: eight columns, four k each. */
#ifndef TR_ENGINE_KERNELS_BLOCKS_AVX2_BODY_H
#define TR_ENGINE_KERNELS_BLOCKS_AVX2_BODY_H

#include "engine/kernels/panel.h"
#include "engine/kernels/quants.h"
#include "engine/kernels/vec_body.h"

#ifdef __AVX2__

INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* What differs between types of one layout. */
struct values {
    __m256i table; /* the values of types that have them, in both lanes of 16 bytes */
    float unit;
    int offset;
};

INLINE struct values values_of(enum tr_wtype type)
{
    struct values ret = {_mm256_setzero_si256(), tr__unit(type), tr__offset(type)};
    const int8_t *values = tr__values(type);
    if (values)
        ret.table =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)values));
    return ret;
}

/* Does unpacking give signed values? */
INLINE bool is_signed(enum tr_wtype type)
{
    return type == TR_W_Q8_0 || tr__has_values(type);
}

INLINE __m256i shift(__m256i v, int left)
{
    return left >= 0 ? _mm256_slli_epi16(v, left) : _mm256_srli_epi16(v, -left);
}

/* base | (bits at bit `from`, moved to `to`, where the mask has them) */
INLINE __m256i or_bits(__m256i base, const uint8_t *bits, int from, int to, int mask)
{
    __m256i moved = _mm256_and_si256(shift(load(bits), to - from), _mm256_set1_epi8((char)mask));
    return _mm256_or_si256(base, moved);
}

/* The codes of quad i of eight columns; block points at their half of the first line. */
INLINE __m256i codes_of(enum tr_codes codes, const uint8_t *block, int i)
{
    __m256i v;
    if (codes == TR_CODES_8)
        return load(block + i * TR_LINE);
    if (codes == TR_CODES_3 || codes == TR_CODES_2) {
        v = _mm256_srli_epi16(load(block + i / 4 * TR_LINE), 2 * (i % 4));
        v = _mm256_and_si256(v, _mm256_set1_epi8(3));
        return codes == TR_CODES_2 ? v : or_bits(v, block + 2 * TR_LINE, i, 2, 0x04);
    }
    v = load(block + i % 4 * TR_LINE);
    v = _mm256_and_si256(i < 4 ? v : _mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    if (codes == TR_CODES_5)
        return or_bits(v, block + 4 * TR_LINE, i, 4, 0x10);
    if (codes == TR_CODES_6)
        return or_bits(v, block + (4 + i / 4) * TR_LINE, 2 * (i % 4), 4, 0x30);
    return v;
}

/* Quad i as it is multiplied: unsigned codes, or signed values. */
INLINE __m256i unpack(enum tr_wtype type, __m256i table, const uint8_t *block, int i)
{
    __m256i v = codes_of(tr__codes(type), block, i);
    if (type == TR_W_Q8_0)
        return _mm256_xor_si256(v, _mm256_set1_epi8(-128));
    return tr__has_values(type) ? _mm256_shuffle_epi8(table, v) : v;
}

INLINE __m256 f16_scales(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

INLINE __m256 byte_scales(bool is_signed, const uint8_t *p)
{
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
}

INLINE __m256 nibble_scales(int right, const uint8_t *p)
{
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(v, right), _mm256_set1_epi32(15)));
}

/* 8 numbers of E8M0, as their floats' exponents. */
INLINE __m256 exponents(const uint8_t *p)
{
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 23));
}

/* 8 numbers of E4M3, in units of 2^-8. */
INLINE __m256 e4m3_scales(const uint8_t *p)
{
    __m128i v = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_cvtph_ps(_mm_slli_epi16(v, 7));
}

/* Of a block or of its halves of 16 k. */
struct scales {
    __m256 v[2];
    __m256 min[2]; /* of types that have it */
};

/* Of half h of block b. */
INLINE void read_half(enum tr_wtype type, const uint8_t *s, int b, int h, int col, float unit,
                      struct scales *ret)
{
    const uint8_t *at = s + (2 * b + h) * TR_PANEL + col;
    switch (tr__scales(type)) {
    case TR_SCALES_S16:
        ret->v[h] = f16_scales(s + TR_K_D + 2 * col);
        if (tr__has_values(type))
            ret->v[h] = _mm256_mul_ps(ret->v[h], _mm256_set1_ps(unit));
        ret->v[h] = _mm256_mul_ps(ret->v[h], byte_scales(true, at));
        break;
    case TR_SCALES_K_HALF:
        ret->v[h] = _mm256_mul_ps(f16_scales(s + TR_K_D + 2 * col), nibble_scales(0, at));
        ret->min[h] = _mm256_mul_ps(f16_scales(s + TR_K_DMIN + 2 * col), nibble_scales(4, at));
        break;
    default: /* TR_SCALES_E4M3 */
        ret->v[h] = _mm256_loadu_ps((const float *)(const void *)(s + TR_E4M3_FACTOR + 4 * col));
        ret->v[h] = _mm256_mul_ps(ret->v[h], e4m3_scales(at));
        break;
    }
}

/* Of columns [col, col + 8) in block b of a group. */
INLINE struct scales read_scales(enum tr_wtype type, const uint8_t *s, int b, int col, float unit)
{
    struct scales ret = {{_mm256_setzero_ps(), _mm256_setzero_ps()},
                         {_mm256_setzero_ps(), _mm256_setzero_ps()}};
    const int at = b * TR_PANEL + col;
    switch (tr__scales(type)) {
    case TR_SCALES_F16_MIN:
        ret.min[0] = _mm256_xor_ps(f16_scales(s + TR_F16_MINS + 2 * at), _mm256_set1_ps(-0.0F));
        ret.v[0] = f16_scales(s + 2 * at);
        break;
    case TR_SCALES_F16:
        ret.v[0] = f16_scales(s + 2 * at);
        break;
    case TR_SCALES_K:
        ret.v[0] = _mm256_mul_ps(f16_scales(s + TR_K_D + 2 * col), byte_scales(false, s + at));
        ret.min[0] = _mm256_mul_ps(f16_scales(s + TR_K_DMIN + 2 * col),
                                   byte_scales(false, s + TR_K_MINS + at));
        break;
    case TR_SCALES_S32:
        ret.v[0] = _mm256_mul_ps(f16_scales(s + TR_S32_D + 2 * col), _mm256_set1_ps(unit));
        ret.v[0] = _mm256_mul_ps(ret.v[0], byte_scales(true, s + at));
        break;
    case TR_SCALES_E8:
        ret.v[0] = exponents(s + at);
        break;
    default:
        read_half(type, s, b, 0, col, unit, &ret);
        read_half(type, s, b, 1, col, unit, &ret);
        break;
    }
    return ret;
}

/* low * the sum of the first half + high * the sum of the second, in every lane. */
INLINE __m256i sums_times(int32_t halves, int low, int high)
{
    int32_t factors = (int32_t)((uint32_t)high << 16 | (uint16_t)low);
    return _mm256_madd_epi16(_mm256_set1_epi32(halves), _mm256_set1_epi32(factors));
}

/* Half h of a block counts towards a sum over part `part` of `parts`. */
INLINE int counts(int h, int part, int parts)
{
    return parts == 1 || h == part;
}

/* What lies before stays before. Without it the compiler unpacks a whole block ahead of its use,
 * and spends more time spilling registers than multiplying. */
#define ORDER __asm__ volatile("" ::: "memory")

/* Keeps a sum a chain: as a tree it needs more registers than there are. */
#define IN_REGISTER(v) __asm__("" : "+x"(v))

#endif /* __AVX2__ */
#endif
