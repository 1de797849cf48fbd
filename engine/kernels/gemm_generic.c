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

void tr__generic_gemm_f16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
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

void tr__generic_gemm_bf16(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy)
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

/* A block's weights as signed integers where the type has an offset, [32 k][16 columns]. */
static void unpack(enum tr_wtype type, const uint8_t *block, int16_t w[TR_BLOCK][TR_PANEL])
{
    const uint8_t *high = block + 4 * TR_LINE; /* Q5_K, Q6_K */
    for (int i = 0; i < TR_BLOCK; i++) {
        int quad = i / 4;
        for (int j = 0; j < TR_PANEL; j++) {
            int at = 4 * j + i % 4;
            int nibble = block[quad % 4 * TR_LINE + at] >> (quad < 4 ? 0 : 4) & 15;
            int v;
            switch (type) {
            case TR_W_Q8_0:
                v = block[quad * TR_LINE + at] - 128;
                break;
            case TR_W_Q4_0:
                v = nibble - 8;
                break;
            case TR_W_Q4_K:
                v = nibble;
                break;
            case TR_W_Q5_K:
                v = nibble | (high[at] >> quad & 1) << 4;
                break;
            default: /* TR_W_Q6_K */
                v = (nibble | (high[quad / 4 * TR_LINE + at] >> 2 * (quad % 4) & 3) << 4) - 32;
                break;
            }
            w[i][j] = (int16_t)v;
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

/* The scales of block b of a group, per column; the minimum is 0 for types without one. */
struct scales {
    float half[2][TR_PANEL]; /* of the block's halves of 16; alike but for Q6_K */
    float min[TR_PANEL];
};

static void read_scales(enum tr_wtype type, const uint8_t *s, int b, struct scales *ret)
{
    const uint16_t *d = (const uint16_t *)(const void *)(s + TR_K_D);
    const uint16_t *dmin = (const uint16_t *)(const void *)(s + TR_K_DMIN);
    for (int j = 0; j < TR_PANEL; j++) {
        for (int h = 0; h < 2; h++) {
            if (type == TR_W_Q8_0 || type == TR_W_Q4_0)
                ret->half[h][j] = tr_f16_f32(((const uint16_t *)(const void *)s)[b * TR_PANEL + j]);
            else if (type == TR_W_Q6_K)
                ret->half[h][j] = tr_f16_f32(d[j]) * (float)(int8_t)s[(2 * b + h) * TR_PANEL + j];
            else
                ret->half[h][j] = tr_f16_f32(d[j]) * (float)s[b * TR_PANEL + j];
        }
        ret->min[j] = type == TR_W_Q4_K || type == TR_W_Q5_K
                          ? tr_f16_f32(dmin[j]) * (float)s[TR_K_MINS + b * TR_PANEL + j]
                          : 0.0F;
    }
}

/* acc = one block more, for one row. */
static void block_step(enum tr_wtype type, int16_t w[TR_BLOCK][TR_PANEL], const struct scales *s,
                       const int8_t *a, float as, int32_t halves, float *acc)
{
    int32_t dot[TR_PANEL];
    if (type == TR_W_Q6_K) {
        for (int h = 0; h < 2; h++) {
            dots(w, a, 16 * h, 16, dot);
            for (int j = 0; j < TR_PANEL; j++)
                acc[j] = fmaf((float)dot[j], s->half[h][j] * as, acc[j]);
        }
        return;
    }
    dots(w, a, 0, TR_BLOCK, dot);
    for (int j = 0; j < TR_PANEL; j++)
        acc[j] = fmaf((float)dot[j], s->half[0][j] * as, acc[j]);
    if (type == TR_W_Q4_K || type == TR_W_Q5_K) {
        float sum = (float)((int16_t)(halves & 0xFFFF) + (halves >> 16));
        for (int j = 0; j < TR_PANEL; j++)
            acc[j] = fmaf(sum, -(s->min[j] * as), acc[j]);
    }
}

static void gemm_q(enum tr_wtype type, const void *panels, int k, int p0, int p1,
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

void tr__generic_gemm_q8_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy)
{
    gemm_q(TR_W_Q8_0, panels, k, p0, p1, x, m, y, ldy);
}

void tr__generic_gemm_q4_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy)
{
    gemm_q(TR_W_Q4_0, panels, k, p0, p1, x, m, y, ldy);
}

void tr__generic_gemm_q4_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy)
{
    gemm_q(TR_W_Q4_K, panels, k, p0, p1, x, m, y, ldy);
}

void tr__generic_gemm_q5_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy)
{
    gemm_q(TR_W_Q5_K, panels, k, p0, p1, x, m, y, ldy);
}

void tr__generic_gemm_q6_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy)
{
    gemm_q(TR_W_Q6_K, panels, k, p0, p1, x, m, y, ldy);
}
