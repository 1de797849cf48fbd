/* The codes of quantised matrices in the files' formats of the types that hold them. */
#include "engine/checkpoint/quant_internal.h"

#include <math.h>
#include <string.h>

#include "engine/kernels/math.h"

static void put_u16(uint8_t *p, uint16_t x)
{
    memcpy(p, &x, sizeof x);
}

/* Nibbles of 32 codes: i low, i + 16 high. */
static void put_halves(uint8_t *p, const int32_t *v, int offset)
{
    for (int i = 0; i < 16; i++)
        p[i] = (uint8_t)(((v[i] + offset) & 15) | ((v[i + 16] + offset) & 15) << 4);
}

static void put_fifth_bits(uint8_t *p, const int32_t *v, int offset)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= (uint32_t)((v[i] + offset) >> 4 & 1) << i;
    memcpy(p, &bits, sizeof bits);
}

/* 32 codes with their scale and bias. */
static void put_block(enum tr_wtype type, const int32_t *v, uint16_t d, uint16_t m, uint8_t *p)
{
    put_u16(p, d);
    switch (type) {
    case TR_W_Q4_0:
        put_halves(p + 2, v, 8);
        break;
    case TR_W_Q4_1:
        put_u16(p + 2, m);
        put_halves(p + 4, v, 0);
        break;
    case TR_W_Q5_0:
        put_fifth_bits(p + 2, v, 16);
        put_halves(p + 6, v, 16);
        break;
    case TR_W_Q5_1:
        put_u16(p + 2, m);
        put_fifth_bits(p + 4, v, 0);
        put_halves(p + 8, v, 0);
        break;
    default: /* Q8_0 */
        for (int i = 0; i < 32; i++)
            p[2 + i] = (uint8_t)v[i];
        break;
    }
}

/* E2M1 codes stay as they are; only their order in a byte is another. */
static void put_fp4(const struct tr_quant_rows *r, int i, uint8_t *p)
{
    const struct tr_quant *q = r->q;
    const uint8_t *codes = r->codes.data + (size_t)i * r->codes.cols;
    const uint8_t *scales = r->scales.data + (size_t)i * r->scales.cols;
    bool nv = q->scheme == TR_SCHEME_NVFP4;
    int half = q->group / 2, per = nv ? 4 : 1; /* groups of a block */
    for (int g = 0; g < q->k / q->group; g++) {
        uint8_t *block = p + (size_t)(g / per) * (nv ? 36 : 17);
        uint8_t *qs = block + per + (g % per) * half;
        block[g % per] = scales[g];
        for (int j = 0; j < half; j++) {
            int low = g * q->group + j, high = low + half;
            qs[j] = (uint8_t)((codes[low / 2] >> 4 * (low % 2) & 15) |
                              (codes[high / 2] >> 4 * (high % 2) & 15) << 4);
        }
    }
}

static int copy_fp4(struct tr_quant_rows *r, int i, uint8_t *row, struct tr_err *err)
{
    int e = tr__quant_take_scales(r, i, err);
    for (int g = 0; g < r->q->k / r->q->group && !e; g++)
        if (r->scale[g] < 0)
            e = tr__quant_bad_row(r, i, "a negative scale", err);
    if (!e)
        put_fp4(r, i, row);
    return e;
}

int tr__quant_rows_blocks(struct tr_quant_rows *r, int i, enum tr_wtype type, uint8_t *row,
                          struct tr_err *err)
{
    const struct tr_quant *q = r->q;
    if (type == TR_W_NVFP4 || type == TR_W_MXFP4)
        return copy_fp4(r, i, row, err);
    int e = tr__quant_take_apart(r, i, err);
    if (e)
        return e;
    size_t bytes = tr_file_row_bytes(type, q->k) / (size_t)(q->k / 32);
    double u = tr__quant_unit(q);
    for (int j = 0; j < q->k; j += 32) {
        int g = j / q->group;
        float d = (float)(r->scale[g] * u), m = q->biases.rows ? (float)r->bias[g] : 0.0F;
        if (fabsf(d) > 65504.0F || fabsf(m) > 65504.0F)
            return tr__quant_bad_row(r, i, "a scale beyond fp16", err);
        put_block(type, r->value + j, tr_f32_f16(d), tr_f32_f16(m), row + (size_t)(j / 32) * bytes);
    }
    return 0;
}
