#include "engine/cache/layout.h"

#include "engine/kernels/kv_q8.h"
#include "engine/kernels/math.h"

void tr_kv_layout_init(struct tr_kv_layout *l, enum tr_kv_type type, int page_tokens, int n_layers,
                       int n_kv_heads, int head_dim)
{
    size_t element = type == TR_KV_F32 ? 4 : 2;
    size_t sub = type == TR_KV_Q8 ? tr_kv_q8_sub_bytes(head_dim)
                                  : (size_t)TR_ATTN_SUB * (size_t)head_dim * element;
    size_t subs = (size_t)page_tokens / TR_ATTN_SUB;
    *l = (struct tr_kv_layout){
        .type = type,
        .page_tokens = page_tokens,
        .n_layers = n_layers,
        .n_kv_heads = n_kv_heads,
        .head_dim = head_dim,
        .sub_k_bytes = sub,
        .sub_v_bytes = sub,
        .head_bytes = 2 * sub * subs,
    };
    l->page_bytes = (size_t)n_layers * (size_t)n_kv_heads * l->head_bytes;
}

void tr__kv_put(const struct tr_kv_layout *l, void *page, int layer, int head, int slot,
                const float *k, const float *v)
{
    int lane = slot % TR_ATTN_SUB;
    void *keys = (char *)page + tr_kv_key_offset(l, layer, head, slot);
    void *values = (char *)page + tr_kv_value_offset(l, layer, head, slot);
    if (l->type == TR_KV_F32) {
        float *kd = (float *)keys + lane;
        float *vd = (float *)values + lane * l->head_dim;
        for (int d = 0; d < l->head_dim; d++) {
            kd[d * TR_ATTN_SUB] = k[d];
            vd[d] = v[d];
        }
    } else if (l->type == TR_KV_Q8) {
        tr_kv_q8_put(keys, values, lane, l->head_dim, k, v);
    } else {
        uint16_t *kd = (uint16_t *)keys + lane;
        uint16_t *vd = (uint16_t *)values + lane * l->head_dim;
        for (int d = 0; d < l->head_dim; d++) {
            kd[d * TR_ATTN_SUB] = tr_f32_bf16(k[d]);
            vd[d] = tr_f32_bf16(v[d]);
        }
    }
}
