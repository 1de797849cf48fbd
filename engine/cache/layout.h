/*
 * How keys and values lie in one page's memory; the same arithmetic for both kinds of page.
 *
 * A page holds `page_tokens` consecutive positions for every layer of its kind. Per layer and KV
 * head: first the keys in sub-blocks of 16, transposed ([head_dim][16]: sixteen scores come out in
 * one vector), then the values
 * ([position][head_dim]). Pages are cut at multiples of page_tokens, so a sub-block never straddles
 * two.
 */
#ifndef TR_ENGINE_CACHE_LAYOUT_H
#define TR_ENGINE_CACHE_LAYOUT_H

#include "engine/kernels/kernels.h"

struct tr_kv_layout {
    enum tr_kv_type type;
    int page_tokens; /* power of two, 16..256 */
    int n_layers;    /* layers of the kind */
    int n_kv_heads;
    int head_dim;
    size_t sub_k_bytes; /* one key sub-block */
    size_t sub_v_bytes; /* sixteen value rows */
    size_t head_bytes;  /* one layer and head: keys, then values */
    size_t page_bytes;  /* n_layers * n_kv_heads * head_bytes */
};

void tr_kv_layout_init(struct tr_kv_layout *l, enum tr_kv_type type, int page_tokens, int n_layers,
                       int n_kv_heads, int head_dim);

/* Offset in a page of the key and value sub-block that holds slot `slot` (position %
 * page_tokens). */
static inline size_t tr_kv_key_offset(const struct tr_kv_layout *l, int layer, int head, int slot)
{
    return ((size_t)layer * l->n_kv_heads + head) * l->head_bytes +
           (size_t)(slot / TR_ATTN_SUB) * l->sub_k_bytes;
}

static inline size_t tr_kv_value_offset(const struct tr_kv_layout *l, int layer, int head, int slot)
{
    return ((size_t)layer * l->n_kv_heads + head) * l->head_bytes +
           (size_t)(l->page_tokens / TR_ATTN_SUB) * l->sub_k_bytes +
           (size_t)(slot / TR_ATTN_SUB) * l->sub_v_bytes;
}

/* Stores one key and one value row [head_dim] at a slot. */
void tr__kv_put(const struct tr_kv_layout *l, void *page, int layer, int head, int slot,
                const float *k, const float *v);

#endif
