/*
 * The specification of the panel products, in plain C.
 *
 * A block's weights are unpacked once for all rows. Integer dots are exact, so only the fp32 step
 * of each block has an order.
 */
#include <string.h>

#include "engine/kernels/levels.h"
#include "engine/kernels/math.h"
#include "engine/kernels/panel.h"
#include "engine/kernels/quants.h"

static void gemm_f16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                     float *y, size_t ldy)
{
    size_t stride = (size_t)tr_rows_stride(x->k);
    for (int p = p0; p < p1; p++) {
        const uint16_t *w =
            (const uint16_t *)panels + (size_t)p * tr__panel_bytes(TR_W_F16, k) / sizeof *w;
        for (int r = 0; r < m; r++) {
            float acc[TR_PANEL] = {0};
            for (int i = 0; i < k; i++) {
                for (int j = 0; j < TR_PANEL; j++)
                    acc[j] = fmaf(x->f32[r * stride + i], tr_f16_f32(w[i * TR_PANEL + j]), acc[j]);
            }
            memcpy(y + r * ldy + (size_t)p * TR_PANEL, acc, sizeof acc);
        }
    }
}

/* acc[j] += one tile of 32 k: even and odd k in two chains, as TDPBF16PS does it. */
static void bf16_tile(const uint16_t *w, const uint16_t *x, float acc[TR_PANEL])
{
    for (int j = 0; j < TR_PANEL; j++) {
        float even = 0.0F;
        float odd = 0.0F;
        for (int i = 0; i < TR_BLOCK; i += 2) {
            const uint16_t *pair = w + i * TR_PANEL + 2 * j;
            even = fmaf(tr_bf16_f32(x[i]), tr_bf16_f32(pair[0]), even);
            odd = fmaf(tr_bf16_f32(x[i + 1]), tr_bf16_f32(pair[1]), odd);
        }
        acc[j] += even + odd;
    }
}

static void gemm_bf16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                      float *y, size_t ldy)
{
    size_t stride = (size_t)tr_rows_stride(x->k);
    for (int p = p0; p < p1; p++) {
        const uint16_t *w =
            (const uint16_t *)panels + (size_t)p * tr__panel_bytes(TR_W_BF16, k) / sizeof *w;
        for (int r = 0; r < m; r++) {
            float acc[TR_PANEL] = {0};
            for (int i = 0; i < k; i += TR_BLOCK)
                bf16_tile(w + i * TR_PANEL, x->bf16 + r * stride + i, acc);
            memcpy(y + r * ldy + (size_t)p * TR_PANEL, acc, sizeof acc);
        }
    }
}

/* The code of element i of column j. */
static int code_at(enum tr_codes codes, const uint8_t *block, int i, int j)
{
    int quad = i / 4;
    int at = 4 * j + i % 4;
    int nibble = block[quad % 4 * TR_LINE + at] >> (quad < 4 ? 0 : 4) & 15;
    int shift = 2 * (quad % 4); /* where two bits a quad share a line */
    const uint8_t *high = block + 4 * TR_LINE;
    switch (codes) {
    case TR_CODES_8:
        return block[quad * TR_LINE + at];
    case TR_CODES_5:
        return nibble | (high[at] >> quad & 1) << 4;
    case TR_CODES_6:
        return nibble | (high[quad / 4 * TR_LINE + at] >> shift & 3) << 4;
    case TR_CODES_3:
        return (block[quad / 4 * TR_LINE + at] >> shift & 3) | (block[2 * TR_LINE + at] >> quad & 1)
                                                                   << 2;
    case TR_CODES_2:
        return block[quad / 4 * TR_LINE + at] >> shift & 3;
    default:
        return nibble;
    }
}

/* A block's weights as signed integers, [32 k][16 columns]. */
static void unpack(enum tr_wtype type, const uint8_t *block, int16_t w[TR_BLOCK][TR_PANEL])
{
    const int8_t *values = tr__values(type);
    for (int i = 0; i < TR_BLOCK; i++) {
        for (int j = 0; j < TR_PANEL; j++) {
            int code = code_at(tr__codes(type), block, i, j);
            w[i][j] = (int16_t)(values ? values[code] : code - tr__offset(type));
        }
    }
}

/* The exact dots of k [first, first + n) of a block with one row. */
static void dots(int16_t w[TR_BLOCK][TR_PANEL], const int8_t *a, int first, int n,
                 int32_t dot[TR_PANEL])
{
    memset(dot, 0, TR_PANEL * sizeof *dot);
    for (int i = first; i < first + n; i++) {
        for (int j = 0; j < TR_PANEL; j++)
            dot[j] += a[i] * w[i][j];
    }
}

/* The scales and minima of the halves of block b of a group, per column; a minimum is 0 for types
 * without one. */
struct scales {
    float scale[2][TR_PANEL];
    float min[2][TR_PANEL];
};

static float f16_at(const uint8_t *p, int i)
{
    uint16_t bits;
    memcpy(&bits, p + 2 * i, sizeof bits);
    return tr_f16_f32(bits);
}

/* Of column j and half h of block b. */
static void read_scale(enum tr_wtype type, const uint8_t *s, int b, int h, int j, float *ret_scale,
                       float *ret_min)
{
    int half = (2 * b + h) * TR_PANEL + j;
    int block = b * TR_PANEL + j;
    float d = f16_at(s + TR_K_D, j);
    float dmin = f16_at(s + TR_K_DMIN, j);
    float factor;
    *ret_min = 0.0F;
    switch (tr__scales(type)) {
    case TR_SCALES_F16_MIN:
        *ret_min = -f16_at(s + TR_F16_MINS, block);
        *ret_scale = f16_at(s, block);
        break;
    case TR_SCALES_F16:
        *ret_scale = f16_at(s, block);
        break;
    case TR_SCALES_K:
        *ret_scale = d * (float)s[block];
        *ret_min = dmin * (float)s[TR_K_MINS + block];
        break;
    case TR_SCALES_K_HALF:
        *ret_scale = d * (float)(s[half] & 15);
        *ret_min = dmin * (float)(s[half] >> 4);
        break;
    case TR_SCALES_S32:
        *ret_scale = f16_at(s + TR_S32_D, j) * tr__unit(type) * (float)(int8_t)s[block];
        break;
    case TR_SCALES_S16:
        *ret_scale = d * tr__unit(type) * (float)(int8_t)s[half];
        break;
    case TR_SCALES_E8:
        *ret_scale = tr_bits_f32((uint32_t)s[block] << 23);
        break;
    case TR_SCALES_E4M3:
        memcpy(&factor, s + TR_E4M3_FACTOR + 4 * j, sizeof factor);
        *ret_scale = tr_f16_f32((uint16_t)(s[half] << 7)) * factor;
        break;
    }
}

static void read_scales(enum tr_wtype type, const uint8_t *s, int b, struct scales *ret)
{
    for (int h = 0; h < 2; h++) {
        for (int j = 0; j < TR_PANEL; j++)
            read_scale(type, s, b, h, j, &ret->scale[h][j], &ret->min[h][j]);
    }
}

/* acc = one block more, for one row. */
static void block_step(enum tr_wtype type, int16_t w[TR_BLOCK][TR_PANEL], const struct scales *s,
                       const int8_t *a, float as, int32_t halves, float *acc)
{
    int parts = tr__has_halves(tr__scales(type)) ? 2 : 1;
    int sums[2] = {(int16_t)(halves & 0xFFFF), halves >> 16};
    for (int h = 0; h < parts; h++) {
        int32_t dot[TR_PANEL];
        float sum = (float)(parts == 2 ? sums[h] : sums[0] + sums[1]);
        dots(w, a, TR_BLOCK / parts * h, TR_BLOCK / parts, dot);
        for (int j = 0; j < TR_PANEL; j++)
            acc[j] = fmaf((float)dot[j], s->scale[h][j] * as, acc[j]);
        for (int j = 0; j < TR_PANEL && tr__has_min(tr__scales(type)); j++)
            acc[j] = fmaf(sum, -(s->min[h][j] * as), acc[j]);
    }
}

static void gemm(enum tr_wtype type, const void *panels, int k, int p0, int p1,
                 const struct tr_rows *x, int m, float *y, size_t ldy)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    size_t stride = (size_t)tr_rows_stride(x->k);
    for (int p = p0; p < p1; p++) {
        const uint8_t *panel = (const uint8_t *)panels + (size_t)p * tr__panel_bytes(type, k);
        for (int r = 0; r < m; r++)
            memset(y + r * ldy + (size_t)p * TR_PANEL, 0, TR_PANEL * sizeof *y);
        for (int b = 0; b < k / TR_BLOCK; b++) {
            const uint8_t *group = panel + (size_t)(b / shape.blocks) * tr__group_bytes(type);
            int in_group = b % shape.blocks;
            int16_t w[TR_BLOCK][TR_PANEL];
            struct scales s;
            unpack(type, group + (size_t)in_group * shape.block_lines * TR_LINE, w);
            read_scales(type, group + tr__scales_at(type), in_group, &s);
            for (int r = 0; r < m; r++) {
                size_t at = r * stride / TR_BLOCK + b;
                block_step(type, w, &s, x->q8 + at * TR_BLOCK, x->q8_scale[at], x->q8_sum[at],
                           y + r * ldy + (size_t)p * TR_PANEL);
            }
        }
    }
}

#define GEMM_OF(name, layout)                                                                      \
    static void gemm_##name(const void *panels, int k, int p0, int p1, const struct tr_rows *x,    \
                            int m, float *y, size_t ldy)                                           \
    {                                                                                              \
        gemm(TR_W_##name, panels, k, p0, p1, x, m, y, ldy);                                        \
    }
TR__QUANTS(GEMM_OF)

void tr__add_generic_gemm(struct tr_kernels *k)
{
    k->gemm[TR_W_F16] = gemm_f16;
    k->gemm[TR_W_BF16] = gemm_bf16;
    TR__QUANTS(TR__ADD_GEMM)
}
