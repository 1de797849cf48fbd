/*
 * Names to structs; see bind.h. The tables are the formats' own documentation: Hugging Face's
 * AfmoeForCausalLM on the left, GGUF's arch "afmoe" on the right.
 */
#include "engine/checkpoint/bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/quant_rows.h"

enum name {
    EMBED,
    FINAL_NORM,
    HEAD,
    INPUT_NORM,
    POST_ATTN_NORM,
    PRE_MLP_NORM,
    POST_MLP_NORM,
    Q,
    K,
    V,
    QKV,
    O,
    ATTN_GATE,
    Q_NORM,
    K_NORM,
    DENSE_GATE,
    DENSE_UP,
    DENSE_DOWN,
    ROUTER,
    EXPERT_BIAS,
    SHARED_GATE,
    SHARED_UP,
    SHARED_DOWN,
    FUSED_GATE_UP,
    FUSED_DOWN,
    EXPERTS_GATE,
    EXPERTS_UP,
    EXPERTS_DOWN
};

/* A %d is the layer. NULL: the format has no such tensor. */
static const char *const names[][2] = {
    [EMBED] = {"model.embed_tokens.weight", "token_embd.weight"},
    [FINAL_NORM] = {"model.norm.weight", "output_norm.weight"},
    [HEAD] = {"lm_head.weight", "output.weight"},
    [INPUT_NORM] = {"model.layers.%d.input_layernorm.weight", "blk.%d.attn_norm.weight"},
    [POST_ATTN_NORM] = {"model.layers.%d.post_attention_layernorm.weight",
                        "blk.%d.post_attention_norm.weight"},
    [PRE_MLP_NORM] = {"model.layers.%d.pre_mlp_layernorm.weight", "blk.%d.ffn_norm.weight"},
    [POST_MLP_NORM] = {"model.layers.%d.post_mlp_layernorm.weight", "blk.%d.post_ffw_norm.weight"},
    [Q] = {"model.layers.%d.self_attn.q_proj.weight", "blk.%d.attn_q.weight"},
    [K] = {"model.layers.%d.self_attn.k_proj.weight", "blk.%d.attn_k.weight"},
    [V] = {"model.layers.%d.self_attn.v_proj.weight", "blk.%d.attn_v.weight"},
    [QKV] = {NULL, "blk.%d.attn_qkv.weight"},
    [O] = {"model.layers.%d.self_attn.o_proj.weight", "blk.%d.attn_output.weight"},
    [ATTN_GATE] = {"model.layers.%d.self_attn.gate_proj.weight", "blk.%d.attn_gate.weight"},
    [Q_NORM] = {"model.layers.%d.self_attn.q_norm.weight", "blk.%d.attn_q_norm.weight"},
    [K_NORM] = {"model.layers.%d.self_attn.k_norm.weight", "blk.%d.attn_k_norm.weight"},
    [DENSE_GATE] = {"model.layers.%d.mlp.gate_proj.weight", "blk.%d.ffn_gate.weight"},
    [DENSE_UP] = {"model.layers.%d.mlp.up_proj.weight", "blk.%d.ffn_up.weight"},
    [DENSE_DOWN] = {"model.layers.%d.mlp.down_proj.weight", "blk.%d.ffn_down.weight"},
    [ROUTER] = {"model.layers.%d.mlp.router.gate.weight", "blk.%d.ffn_gate_inp.weight"},
    [EXPERT_BIAS] = {"model.layers.%d.mlp.expert_bias", "blk.%d.exp_probs_b.bias"},
    [SHARED_GATE] = {"model.layers.%d.mlp.shared_experts.gate_proj.weight",
                     "blk.%d.ffn_gate_shexp.weight"},
    [SHARED_UP] = {"model.layers.%d.mlp.shared_experts.up_proj.weight",
                   "blk.%d.ffn_up_shexp.weight"},
    [SHARED_DOWN] = {"model.layers.%d.mlp.shared_experts.down_proj.weight",
                     "blk.%d.ffn_down_shexp.weight"},
    /* transformers 5 */
    [FUSED_GATE_UP] = {"model.layers.%d.mlp.experts.gate_up_proj", NULL},
    [FUSED_DOWN] = {"model.layers.%d.mlp.experts.down_proj", NULL},
    /* MLX */
    [EXPERTS_GATE] = {"model.layers.%d.mlp.experts.gate_proj.weight",
                      "blk.%d.ffn_gate_exps.weight"},
    [EXPERTS_UP] = {"model.layers.%d.mlp.experts.up_proj.weight", "blk.%d.ffn_up_exps.weight"},
    [EXPERTS_DOWN] = {"model.layers.%d.mlp.experts.down_proj.weight",
                      "blk.%d.ffn_down_exps.weight"},
};

struct binder {
    struct tr_source *source;
    struct tr_load_plan *plan;
    enum tr_checkpoint_kind kind;
    int layer; /* that the names are of */
    struct tr_names missing;
    int result; /* of the first tensor that is there but wrong */
    struct tr_err *err;
};

static struct tr_tensor *look_up(struct binder *b, enum name name, char text[TR_MAX_NAME + 1])
{
    const char *fmt = names[name][b->kind];
    text[0] = '\0';
    if (!fmt)
        return NULL;
    const char *mark = strstr(fmt, "%d");
    if (mark)
        snprintf(text, TR_MAX_NAME + 1, "%.*s%d%s", (int)(mark - fmt), fmt, b->layer, mark + 2);
    else
        snprintf(text, TR_MAX_NAME + 1, "%s", fmt);
    return tr__source_find(b->source, text);
}

static bool has(struct binder *b, enum name name)
{
    char text[TR_MAX_NAME + 1];
    return look_up(b, name, text) != NULL;
}

/* May a weight of this kind be stored in the tensor's type? Blocks are for matrices. */
static bool type_fits(const struct tr_tensor *t, enum tr_slot_kind kind)
{
    bool scalar = t->type == TR_W_F32 || t->type == TR_W_F16 || t->type == TR_W_BF16;
    bool large = kind == TR_SLOT_MATRIX || kind == TR_SLOT_EMBED;
    if (t->quant)
        return large || kind == TR_SLOT_ROUTER;
    return scalar || (large && t->type != TR_W_COUNT);
}

static void check(struct binder *b, const struct tr_tensor *t, enum tr_slot_kind kind,
                  const uint64_t *dims, int n_dims)
{
    const char *file = b->source->files[t->file].name;
    if (b->result)
        return;
    if (t->n_dims != n_dims || memcmp(t->dims, dims, (size_t)n_dims * sizeof *dims) != 0) {
        struct tr_buf want = {0}, got = {0};
        tr__tensor_show_shape(&want, dims, n_dims);
        tr__tensor_show_shape(&got, t->dims, t->n_dims);
        b->result = want.oom || got.oom ? tr_err_set(b->err, TR_ENOMEM, NULL, "out of memory")
                                        : tr_err_set(b->err, TR_EFORMAT, t->name,
                                                     "%s: %s: expected shape %s, found %s", file,
                                                     t->name, want.data, got.data);
        tr_buf_done(&want);
        tr_buf_done(&got);
    } else if (!type_fits(t, kind)) {
        const char *large = b->kind == TR_CHECKPOINT_GGUF ? "F32, F16, BF16 or a quantised one"
                                                          : "F32, F16 or BF16";
        const char *want =
            kind == TR_SLOT_MATRIX || kind == TR_SLOT_EMBED ? large : "F32, F16 or BF16";
        b->result = tr_err_set(b->err, TR_EFORMAT, t->name, "%s: %s: expected type %s, found %s",
                               file, t->name, want, t->type_name);
    }
}

/* GGUF's NVFP4 has a factor for the whole matrix in a tensor of its own, blk.0.attn_q.scale beside
 * blk.0.attn_q.weight. A scale of anything else would be a
 * different model if it were passed over. */
static void take_scale(struct binder *b, struct tr_tensor *t, enum tr_slot_kind kind)
{
    static const char suffix[] = ".weight";
    char name[TR_MAX_NAME + sizeof ".input_scale"];
    size_t n = strlen(t->name), end = sizeof suffix - 1;
    if (b->result || b->kind != TR_CHECKPOINT_GGUF || n <= end ||
        strcmp(t->name + n - end, suffix) != 0)
        return;
    int stem = (int)(n - end);
    snprintf(name, sizeof name, "%.*s.input_scale", stem, t->name);
    struct tr_tensor *input = tr__source_find(b->source, name);
    if (input) /* for processors that multiply E2M1 by E2M1 */
        input->used = true;
    snprintf(name, sizeof name, "%.*s.scale", stem, t->name);
    struct tr_tensor *scale = tr__source_find(b->source, name);
    if (!scale)
        return;
    const char *file = b->source->files[scale->file].name;
    uint64_t want = t->n_dims == 3 ? t->dims[0] : 1;
    if (t->type != TR_W_NVFP4 || kind != TR_SLOT_MATRIX)
        b->result = tr_err_set(b->err, TR_EFORMAT, scale->name,
                               "%s: %s: only matrices of NVFP4 may have a scale beside them", file,
                               scale->name);
    else if (scale->type != TR_W_F32 || scale->n_dims != 1 || scale->dims[0] != want)
        b->result =
            tr_err_set(b->err, TR_EFORMAT, scale->name, "%s: %s: expected %llu numbers of type F32",
                       file, scale->name, (unsigned long long)want);
    scale->used = true;
    t->scale = scale;
}

/* The tensor of that text, checked; NULL (and noted) if it is missing or wrong. */
static struct tr_tensor *take_text(struct binder *b, const char *text, enum tr_slot_kind kind,
                                   const uint64_t *dims, int n_dims)
{
    struct tr_tensor *t = tr__source_find(b->source, text);
    if (!t) {
        tr__names_add(&b->missing, text);
        return NULL;
    }
    t->used = true;
    check(b, t, kind, dims, n_dims);
    take_scale(b, t, kind);
    return b->result ? NULL : t;
}

static struct tr_tensor *take(struct binder *b, enum name name, enum tr_slot_kind kind,
                              const uint64_t *dims, int n_dims)
{
    char text[TR_MAX_NAME + 1];
    look_up(b, name, text);
    return take_text(b, text, kind, dims, n_dims);
}

/* A slot for n rows of k from row `first` of the tensor. */
static void add(struct binder *b, struct tr_tensor *t, enum tr_slot_kind kind, uint64_t first,
                int n, int k, union tr_slot_owner owner)
{
    if (!t || b->result)
        return;
    struct tr_slot slot = {.kind = kind, .tensor = t, .n = n, .k = k, .owner = owner};
    slot.first = first;
    slot.offset = t->offset + first * (t->quant ? tr__quant_rows_bytes(t->quant, 1)
                                                : tr_file_row_bytes(t->type, k));
    b->result = tr__load_plan_add(b->plan, &slot, b->err);
}

static void vector(struct binder *b, enum name name, int n, const float **pointer)
{
    uint64_t dims[] = {(uint64_t)n};
    add(b, take(b, name, TR_SLOT_VECTOR, dims, 1), TR_SLOT_VECTOR, 0, 1, n,
        (union tr_slot_owner){.vector = pointer});
}

/* Rows [first, first + n) of a tensor whose rows have k columns. */
static void rows(struct binder *b, struct tr_tensor *t, uint64_t first, int n, int k,
                 struct tr_matrix *m)
{
    m->n = n;
    m->k = k;
    add(b, t, TR_SLOT_MATRIX, first, n, k, (union tr_slot_owner){.matrix = m});
}

static void matrix(struct binder *b, enum name name, int n, int k, struct tr_matrix *m)
{
    uint64_t dims[] = {(uint64_t)n, (uint64_t)k};
    rows(b, take(b, name, TR_SLOT_MATRIX, dims, 2), 0, n, k, m);
}

static void attention(struct binder *b, const struct tr_model_config *c, struct tr_layer *l)
{
    int d = c->hidden_size, q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    if (has(b, QKV)) {
        uint64_t dims[] = {(uint64_t)q + 2 * (uint64_t)kv, (uint64_t)d};
        struct tr_tensor *t = take(b, QKV, TR_SLOT_MATRIX, dims, 2);
        rows(b, t, 0, q, d, &l->q);
        rows(b, t, (uint64_t)q, kv, d, &l->k);
        rows(b, t, (uint64_t)q + (uint64_t)kv, kv, d, &l->v);
    } else {
        matrix(b, Q, q, d, &l->q);
        matrix(b, K, kv, d, &l->k);
        matrix(b, V, kv, d, &l->v);
    }
    matrix(b, ATTN_GATE, q, d, &l->gate);
    matrix(b, O, d, q, &l->o);
    vector(b, Q_NORM, c->head_dim, &l->q_norm);
    vector(b, K_NORM, c->head_dim, &l->k_norm);
}

/* One tensor for each of an expert's matrices, as checkpoints on the Hub have it. */
static void separate_experts(struct binder *b, const struct tr_model_config *c, struct tr_mlp *x)
{
    uint64_t wide[] = {(uint64_t)c->expert_width, (uint64_t)c->hidden_size};
    uint64_t tall[] = {(uint64_t)c->hidden_size, (uint64_t)c->expert_width};
    static const char *const parts[] = {"gate", "up", "down"};
    for (int e = 0; e < c->n_experts; e++) {
        struct tr_matrix *m[] = {&x[e].gate, &x[e].up, &x[e].down};
        for (int i = 0; i < 3; i++) {
            char text[TR_MAX_NAME + 1];
            snprintf(text, sizeof text, "model.layers.%d.mlp.experts.%d.%s_proj.weight", b->layer,
                     e, parts[i]);
            const uint64_t *dims = i < 2 ? wide : tall;
            struct tr_tensor *t = take_text(b, text, TR_SLOT_MATRIX, dims, 2);
            rows(b, t, 0, (int)dims[0], (int)dims[1], m[i]);
        }
    }
}

/* All experts of a layer in one tensor: GGUF's and MLX's three, or the fused two of transformers 5,
 * whose first has an expert's gate rows and then its up rows. */
static void stacked_experts(struct binder *b, const struct tr_model_config *c, struct tr_mlp *x)
{
    int d = c->hidden_size, m = c->expert_width;
    bool fused = has(b, FUSED_GATE_UP);
    uint64_t n = (uint64_t)c->n_experts;
    uint64_t per = fused ? 2 * (uint64_t)m : (uint64_t)m; /* rows of an expert in the tensor */
    uint64_t wide[] = {n, per, (uint64_t)d}, tall[] = {n, (uint64_t)d, (uint64_t)m};
    struct tr_tensor *gate = take(b, fused ? FUSED_GATE_UP : EXPERTS_GATE, TR_SLOT_MATRIX, wide, 3);
    struct tr_tensor *up = fused ? gate : take(b, EXPERTS_UP, TR_SLOT_MATRIX, wide, 3);
    struct tr_tensor *down = take(b, fused ? FUSED_DOWN : EXPERTS_DOWN, TR_SLOT_MATRIX, tall, 3);
    for (uint64_t e = 0; e < n; e++) {
        rows(b, gate, e * per, m, d, &x[e].gate);
        rows(b, up, e * per + (fused ? (uint64_t)m : 0), m, d, &x[e].up);
        rows(b, down, e * (uint64_t)d, d, m, &x[e].down);
    }
}

static void moe(struct binder *b, const struct tr_model_config *c, struct tr_layer *l)
{
    int d = c->hidden_size, shared = c->expert_width * c->n_shared;
    uint64_t dims[] = {(uint64_t)c->n_experts, (uint64_t)d};
    add(b, take(b, ROUTER, TR_SLOT_ROUTER, dims, 2), TR_SLOT_ROUTER, 0, c->n_experts, d,
        (union tr_slot_owner){.layer = l});
    vector(b, EXPERT_BIAS, c->n_experts, &l->expert_bias);
    if (shared) {
        matrix(b, SHARED_GATE, shared, d, &l->mlp.gate);
        matrix(b, SHARED_UP, shared, d, &l->mlp.up);
        matrix(b, SHARED_DOWN, d, shared, &l->mlp.down);
    }
    l->experts = calloc((size_t)c->n_experts, sizeof *l->experts);
    if (!l->experts)
        b->result = tr_err_set(b->err, TR_ENOMEM, NULL, "out of memory");
    else if (b->kind == TR_CHECKPOINT_GGUF || has(b, FUSED_GATE_UP) || has(b, EXPERTS_GATE))
        stacked_experts(b, c, l->experts);
    else
        separate_experts(b, c, l->experts);
}

static void layer(struct binder *b, const struct tr_model_config *c, struct tr_layer *l)
{
    int d = c->hidden_size;
    vector(b, INPUT_NORM, d, &l->input_norm);
    attention(b, c, l);
    vector(b, POST_ATTN_NORM, d, &l->post_attn_norm);
    vector(b, PRE_MLP_NORM, d, &l->pre_mlp_norm);
    if (b->layer < c->n_dense) {
        matrix(b, DENSE_GATE, c->dense_width, d, &l->mlp.gate);
        matrix(b, DENSE_UP, c->dense_width, d, &l->mlp.up);
        matrix(b, DENSE_DOWN, d, c->dense_width, &l->mlp.down);
    } else {
        moe(b, c, l);
    }
    vector(b, POST_MLP_NORM, d, &l->post_mlp_norm);
}

int tr__bind(struct tr_weights *w, struct tr_source *s, enum tr_checkpoint_kind kind,
             struct tr_load_plan *plan, struct tr_err *err)
{
    const struct tr_model_config *c = &w->config;
    struct binder b = {.source = s, .plan = plan, .kind = kind, .err = err};
    w->layers = calloc((size_t)c->n_layers, sizeof *w->layers);
    if (!w->layers)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    uint64_t dims[] = {(uint64_t)c->vocab_size, (uint64_t)c->hidden_size};
    struct tr_tensor *embed = take(&b, EMBED, TR_SLOT_EMBED, dims, 2);
    add(&b, embed, TR_SLOT_EMBED, 0, c->vocab_size, c->hidden_size,
        (union tr_slot_owner){.weights = w});
    for (; b.layer < c->n_layers && b.result != TR_ENOMEM; b.layer++)
        layer(&b, c, &w->layers[b.layer]);
    vector(&b, FINAL_NORM, c->hidden_size, &w->final_norm);
    /* GGUF says it by leaving the head out. */
    w->config.tied |= kind == TR_CHECKPOINT_GGUF && !has(&b, HEAD);
    if (c->tied)
        rows(&b, embed, 0, c->vocab_size, c->hidden_size, &w->head);
    else
        matrix(&b, HEAD, c->vocab_size, c->hidden_size, &w->head);
    char rest[32];
    if (b.missing.n)
        return tr_err_set(err, TR_EFORMAT, NULL, "%s%s: %zu tensors are missing: %s%s",
                          s->files[0].name, s->n_files > 1 ? " and others" : "", b.missing.n,
                          b.missing.text, tr__names_rest(&b.missing, rest));
    return b.result;
}

void tr__bind_unused(struct tr_source *s)
{
    struct tr_names unused = {0};
    char rest[32];
    for (size_t i = 0; i < s->n_tensors; i++)
        if (!s->tensors[i].used && !s->tensors[i].part &&
            !strstr(s->tensors[i].name, "rotary_emb.inv_freq"))
            tr__names_add(&unused, s->tensors[i].name);
    if (unused.n)
        tr__source_warn(s, "%zu tensors are not used: %s%s", unused.n, unused.text,
                        tr__names_rest(&unused, rest));
}
