/*
 * What a checkpoint says of its shape: config.json of a Hugging Face folder, or GGUF metadata.
 *
 * Reading is strict: a structural field that is missing, odd or contradictory is an error that
 * names the key, never a guess (AFMoE implementations differ in their defaults). Source of every
 * rule: transformers' AfmoeConfig and the remote code before it.
 */
#ifndef TR_ENGINE_CHECKPOINT_CONFIG_H
#define TR_ENGINE_CHECKPOINT_CONFIG_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

enum tr_layer_kind {
    TR_LOCAL, /* sliding_attention: RoPE, a window of `window` keys, itself included */
    TR_GLOBAL /* full_attention: no positions, the whole causal prefix */
};

enum {
    TR_MAX_LAYERS = 512,
    TR_MAX_EXPERTS = 1024,
    TR_MAX_TOPK = 64,
    TR_MAX_POSITION = 10000000 /* for which tr_sincos is specified */
};

struct tr_model_config {
    int vocab_size;   /* V: rows of embed_tokens and lm_head */
    int hidden_size;  /* d */
    int n_layers;     /* L */
    int n_dense;      /* the first layers have a dense MLP, the others experts */
    int n_heads;      /* H; H % n_kv_heads == 0 */
    int n_kv_heads;   /* K */
    int head_dim;     /* D, even, given, never derived, <= TR_MAX_HEAD_DIM (kernels.h) */
    int dense_width;  /* f: intermediate_size */
    int expert_width; /* m: moe_intermediate_size */
    int n_experts;    /* E */
    int n_active;     /* k: num_experts_per_tok */
    int n_shared;     /* S: the shared expert's width is m * S; 0 = none */
    int window;       /* W: keys a local layer's query sees, itself included */
    int context;      /* max_position_embeddings */
    float norm_eps;
    double rope_theta;
    float route_scale; /* times the normalised routed weights */
    bool route_norm;
    bool tied;                  /* lm_head = embed_tokens */
    float embed_scale;          /* sqrt(d) if mup_enabled, else 1 */
    int bos_id, eos_id, pad_id; /* -1 = not stated */
    int n_local, n_global;      /* layers of each kind */
    enum tr_layer_kind kind[TR_MAX_LAYERS];
    int kind_index[TR_MAX_LAYERS]; /* layer i is the kind_index[i]-th of its kind */
};

struct tr_json;

/* Reads config.json; `name` is used in messages. */
TR_NODISCARD int tr__model_config_read(struct tr_model_config *ret, const struct tr_json *root,
                                       const char *name, struct tr_err *err);
/* The same of its text, n bytes; `name` is used in messages. */
TR_NODISCARD int tr__model_config_parse(struct tr_model_config *ret, const char *text, size_t n,
                                        const char *name, struct tr_err *err);

#endif
