/* Reading, dequantising and quantising rows in the files' formats. */
#include "engine/kernels/quants.h"

#include <string.h>

#include "engine/kernels/math.h"
#include "engine/kernels/panel.h"

static const struct {
    uint16_t elements, bytes;
} blocks[TR_W_COUNT] = {
    [TR_W_F32] = {1, 4},       [TR_W_F16] = {1, 2},        [TR_W_BF16] = {1, 2},
    [TR_W_Q8_0] = {32, 34},    [TR_W_Q4_0] = {32, 18},     [TR_W_Q4_K] = {256, 144},
    [TR_W_Q5_K] = {256, 176},  [TR_W_Q6_K] = {256, 210},   [TR_W_Q4_1] = {32, 20},
    [TR_W_Q5_0] = {32, 22},    [TR_W_Q5_1] = {32, 24},     [TR_W_IQ4_NL] = {32, 18},
    [TR_W_MXFP4] = {32, 17},   [TR_W_NVFP4] = {64, 36},    [TR_W_Q2_K] = {256, 84},
    [TR_W_Q3_K] = {256, 110},  [TR_W_IQ4_XS] = {256, 136}, [TR_W_IQ3_XXS] = {256, 98},
    [TR_W_IQ3_S] = {256, 110}, [TR_W_IQ2_XXS] = {256, 66}, [TR_W_IQ2_XS] = {256, 74},
    [TR_W_IQ2_S] = {256, 82},  [TR_W_IQ1_S] = {256, 50},   [TR_W_IQ1_M] = {256, 56},
    [TR_W_TQ1_0] = {256, 54},  [TR_W_TQ2_0] = {256, 66},   [TR_W_Q1_0] = {128, 18},
    [TR_W_Q2_0] = {64, 18},
};

int tr__file_block_len(enum tr_wtype type)
{
    return blocks[type].elements;
}

int tr__file_block_bytes(enum tr_wtype type)
{
    return blocks[type].bytes;
}

const int8_t *tr__values(enum tr_wtype type)
{
    static const int8_t iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
    static const int8_t e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    static const int8_t iq3_xxs[] = {4,  12,  20,  28,  36,  44,  52,  62,
                                     -4, -12, -20, -28, -36, -44, -52, -62};
    static const int8_t iq3_s[] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
    static const int8_t iq2[16] = {8, 25, 43, 0, -8, -25, -43};
    static const int8_t iq1[16] = {-7, 1, 9, 0, -9, -1, 7};
    switch (type) {
    case TR_W_IQ4_NL:
    case TR_W_IQ4_XS:
        return iq4;
    case TR_W_MXFP4:
    case TR_W_NVFP4:
        return e2m1;
    case TR_W_IQ3_XXS:
        return iq3_xxs;
    case TR_W_IQ3_S:
        return iq3_s;
    case TR_W_IQ2_XXS:
    case TR_W_IQ2_XS:
    case TR_W_IQ2_S:
        return iq2;
    case TR_W_IQ1_S:
    case TR_W_IQ1_M:
        return iq1;
    default:
        return NULL;
    }
}

size_t tr_file_row_bytes(enum tr_wtype type, int k)
{
    int len = tr__file_block_len(type);
    if (k <= 0 || k % len != 0)
        return 0;
    return (size_t)(k / len) * (size_t)tr__file_block_bytes(type);
}

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* A number of E8M0 / 2; the two smallest are denormal. */
static float half_e8m0(uint8_t e)
{
    return tr_bits_f32(e < 2 ? 0x00200000U << e : (uint32_t)(e - 1) << 23);
}

/* A number of E4M3 / 2, whose bits are those of an fp16 but for its place and bias. */
static float half_e4m3(uint8_t v)
{
    return tr_f16_f32((uint16_t)(v << 7)) * 128.0F;
}

/* The scale of half h. */
static float scale_of(enum tr_wtype type, const struct tr_file_block *b, int h)
{
    float d = tr_f16_f32(b->d) * tr__unit(type);
    switch (tr__scales(type)) {
    case TR_SCALES_K:
    case TR_SCALES_K_HALF:
        return d * (float)b->sc[h];
    case TR_SCALES_S32:
    case TR_SCALES_S16:
        return d * (float)(int8_t)b->sc[h];
    case TR_SCALES_E8:
        return half_e8m0(b->sc[h]);
    case TR_SCALES_E4M3:
        return half_e4m3(b->sc[h]);
    default:
        return d;
    }
}

/* w = (d sc) q - dmin mn, d q + m or (d sc) v: two roundings at most, as the formats' reference
 * does it. */
static void dequantize_block(enum tr_wtype type, const struct tr_file_block *b, float *y)
{
    enum tr_scales scales = tr__scales(type);
    const int8_t *values = tr__values(type);
    int offset = tr__offset(type);
    for (int h = 0; h < 2; h++) {
        float scale = scale_of(type, b, h);
        float min = tr_f16_f32(b->dmin);
        min = scales == TR_SCALES_F16_MIN ? -min : min * (float)b->mn[h];
        for (int i = 16 * h; i < 16 * h + 16; i++) {
            float v = (float)(values ? values[b->q[i]] : b->q[i] - offset);
            y[i] = tr__has_min(scales) ? scale * v - min : scale * v;
        }
    }
}

void tr_dequantize_row(enum tr_wtype type, const void *src, int k, float *y)
{
    const uint8_t *row = src;
    switch (type) {
    case TR_W_F32:
        memcpy(y, src, (size_t)k * sizeof *y);
        return;
    case TR_W_F16:
        for (int i = 0; i < k; i++)
            y[i] = tr_f16_f32(read_u16(row + 2 * (size_t)i));
        return;
    case TR_W_BF16:
        for (int i = 0; i < k; i++)
            y[i] = tr_bf16_f32(read_u16(row + 2 * (size_t)i));
        return;
    default:
        for (int i = 0; i < k / 32; i++) {
            struct tr_file_block b;
            tr__file_block_read(type, row, i, &b);
            dequantize_block(type, &b, y + (size_t)i * 32);
        }
        return;
    }
}

static void write_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 0xFF);
    p[1] = (uint8_t)(v >> 8);
}

/* The largest magnitude of 32 values. As integers, so that the loop becomes vector code. */
static float largest(const float *x)
{
    int32_t most = 0;
    for (int i = 0; i < 32; i++) {
        int32_t bits = (int32_t)(tr_f32_bits(x[i]) & 0x7FFFFFFFU);
        most = bits > most ? bits : most;
    }
    return tr_bits_f32((uint32_t)most);
}

/* Below this a block's scale is 0 in fp16, and its reciprocal might overflow. */
static const float least = 1e-30F;

static void quantize_q8_0(const float *x, uint8_t *b)
{
    float amax = largest(x);
    float d = amax / 127.0F;
    float inv = amax < least ? 0.0F : 1.0F / d;
    write_u16(b, tr_f32_f16(d));
    for (int i = 0; i < 32; i++) /* 1.5 * 2^23: rounds half to even into the low bits */
        b[2 + i] = (uint8_t)(tr_f32_bits(x[i] * inv + 12582912.0F) & 0xFFU);
}

/* The value of largest magnitude, the first of several, becomes -8 exactly. */
static void quantize_q4_0(const float *x, uint8_t *b)
{
    float amax = largest(x);
    int at = 0;
    while (at < 31 && fabsf(x[at]) != amax)
        at++;
    float d = x[at] / -8.0F;
    float inv = amax < least ? 0.0F : 1.0F / d;
    uint8_t q[32];
    for (int i = 0; i < 32; i++) {
        float v = x[i] * inv + 8.5F;
        q[i] = v < 15.0F ? (uint8_t)(int)v : 15;
    }
    write_u16(b, tr_f32_f16(d));
    for (int i = 0; i < 16; i++)
        b[2 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

int tr_quantize_row(enum tr_wtype type, const float *x, int k, void *dst)
{
    uint8_t *row = dst;
    size_t bytes = tr_file_row_bytes(type, k);
    if (bytes == 0)
        return TR_EINVAL;
    switch (type) {
    case TR_W_F16:
        for (int i = 0; i < k; i++)
            write_u16(row + 2 * (size_t)i, tr_f32_f16(x[i]));
        return 0;
    case TR_W_BF16:
        for (int i = 0; i < k; i++)
            write_u16(row + 2 * (size_t)i, tr_f32_bf16(x[i]));
        return 0;
    case TR_W_Q8_0:
        for (int i = 0; i < k / 32; i++)
            quantize_q8_0(x + (size_t)i * 32, row + (size_t)i * 34);
        return 0;
    case TR_W_Q4_0:
        for (int i = 0; i < k / 32; i++)
            quantize_q4_0(x + (size_t)i * 32, row + (size_t)i * 18);
        return 0;
    default:
        return TR_EUNSUPPORTED;
    }
}

/* ---- the same codes in another type ---- */

/* A block's scale as fp16, if it is one. */
static bool half_scale(enum tr_wtype type, const struct tr_file_block *b, uint16_t *ret)
{
    *ret = b->d;
    if (tr__scales(type) != TR_SCALES_E8)
        return tr__scales(type) == TR_SCALES_F16;
    float scale = half_e8m0(b->sc[0]);
    *ret = tr_f32_f16(scale);
    return tr_f16_f32(*ret) == scale;
}

int tr_copy_row(enum tr_wtype from, const void *src, int k, enum tr_wtype to, void *dst)
{
    const int8_t *values = tr__values(from);
    bool ternary = tr__codes(from) == TR_CODES_2;
    uint8_t *out = dst;
    if (from < TR_W_Q4_0 || (to != TR_W_Q8_0 && !(to == TR_W_Q4_0 && ternary)))
        return TR_EUNSUPPORTED;
    for (int i = 0; i < k / 32; i++, out += tr__file_block_bytes(to)) {
        struct tr_file_block b;
        uint16_t d;
        uint8_t q[32];
        tr__file_block_read(from, src, i, &b);
        if (!half_scale(from, &b, &d))
            return TR_EUNSUPPORTED;
        write_u16(out, d);
        for (int j = 0; j < 32; j++)
            q[j] = (uint8_t)(values ? values[b.q[j]] : b.q[j] - tr__offset(from));
        for (int j = 0; j < 32 && to == TR_W_Q8_0; j++)
            out[2 + j] = q[j];
        for (int j = 0; j < 16 && to == TR_W_Q4_0; j++)
            out[2 + j] = (uint8_t)(((q[j] + 8) & 15) | (q[j + 16] + 8) << 4);
    }
    return 0;
}
