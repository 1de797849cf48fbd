/* Reading, dequantising and quantising rows in the files' formats. */
#include "engine/kernels/quants.h"

#include <string.h>

#include "engine/kernels/math.h"

int tr__file_block_len(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q8_0:
    case TR_W_Q4_0:
        return 32;
    case TR_W_Q4_K:
    case TR_W_Q5_K:
    case TR_W_Q6_K:
        return 256;
    default:
        return 1;
    }
}

int tr__file_block_bytes(enum tr_wtype type)
{
    static const int bytes[TR_W_COUNT] = {
        [TR_W_F32] = 4,   [TR_W_F16] = 2,    [TR_W_BF16] = 2,   [TR_W_Q8_0] = 34,
        [TR_W_Q4_0] = 18, [TR_W_Q4_K] = 144, [TR_W_Q5_K] = 176, [TR_W_Q6_K] = 210,
    };
    return bytes[type];
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

/* Sub-block s of Q4_K and Q5_K: the first four scales and minima fill six bits of a byte each; the
 * last four have their low nibbles in bytes 8..11 and their two high bits on top of the first. */
static void read_k_scale(const uint8_t *scales, int s, struct tr_file_block *ret)
{
    int sc;
    int mn;
    if (s < 4) {
        sc = scales[s] & 63;
        mn = scales[s + 4] & 63;
    } else {
        sc = (scales[s + 4] & 15) | (scales[s - 4] >> 6) << 4;
        mn = scales[s + 4] >> 4 | (scales[s] >> 6) << 4;
    }
    ret->sc[0] = ret->sc[1] = (uint8_t)sc;
    ret->mn = (uint8_t)mn;
}

static void read_q4_q5_k(enum tr_wtype type, const uint8_t *b, int s, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    ret->dmin = read_u16(b + 2);
    read_k_scale(b + 4, s, ret);
    const uint8_t *high = b + 16; /* Q5_K */
    const uint8_t *low = b + 16 + (type == TR_W_Q5_K ? 32 : 0) + 32 * (s / 2);
    int shift = 4 * (s % 2);
    for (int i = 0; i < 32; i++)
        ret->q[i] = low[i] >> shift & 15;
    for (int i = 0; i < 32 && type == TR_W_Q5_K; i++)
        ret->q[i] |= (uint8_t)((high[i] >> s & 1) << 4);
}

static void read_q6_k(const uint8_t *b, int s, struct tr_file_block *ret)
{
    const uint8_t *low = b + 64 * (s / 4) + 32 * (s % 2);
    const uint8_t *high = b + 128 + 32 * (s / 4);
    int low_shift = s % 4 < 2 ? 0 : 4;
    int high_shift = 2 * (s % 4);
    for (int i = 0; i < 32; i++)
        ret->q[i] = (uint8_t)((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4);
    memcpy(ret->sc, b + 192 + 2 * s, 2);
    ret->d = read_u16(b + 208);
}

void tr__file_block_read(enum tr_wtype type, const uint8_t *row, int index,
                         struct tr_file_block *ret)
{
    int per = tr__file_block_len(type) / 32;
    const uint8_t *b = row + (size_t)(index / per) * (size_t)tr__file_block_bytes(type);
    *ret = (struct tr_file_block){0};
    switch (type) {
    case TR_W_Q8_0:
        ret->d = read_u16(b);
        for (int i = 0; i < 32; i++)
            ret->q[i] = b[2 + i] ^ 0x80;
        break;
    case TR_W_Q4_0:
        ret->d = read_u16(b);
        for (int i = 0; i < 16; i++) {
            ret->q[i] = b[2 + i] & 15;
            ret->q[i + 16] = b[2 + i] >> 4;
        }
        break;
    case TR_W_Q6_K:
        read_q6_k(b, index % per, ret);
        break;
    default:
        read_q4_q5_k(type, b, index % per, ret);
        break;
    }
}

/* w = (d sc) q - dmin mn, or (d sc) (q - offset): two roundings, as the format's reference does. */
static void dequantize_block(enum tr_wtype type, const struct tr_file_block *b, float *y)
{
    float d = tr_f16_f32(b->d);
    float min = tr_f16_f32(b->dmin) * (float)b->mn;
    for (int i = 0; i < 32; i++) {
        switch (type) {
        case TR_W_Q8_0:
            y[i] = d * (float)(b->q[i] - 128);
            break;
        case TR_W_Q4_0:
            y[i] = d * (float)(b->q[i] - 8);
            break;
        case TR_W_Q6_K:
            y[i] = d * (float)(int8_t)b->sc[i / 16] * (float)(b->q[i] - 32);
            break;
        default:
            y[i] = d * (float)b->sc[0] * (float)b->q[i] - min;
            break;
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
