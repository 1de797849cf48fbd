/* Blocks of quantised panels in AVX-512 registers: a line is one register of sixteen columns, four
 * k each. */
#ifndef TR_ENGINE_KERNELS_BLOCKS_AVX512_BODY_H
#define TR_ENGINE_KERNELS_BLOCKS_AVX512_BODY_H

#include "engine/kernels/panel.h"
#include "engine/kernels/quants.h"
#include "engine/kernels/vec_body.h"

#ifdef __AVX512F__

enum { QUADS = TR_BLOCK / 4 };

INLINE __m512i line(const uint8_t *block, int i)
{
    return _mm512_loadu_si512(block + (size_t)i * TR_LINE);
}

/* base | (bits & mask) */
INLINE __m512i or_masked(__m512i base, __m512i bits, int mask)
{
    return _mm512_ternarylogic_epi32(base, bits, _mm512_set1_epi8((char)mask), 0xF8);
}

/* What a type's bytes are more than its values once they are unpacked: they are unsigned. */
INLINE int bias_of(enum tr_wtype type)
{
    return tr__has_values(type) ? 128 : tr__offset(type);
}

/* What differs between types of one layout. */
struct values {
    enum tr_wtype type;
    __m512i table; /* the values of types that have them, unsigned, in every lane of 16 bytes */
    float unit;
};

INLINE struct values values_of(enum tr_wtype type)
{
    struct values ret = {type, _mm512_setzero_si512(), tr__unit(type)};
    const int8_t *values = tr__values(type);
    if (values) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)values);
        ret.table = _mm512_broadcast_i32x4(_mm_xor_si128(v, _mm_set1_epi8(-128)));
    }
    return ret;
}

/* Bits [from, from + n) of every byte to bit `to`, where the mask has them. */
INLINE __m512i or_bits(__m512i base, __m512i bits, unsigned from, unsigned to, int mask)
{
    bits = from < to ? _mm512_slli_epi16(bits, to - from) : _mm512_srli_epi16(bits, from - to);
    return or_masked(base, bits, mask);
}

INLINE void unpack_nibbles(enum tr_codes codes, const uint8_t *block, __m512i w[QUADS])
{
    __m512i nibble = _mm512_set1_epi8(15);
    UNROLL
    for (int i = 0; i < QUADS / 2; i++) {
        __m512i both = line(block, i);
        w[i] = _mm512_and_si512(both, nibble);
        w[i + QUADS / 2] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
    UNROLL
    for (unsigned i = 0; i < QUADS; i++) {
        if (codes == TR_CODES_5)
            w[i] = or_bits(w[i], line(block, 4), i, 4, 0x10);
        if (codes == TR_CODES_6)
            w[i] = or_bits(w[i], line(block, i < 4 ? 4 : 5), 2 * (i % 4), 4, 0x30);
    }
}

INLINE void unpack_pairs(enum tr_codes codes, const uint8_t *block, __m512i w[QUADS])
{
    UNROLL
    for (unsigned i = 0; i < QUADS; i++) {
        __m512i pairs = _mm512_srli_epi16(line(block, i < 4 ? 0 : 1), 2 * (i % 4));
        w[i] = _mm512_and_si512(pairs, _mm512_set1_epi8(3));
        if (codes == TR_CODES_3)
            w[i] = or_bits(w[i], line(block, 2), i, 2, 0x04);
    }
}

/* The block's quads as unsigned bytes. */
INLINE void unpack(enum tr_wtype type, const uint8_t *block, __m512i table, __m512i w[QUADS])
{
    const enum tr_codes codes = tr__codes(type);
    if (codes == TR_CODES_8) {
        UNROLL
        for (int i = 0; i < QUADS; i++)
            w[i] = line(block, i);
    } else if (codes == TR_CODES_3 || codes == TR_CODES_2) {
        unpack_pairs(codes, block, w);
    } else {
        unpack_nibbles(codes, block, w);
    }
    if (!tr__has_values(type))
        return;
    UNROLL
    for (int i = 0; i < QUADS; i++)
        w[i] = _mm512_shuffle_epi8(table, w[i]);
}

INLINE __m512 f16_scales(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* 16 bytes as floats. */
INLINE __m512 byte_scales(bool is_signed, const uint8_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
}

INLINE __m512 nibble_scales(int shift, const uint8_t *p)
{
    __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)shift), _mm512_set1_epi32(15)));
}

/* 16 numbers of E8M0, as their floats' exponents. */
INLINE __m512 exponents(const uint8_t *p)
{
    __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 23));
}

/* 16 numbers of E4M3, in units of 2^-8. */
INLINE __m512 e4m3_scales(const uint8_t *p)
{
    __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm512_cvtph_ps(_mm256_slli_epi16(v, 7));
}

struct scales {
    __m512 half[2]; /* of the block's halves of 16 k, of types that have them, or [0] of it all */
    __m512 min[2];  /* likewise, of types that have it */
};

/* Both halves of block b. */
INLINE struct scales read_halves(enum tr_wtype type, const uint8_t *s, int b, float unit)
{
    const enum tr_scales kind = tr__scales(type);
    struct scales ret = {0};
    __m512 d = kind == TR_SCALES_E4M3
                   ? _mm512_loadu_ps((const float *)(const void *)(s + TR_E4M3_FACTOR))
                   : f16_scales(s + TR_K_D);
    if (kind == TR_SCALES_S16 && tr__has_values(type))
        d = _mm512_mul_ps(d, _mm512_set1_ps(unit));
    UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8_t *at = s + (2 * b + h) * TR_PANEL;
        if (kind == TR_SCALES_S16) {
            ret.half[h] = _mm512_mul_ps(d, byte_scales(true, at));
        } else if (kind == TR_SCALES_K_HALF) {
            ret.half[h] = _mm512_mul_ps(d, nibble_scales(0, at));
            ret.min[h] = _mm512_mul_ps(f16_scales(s + TR_K_DMIN), nibble_scales(4, at));
        } else {
            ret.half[h] = _mm512_mul_ps(d, e4m3_scales(at));
        }
    }
    return ret;
}

/* `unit` is tr__unit of the type. */
INLINE struct scales read_scales(enum tr_wtype type, const uint8_t *s, int b, float unit)
{
    const enum tr_scales kind = tr__scales(type);
    struct scales ret = {0};
    switch (kind) {
    case TR_SCALES_F16_MIN:
        ret.min[0] =
            _mm512_sub_ps(_mm512_set1_ps(-0.0F), f16_scales(s + TR_F16_MINS + b * TR_PANEL * 2));
        ret.half[0] = f16_scales(s + b * TR_PANEL * 2);
        return ret;
    case TR_SCALES_F16:
        ret.half[0] = f16_scales(s + b * TR_PANEL * 2);
        return ret;
    case TR_SCALES_K:
        ret.half[0] = _mm512_mul_ps(f16_scales(s + TR_K_D), byte_scales(false, s + b * TR_PANEL));
        ret.min[0] = _mm512_mul_ps(f16_scales(s + TR_K_DMIN),
                                   byte_scales(false, s + TR_K_MINS + b * TR_PANEL));
        return ret;
    case TR_SCALES_S32:
        ret.half[0] = _mm512_mul_ps(_mm512_mul_ps(f16_scales(s + TR_S32_D), _mm512_set1_ps(unit)),
                                    byte_scales(true, s + b * TR_PANEL));
        return ret;
    case TR_SCALES_E8:
        ret.half[0] = exponents(s + b * TR_PANEL);
        return ret;
    default:
        return read_halves(type, s, b, unit);
    }
}

#endif /* __AVX512F__ */
#endif
