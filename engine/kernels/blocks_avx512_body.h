/* Blocks of quantised panels in AVX-512 registers: a line is one register of sixteen columns, four
 * k each. */
#ifndef TR_ENGINE_KERNELS_BLOCKS_AVX512_BODY_H
#define TR_ENGINE_KERNELS_BLOCKS_AVX512_BODY_H

#include "engine/kernels/panel.h"
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

/* The block's quads as unsigned bytes. */
INLINE void unpack(enum tr_wtype type, const uint8_t *block, __m512i w[QUADS])
{
    if (type == TR_W_Q8_0) {
        UNROLL
        for (int i = 0; i < QUADS; i++)
            w[i] = line(block, i);
        return;
    }
    __m512i nibble = _mm512_set1_epi8(15);
    UNROLL
    for (int i = 0; i < QUADS / 2; i++) {
        __m512i both = line(block, i);
        w[i] = _mm512_and_si512(both, nibble);
        w[i + QUADS / 2] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
    if (type == TR_W_Q5_K) { /* bit i of a byte goes to bit 4 */
        __m512i high = line(block, 4);
        UNROLL
        for (unsigned i = 0; i < QUADS; i++) {
            __m512i bits = i < 4 ? _mm512_slli_epi16(high, 4 - i) : _mm512_srli_epi16(high, i - 4);
            w[i] = or_masked(w[i], bits, 0x10);
        }
    }
    if (type == TR_W_Q6_K) { /* bits 2i, 2i+1 of a byte go to bits 4, 5 */
        UNROLL
        for (unsigned i = 0; i < QUADS; i++) {
            __m512i high = line(block, i < 4 ? 4 : 5);
            unsigned from = 2 * (i % 4);
            __m512i bits =
                from < 4 ? _mm512_slli_epi16(high, 4 - from) : _mm512_srli_epi16(high, from - 4);
            w[i] = or_masked(w[i], bits, 0x30);
        }
    }
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

struct scales {
    __m512 half[2]; /* of the block's halves of 16 k; only Q6_K has two */
    __m512 min;     /* Q4_K, Q5_K */
};

INLINE struct scales read_scales(enum tr_wtype type, const uint8_t *s, int b)
{
    struct scales ret = {0};
    if (type == TR_W_Q8_0 || type == TR_W_Q4_0) {
        ret.half[0] = f16_scales(s + b * TR_PANEL * 2);
        return ret;
    }
    __m512 d = f16_scales(s + TR_K_D);
    if (type == TR_W_Q6_K) {
        ret.half[0] = _mm512_mul_ps(d, byte_scales(true, s + 2 * b * TR_PANEL));
        ret.half[1] = _mm512_mul_ps(d, byte_scales(true, s + (2 * b + 1) * TR_PANEL));
    } else {
        ret.half[0] = _mm512_mul_ps(d, byte_scales(false, s + b * TR_PANEL));
        ret.min = _mm512_mul_ps(f16_scales(s + TR_K_DMIN),
                                byte_scales(false, s + TR_K_MINS + b * TR_PANEL));
    }
    return ret;
}

#endif /* __AVX512F__ */
#endif
