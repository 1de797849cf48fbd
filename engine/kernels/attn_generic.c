/* The specification of attention over one block of keys, in plain C, and the 8-bit storage of keys
 * and values. */
#include <string.h>

#include "engine/kernels/kv_q8.h"
#include "engine/kernels/levels.h"
#include "engine/kernels/math.h"

/* Scale of a q8 sub-block: position j, the run of 32 dims that holds d. */
static float q8_scale(const void *sub, int d, int j)
{
    return tr_bf16_f32(((const uint16_t *)sub)[d / TR_KV_Q8_RUN * TR_ATTN_SUB + j]);
}

static const int8_t *q8_values(const void *sub, int head_dim)
{
    return (const int8_t *)sub + tr_kv_q8_scale_bytes(head_dim);
}

static float load(enum tr_kv_type type, const void *sub, size_t i, int head_dim)
{
    switch (type) {
    case TR_KV_F32:
        return ((const float *)sub)[i];
    case TR_KV_BF16:
        return tr_bf16_f32(((const uint16_t *)sub)[i]);
    default:
        return (float)q8_values(sub, head_dim)[i];
    }
}

/* q . key j of the sub-block. q8: a chain for each run of 32 dims, then sum over the runs of
 * fma(chain, scale, ...). */
static float score(enum tr_kv_type type, const float *q, const void *sub, int head_dim, int j)
{
    float total = 0.0F;
    float chain = 0.0F;
    for (int d = 0; d < head_dim; d++) {
        chain = fmaf(q[d], load(type, sub, (size_t)d * TR_ATTN_SUB + j, head_dim), chain);
        if (type == TR_KV_Q8 && (d % TR_KV_Q8_RUN == TR_KV_Q8_RUN - 1 || d == head_dim - 1)) {
            total = fmaf(chain, q8_scale(sub, d, j), total);
            chain = 0.0F;
        }
    }
    return type == TR_KV_Q8 ? total : chain;
}

static float lane_sum(const float p[TR_ATTN_KEYS])
{
    float lane[16] = {0};
    for (int j = 0; j < TR_ATTN_KEYS; j++)
        lane[j % 16] += p[j];
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}

static void attn(enum tr_kv_type type, const struct tr_attn_block *b)
{
    int n = b->head_dim;
    for (int r = 0; r < b->m; r++) {
        const float *q = b->q + (size_t)r * n;
        float *o = b->o + (size_t)r * n;
        float p[TR_ATTN_KEYS] = {0};
        float old = b->max[r];
        float max = old;
        for (int j = b->lo; j < b->hi; j++) {
            p[j] = score(type, q, b->k[j / TR_ATTN_SUB], n, j % TR_ATTN_SUB) * b->scale;
            max = p[j] > max ? p[j] : max;
        }
        max += 0.0F; /* -0 becomes +0, whatever the order of comparison */
        float c = old == -INFINITY ? 0.0F : tr_expf(old - max);
        for (int j = b->lo; j < b->hi; j++)
            p[j] = tr_expf(p[j] - max);
        b->max[r] = max;
        b->sum[r] = fmaf(b->sum[r], c, lane_sum(p));
        for (int d = 0; d < n; d++) {
            o[d] *= c;
            for (int j = b->lo; j < b->hi; j++) {
                const void *v = b->v[j / TR_ATTN_SUB];
                int lane = j % TR_ATTN_SUB;
                float weight = type == TR_KV_Q8 ? p[j] * q8_scale(v, d, lane) : p[j];
                o[d] = fmaf(weight, load(type, v, (size_t)lane * n + d, n), o[d]);
            }
        }
    }
}

static void attn_f32(const struct tr_attn_block *block)
{
    attn(TR_KV_F32, block);
}

static void attn_bf16(const struct tr_attn_block *block)
{
    attn(TR_KV_BF16, block);
}

static void attn_q8(const struct tr_attn_block *block)
{
    attn(TR_KV_Q8, block);
}

void tr__add_generic_attn(struct tr_kernels *k)
{
    k->attn[TR_KV_F32] = attn_f32;
    k->attn[TR_KV_BF16] = attn_bf16;
    k->attn[TR_KV_Q8] = attn_q8;
}

/* Quantises x[0 .. n) of one run; element i goes to q[i * step]. */
static void put_run(const float *x, int n, uint16_t *scale, int8_t *q, size_t step)
{
    uint32_t bits = 0;
    for (int i = 0; i < n; i++)
        bits = TR_MAX(bits, tr_f32_bits(x[i]) & 0x7FFFFFFFU);
    float amax = tr_bits_f32(bits); /* NaN if there is one */
    bool zero = amax < 1e-30F;
    uint32_t up = tr_f32_bits(amax / 127.0F);
    if (up < 0x7F800000U)
        up += 0xFFFFU;
    *scale = zero ? 0 : (uint16_t)(up >> 16);
    float inv = zero ? 0.0F : 1.0F / tr_bf16_f32(*scale);
    for (int i = 0; i < n; i++) {
        float v = x[i] * inv;
        v = v > -127.0F ? v : -127.0F;
        v = v < 127.0F ? v : 127.0F;
        q[i * step] = (int8_t)(tr_f32_bits(v + 12582912.0F) & 0xFFU);
    }
}

void tr_kv_q8_put(void *keys, void *values, int slot, int head_dim, const float *k, const float *v)
{
    int8_t *kq = (int8_t *)keys + tr_kv_q8_scale_bytes(head_dim) + slot;
    int8_t *vq = (int8_t *)values + tr_kv_q8_scale_bytes(head_dim) + (size_t)slot * head_dim;
    for (int d = 0; d < head_dim; d += TR_KV_Q8_RUN) {
        int n = TR_MIN(TR_KV_Q8_RUN, head_dim - d);
        size_t scale = (size_t)(d / TR_KV_Q8_RUN) * TR_ATTN_SUB + slot;
        put_run(k + d, n, (uint16_t *)keys + scale, kq + (size_t)d * TR_ATTN_SUB, TR_ATTN_SUB);
        put_run(v + d, n, (uint16_t *)values + scale, vq + d, 1);
    }
}
