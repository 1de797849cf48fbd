/*
 * A checkpoint's weights, bound once: names and shapes are checked here, after which only pointers
 * are used.
 */
#ifndef TR_ENGINE_CHECKPOINT_WEIGHTS_H
#define TR_ENGINE_CHECKPOINT_WEIGHTS_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/kernels/kernels.h"
#include "engine/machine/pool.h"

/* y = Wdown(silu(Wgate x) * Wup x): a dense MLP, the shared expert, or one expert. */
struct tr_mlp {
    struct tr_matrix gate, up; /* [width][d] */
    struct tr_matrix down;     /* [d][width] */
};

struct tr_layer {
    const float *input_norm;      /* [d] before attention */
    const float *post_attn_norm;  /* [d] on the attention branch, before the residual sum */
    const float *pre_mlp_norm;    /* [d] */
    const float *post_mlp_norm;   /* [d] on the MLP branch, before the residual sum */
    const float *q_norm, *k_norm; /* [head_dim], shared by all heads */
    struct tr_matrix q, k, v;     /* [H*D][d], [K*D][d], [K*D][d] */
    struct tr_matrix gate;        /* [H*D][d]: the attention gate, self_attn.gate_proj */
    struct tr_matrix o;           /* [d][H*D] */
    struct tr_mlp mlp;            /* dense MLP, or the shared expert (gate.n == 0: none) */
    /* MoE layers only (experts != NULL): */
    const float *router_f32;     /* [E][d]; or NULL and */
    const uint16_t *router_bf16; /* [E][d], if every value is exactly bf16 */
    const float *expert_bias;    /* [E] fp32, selection only */
    struct tr_mlp *experts;      /* [E]; each matrix of each may be of another type */
    unsigned expert_forms;       /* set of enum tr_form: what some expert's gate or up reads */
    bool expert_panels;          /* no expert's gate or up is F32: all can be cut by columns */
};

struct tr_weights {
    struct tr_model_config config;
    struct tr_layer *layers;  /* [n_layers] */
    const float *final_norm;  /* [d] */
    struct tr_matrix head;    /* [V][d] */
    enum tr_wtype embed_type; /* of the embedding table, rows in file format */
    const void *embed;        /* [V] rows of tr_file_row_bytes(embed_type, d) */
    uint64_t n_params;
    uint64_t file_bytes;     /* weights on disk */
    uint64_t memory_bytes;   /* weights in memory: packed + what stays mapped and is read */
    uint64_t cached_bytes;   /* of these: of the packed cache's file, in the page cache. That counts
                              as free memory but is in use. */
    double load_seconds;     /* what loading took */
    bool from_packed;        /* from the packed cache */
    uint8_t fingerprint[16]; /* XXH3-128 over config, names, types and bytes */
    char types[64];          /* "bf16", "q4_K+q6_K": types of the matrices, most bytes first */
    char *formats;           /* \n-separated: what is stored how and kept as what, at what loss */
    char *warnings;          /* \n-separated: tensors and keys that are not used; "" = none */
    struct tr_weights_store *store; /* owns all memory above */
};

/* How writing the packed cache ended, and after how long; err NULL: well. On its own thread. */
typedef void (*tr_packed_fn)(void *arg, double seconds, const struct tr_err *err);

struct tr_weights_options {
    enum tr_weights_choice choice;
    bool use_mmap;            /* false: nothing depends on the files after loading */
    const char *packed_cache; /* NULL = none */
    tr_packed_fn on_packed;   /* NULL: the cache is written before opening ends; else after, while
                                 the weights are in use, and closing them cuts it short */
    void *on_packed_arg;
    struct tr_pool *pool;     /* packs in parallel */
    tr_checked_fn on_checked; /* NULL, or asked before the weights are read */
    void *on_checked_arg;
    tr_progress_fn progress;
    void *progress_arg;
};

/* Checks every tensor's name, dtype and shape, then reads and packs. Takes the checkpoint's source
 * over, so once for each that was opened. On failure err names file, tensor, expected, actual. */
TR_NODISCARD int tr_weights_open(struct tr_weights **ret, struct tr_checkpoint *checkpoint,
                                 const struct tr_weights_options *options, struct tr_err *err);
struct tr_weights *tr_weights_close(struct tr_weights *w); /* NULL ok; returns NULL */

/* Row `id` of the embedding as floats [hidden_size]; not scaled. */
void tr_weights_embed(const struct tr_weights *w, int32_t id, float *y);

#endif
