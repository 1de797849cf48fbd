/*
 * The product of one row with a panel in AVX2 registers.
 *
 * One row is bound by the unpacking, so that is as cheap as may be here: shifts, of which most
 * processors with AVX2 do one or two a cycle, are spared. Codes of two bits are multiplied where
 * they stand, as themselves or four times too large; single bits are spread by a look-up of their
 * nibble; tables hold their values plus a bias where int16 has room for these.
 */
#ifndef TR_ENGINE_KERNELS_ROW_AVX2_BODY_H
#define TR_ENGINE_KERNELS_ROW_AVX2_BODY_H

#include <string.h>

#include "engine/kernels/blocks_avx2_body.h"

#ifdef __AVX2__

/* What the values in the table of a type are too large by, so that none is negative; 0: they are
 * signed. */
INLINE int row_bias(enum tr_wtype type)
{
    switch (type) {
    case TR_W_MXFP4:
    case TR_W_NVFP4:
        return 12;
    case TR_W_IQ3_S:
        return 15;
    default:
        return 0;
    }
}

/* What differs between types of one layout, and what does not change from block to block. */
struct row_values {
    __m256i even, odd; /* tables for quads of even and odd number */
    float unit;
    int offset; /* of the codes, or the bias of the table */
};

/* A table for codes of three bits that stand as two bits above one, the third. */
INLINE __m256i turned(__m256i table)
{
    const __m256i from = _mm256_setr_epi8(0, 4, 0, 4, 1, 5, 1, 5, 2, 6, 2, 6, 3, 7, 3, 7, 0, 4, 0,
                                          4, 1, 5, 1, 5, 2, 6, 2, 6, 3, 7, 3, 7);
    return _mm256_shuffle_epi8(table, from);
}

INLINE struct row_values row_values_of(enum tr_wtype type, struct values v)
{
    struct row_values ret = {v.table, v.table, v.unit, v.offset};
    if (row_bias(type)) {
        ret.offset = row_bias(type);
        ret.even = ret.odd = _mm256_add_epi8(v.table, _mm256_set1_epi8((char)ret.offset));
    }
    if (tr__has_values(type) && tr__codes(type) == TR_CODES_3)
        ret.odd = turned(v.table);
    return ret;
}

/* For every nibble: its bit i, as `value`. */
INLINE __m256i bit_table(int i, int value)
{
    const long long all = 0x0101010101010101LL * value;
    switch (i) {
    case 0:
        return _mm256_set1_epi16((short)(value << 8));
    case 1:
        return _mm256_set1_epi32((int)((uint32_t)value * 0x01010000U));
    case 2:
        return _mm256_set1_epi64x((long long)((uint64_t)value * 0x0101010100000000ULL));
    default:
        return _mm256_setr_epi64x(0, all, 0, all);
    }
}

INLINE __m256i nibble_of(__m256i v, bool high)
{
    return _mm256_and_si256(high ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Four times as large as they are? Then the dot is, too. */
INLINE bool in_place(enum tr_codes codes)
{
    return codes == TR_CODES_2 || codes == TR_CODES_3;
}

/* What quads 4g .. 4g+3 of eight columns share. */
struct row_lines {
    __m256i low, high; /* in_place: the line, and its upper nibbles moved down */
    __m256i bits;      /* nibbles of the line of single bits, or the line of pairs */
};

/* block points at the columns' part of the first line. */
INLINE struct row_lines row_lines_of(enum tr_codes codes, const uint8_t *block, int g)
{
    struct row_lines ret;
    if (in_place(codes)) {
        ret.low = load(block + g * TR_LINE);
        ret.high = _mm256_srli_epi16(ret.low, 4);
    }
    if (codes == TR_CODES_3 || codes == TR_CODES_5)
        ret.bits = nibble_of(load(block + (codes == TR_CODES_3 ? 2 : 4) * TR_LINE), g == 1);
    if (codes == TR_CODES_6)
        ret.bits = load(block + (4 + g) * TR_LINE);
    return ret;
}

/* The code of quad 4g + i; four times as large if in_place and i is odd, or, if it is an index
 * then, with the third bit below the others. */
INLINE __m256i row_code(enum tr_wtype type, const struct row_lines *l, const uint8_t *block, int g,
                        int i)
{
    const enum tr_codes codes = tr__codes(type);
    if (in_place(codes)) {
        const int third = i % 2 == 0 ? 4 : tr__has_values(type) ? 1 : 16;
        __m256i v = _mm256_and_si256(i < 2 ? l->low : l->high, _mm256_set1_epi8(i % 2 ? 12 : 3));
        return codes == TR_CODES_2
                   ? v
                   : _mm256_or_si256(v, _mm256_shuffle_epi8(bit_table(i, third), l->bits));
    }
    __m256i v = nibble_of(load(block + i * TR_LINE), g == 1);
    if (codes == TR_CODES_5)
        return _mm256_or_si256(v, _mm256_shuffle_epi8(bit_table(i, 16), l->bits));
    if (codes == TR_CODES_6)
        return _mm256_or_si256(v,
                               _mm256_and_si256(shift(l->bits, 4 - 2 * i), _mm256_set1_epi8(0x30)));
    return v;
}

INLINE __m256i quad_of(const int8_t *a, int i)
{
    int32_t bytes;
    memcpy(&bytes, a + 4 * i, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

/* Are values of this type products of signed numbers? */
INLINE bool row_is_signed(enum tr_wtype type)
{
    return tr__has_values(type) && !row_bias(type);
}

/* How many products of pairs int16 has room for: of 127 (IQ4), 63 (6 bits) or 43 (IQ2), 31 (5 bits,
 * IQ3_S), 15 times 254; of codes in_place 4 (7 * 254 * 2) + 28 * 254 * 2 for four. */
INLINE int row_addable(enum tr_wtype type)
{
    const enum tr_codes codes = tr__codes(type);
    if (row_is_signed(type))
        return codes == TR_CODES_4 ? 1 : 2;
    if (codes == TR_CODES_6)
        return 2;
    return codes == TR_CODES_4 && !tr__has_values(type) && !tr__has_halves(tr__scales(type)) ? 8
                                                                                             : 4;
}

/* What the row has of one block. */
struct row_block {
    const int8_t *a;
    const int8_t *abs; /* for signed values */
    __m256 scale;
    int32_t sums;
};

/* dot += quads 4g .. 4g+3 of sixteen columns; s holds what is added in 16 bits. */
INLINE void row_quads(enum tr_wtype type, const struct row_values *v, const uint8_t *block,
                      const struct row_block *x, int g, __m256i s[2], __m256i dot[2])
{
    static const int order[] = {0, 2, 1, 3};
    const bool scaled = in_place(tr__codes(type)) && !tr__has_values(type);
    const int many = row_addable(type);
    const __m256i ones = _mm256_set1_epi16(1);
    struct row_lines l[2] = {row_lines_of(tr__codes(type), block, g),
                             row_lines_of(tr__codes(type), block + TR_LINE / 2, g)};
    UNROLL
    for (int j = 0; j < 4; j++) {
        const int i = order[j];
        const int n = (4 * g + j) % many;
        ORDER;
        __m256i quad = quad_of(x->a, 4 * g + i);
        UNROLL
        for (int c = 0; c < 2; c++) {
            __m256i w = row_code(type, &l[c], block + c * TR_LINE / 2, g, i);
            if (tr__has_values(type))
                w = _mm256_shuffle_epi8(i % 2 ? v->odd : v->even, w);
            w = row_is_signed(type)
                    ? _mm256_maddubs_epi16(quad_of(x->abs, 4 * g + i), _mm256_sign_epi8(w, quad))
                    : _mm256_maddubs_epi16(w, quad);
            if (scaled && j == 2)
                s[c] = _mm256_slli_epi16(s[c], 2);
            s[c] = n == 0 ? w : _mm256_add_epi16(s[c], w);
            IN_REGISTER(s[c]);
            if (n == many - 1) {
                dot[c] = _mm256_add_epi32(dot[c], _mm256_madd_epi16(s[c], ones));
                IN_REGISTER(dot[c]);
            }
        }
    }
}

/* d of a group's columns, and dmin of K types. */
struct row_d {
    __m256 d, min;
};

INLINE struct row_d row_d_of(enum tr_wtype type, const struct row_values *v, const uint8_t *s,
                             int col)
{
    struct row_d ret = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    const enum tr_scales kind = tr__scales(type);
    switch (kind) {
    case TR_SCALES_K:
    case TR_SCALES_K_HALF:
        ret.min = f16_scales(s + TR_K_DMIN + 2 * col);
        ret.d = f16_scales(s + TR_K_D + 2 * col);
        break;
    case TR_SCALES_S16:
    case TR_SCALES_S32:
        ret.d = f16_scales(s + (kind == TR_SCALES_S16 ? TR_K_D : TR_S32_D) + 2 * col);
        if (tr__has_values(type))
            ret.d = _mm256_mul_ps(ret.d, _mm256_set1_ps(v->unit));
        break;
    case TR_SCALES_E4M3:
        ret.d = _mm256_loadu_ps((const float *)(const void *)(s + TR_E4M3_FACTOR + 4 * col));
        break;
    default:
        break;
    }
    return ret;
}

/* As read_scales; d is the group's. */
INLINE struct scales row_scales(enum tr_wtype type, struct row_d d, const uint8_t *s, int b,
                                int col)
{
    struct scales ret;
    const enum tr_scales kind = tr__scales(type);
    const int at = b * TR_PANEL + col;
    if (kind == TR_SCALES_F16 || kind == TR_SCALES_F16_MIN || kind == TR_SCALES_E8)
        return read_scales(type, s, b, col, 1.0F);
    if (!tr__has_halves(kind)) {
        ret.v[0] = _mm256_mul_ps(d.d, byte_scales(kind == TR_SCALES_S32, s + at));
        if (kind == TR_SCALES_K)
            ret.min[0] = _mm256_mul_ps(d.min, byte_scales(false, s + TR_K_MINS + at));
        return ret;
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8_t *half = s + (2 * b + h) * TR_PANEL + col;
        if (kind == TR_SCALES_K_HALF) {
            ret.v[h] = _mm256_mul_ps(d.d, nibble_scales(0, half));
            ret.min[h] = _mm256_mul_ps(d.min, nibble_scales(4, half));
        } else {
            ret.v[h] = _mm256_mul_ps(d.d, kind == TR_SCALES_S16 ? byte_scales(true, half)
                                                                : e4m3_scales(half));
        }
    }
    return ret;
}

INLINE bool row_has_offset(enum tr_wtype type)
{
    return tr__has_values(type) ? row_bias(type) != 0 : tr__offset(type) != 0;
}

/* acc of a panel's two halves moved on by block b of a group. */
INLINE void row_step(enum tr_wtype type, const struct row_values *v, const struct row_d d[2],
                     const uint8_t *block, const uint8_t *scales, int b, const struct row_block *x,
                     __m256 acc[2])
{
    const int parts = tr__has_halves(tr__scales(type)) ? 2 : 1;
    const bool scaled = in_place(tr__codes(type)) && !tr__has_values(type);
    const int offset = scaled ? 4 * v->offset : v->offset;
    UNROLL
    for (int h = 0; h < parts; h++) {
        const int first = counts(0, h, parts);
        const int second = counts(1, h, parts);
        __m256i s[2];
        __m256i dot[2];
        dot[0] = dot[1] = row_has_offset(type)
                              ? sums_times(x->sums, -offset * first, -offset * second)
                              : _mm256_setzero_si256();
        UNROLL
        for (int g = h; g <= h + (parts == 1); g++)
            row_quads(type, v, block, x, g, s, dot);
        ORDER;
        UNROLL
        for (int c = 0; c < 2; c++) {
            struct scales at = row_scales(type, d[c], scales, b, 8 * c);
            if (scaled)
                dot[c] = _mm256_srai_epi32(dot[c], 2);
            acc[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[c]), _mm256_mul_ps(at.v[h], x->scale),
                                     acc[c]);
            if (tr__has_min(tr__scales(type)))
                acc[c] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(sums_times(x->sums, first, second)),
                                          _mm256_mul_ps(at.min[h], x->scale), acc[c]);
        }
    }
}

#endif /* __AVX2__ */
#endif
