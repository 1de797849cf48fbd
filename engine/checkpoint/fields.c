/*
 * The table of integer fields and the rules between them; see fields.h.
 *
 * The upper bounds are far above any Trinity model. They are there so that sizes computed from
 * fields (heads x width, experts x width) can't overflow an int, and so that a hostile file can't
 * ask for tables that no file of weights could fill.
 */
#include "engine/checkpoint/fields.h"

#include "engine/kernels/kernels.h"

#define ROW(id, json, gguf, member, min, max)                                                      \
    [TR_FIELD_##id] = {{json, gguf}, offsetof(struct tr_model_config, member), min, max}

/* clang-format off */
const struct tr_field tr_fields[TR_FIELD_COUNT] = {
    ROW(VOCAB_SIZE, "vocab_size", "vocab_size", vocab_size, 1, 1 << 24),
    ROW(HIDDEN_SIZE, "hidden_size", "embedding_length", hidden_size, 1, 1 << 16),
    ROW(N_LAYERS, "num_hidden_layers", "block_count", n_layers, 1, TR_MAX_LAYERS),
    ROW(N_DENSE, "num_dense_layers", "leading_dense_block_count", n_dense, 0, TR_MAX_LAYERS),
    ROW(N_HEADS, "num_attention_heads", "attention.head_count", n_heads, 1, 1024),
    ROW(N_KV_HEADS, "num_key_value_heads", "attention.head_count_kv", n_kv_heads, 1, 1024),
    ROW(HEAD_DIM, "head_dim", "attention.key_length", head_dim, 2, TR_MAX_HEAD_DIM),
    ROW(DENSE_WIDTH, "intermediate_size", "feed_forward_length", dense_width, 1, 1 << 20),
    ROW(EXPERT_WIDTH, "moe_intermediate_size", "expert_feed_forward_length", expert_width, 1,
        1 << 20),
    ROW(N_EXPERTS, "num_experts", "expert_count", n_experts, 1, TR_MAX_EXPERTS),
    ROW(N_ACTIVE, "num_experts_per_tok", "expert_used_count", n_active, 1, TR_MAX_TOPK),
    ROW(N_SHARED, "num_shared_experts", "expert_shared_count", n_shared, 0, 256),
    ROW(CONTEXT, "max_position_embeddings", "context_length", context, 1, TR_MAX_POSITION),
    ROW(WINDOW, "sliding_window", "attention.sliding_window", window, 1, 1 << 24),
    ROW(LAYER_TYPES, "layer_types", "attention.sliding_window_pattern", kind, 0, 0),
};
/* clang-format on */

int *tr__field_int(struct tr_model_config *config, enum tr_field_id id)
{
    return (int *)(void *)((char *)config + tr_fields[id].offset);
}

int tr__fields_fail(struct tr_err *err, const char *name, const char *key, const char *fmt, ...)
{
    struct tr_err inner;
    va_list ap;
    va_start(ap, fmt);
    tr_err_vset(&inner, TR_EFORMAT, NULL, fmt, ap);
    va_end(ap);
    return tr_err_set(err, TR_EFORMAT, key, "%s: %s: %s", name, key, inner.msg);
}

int tr__fields_check(struct tr_model_config *c, int keys, const char *name, struct tr_err *err)
{
#define KEY(id) tr_fields[TR_FIELD_##id].key[keys]
    if (c->n_dense > c->n_layers)
        return tr__fields_fail(err, name, KEY(N_DENSE), "%d is more than the %d layers", c->n_dense,
                               c->n_layers);
    if (c->n_heads % c->n_kv_heads)
        return tr__fields_fail(err, name, KEY(N_KV_HEADS), "%d does not divide %s = %d",
                               c->n_kv_heads, KEY(N_HEADS), c->n_heads);
    if (c->head_dim % 2)
        return tr__fields_fail(err, name, KEY(HEAD_DIM), "%d is odd", c->head_dim);
    if (c->n_active > c->n_experts)
        return tr__fields_fail(err, name, KEY(N_ACTIVE), "%d is more than %s = %d", c->n_active,
                               KEY(N_EXPERTS), c->n_experts);
    c->n_local = c->n_global = 0;
    for (int i = 0; i < c->n_layers; i++)
        c->kind_index[i] = c->kind[i] == TR_LOCAL ? c->n_local++ : c->n_global++;
    if (c->n_local && !c->window)
        return tr__fields_fail(err, name, KEY(WINDOW), "missing, but %d layers have a window",
                               c->n_local);
    return 0;
#undef KEY
}
