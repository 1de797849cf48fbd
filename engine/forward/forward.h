/*
 * The forward pass over a batch: rows of many sequences, each a run of consecutive tokens.
 *
 * It reads and writes the caches through each span's tables and keeps no state of its own between
 * steps. All memory is allocated at open; a step allocates nothing.
 */
#ifndef TR_ENGINE_FORWARD_FORWARD_H
#define TR_ENGINE_FORWARD_FORWARD_H

#include "engine/cache/global.h"
#include "engine/cache/local.h"
#include "engine/checkpoint/weights.h"
#include "engine/machine/pool.h"

/* Consecutive tokens of one sequence: a prefill chunk, one decode token, or a decode token and its
 * drafts. */
struct tr_span {
    const int32_t *tokens; /* [n] */
    int n;
    int64_t pos0;                         /* position of tokens[0] */
    const struct tr_local_table *local;   /* pages for [max(0, pos0 - window + 1), pos0 + n) */
    const struct tr_global_table *global; /* pages for [0, pos0 + n) */
    int head_rows;                        /* the last head_rows tokens want logits: 0..n */
};

struct tr_batch {
    const struct tr_span *spans;
    int n_spans;
};

struct tr_forward;

struct tr_forward_options {
    const struct tr_weights *weights;
    const struct tr_kernels *kernels;
    struct tr_pool *pool;
    const struct tr_kv_layout *local; /* layouts of the two kinds; n_layers may be 0 */
    const struct tr_kv_layout *global;
    int max_rows;      /* tokens of one step */
    int max_head_rows; /* rows of one head pass */
};

/* What a test may look at (NULL = off): called by one thread, between phases, for each layer's
 * row. */
struct tr_forward_probe {
    void *arg;
    /* x: residual stream after the layer [hidden]; z: gate logits W_G x [heads * head_dim]; row: in
     * the batch */
    void (*layer)(void *arg, int layer, int row, const float *x, const float *z);
};

TR_NODISCARD int tr_forward_open(struct tr_forward **ret, const struct tr_forward_options *options,
                                 struct tr_err *err);
struct tr_forward *tr_forward_close(struct tr_forward *f); /* NULL ok; returns NULL */
uint64_t tr_forward_bytes(const struct tr_forward *f);     /* fixed buffers */
/* Bytes that tr_forward_open would allocate, for sizing the caches before. */
uint64_t tr_forward_need(const struct tr_weights *w, int max_rows, int max_head_rows,
                         int n_threads);
void tr_forward_set_probe(struct tr_forward *f, const struct tr_forward_probe *probe);

/* Runs all layers for the batch (sum of n <= max_rows). The final normed rows that want logits are
 * kept, in span order, for tr_forward_head; *ret_head_rows is their number. */
void tr_forward_run(struct tr_forward *f, const struct tr_batch *batch, int *ret_head_rows);
/* Which logits of a row are wanted. */
struct tr_head_part {
    const int32_t *ids; /* [n] ascending; NULL: all of them */
    int n;
};
/* Computes logits of the kept rows [first, first + n), n <= max_head_rows; parts [n] or NULL: all
 * of every row. What nobody wants may be computed all the same, or be what it was. */
void tr_forward_head(struct tr_forward *f, int first, int n, const struct tr_head_part *parts);
/* Those of kept row first + i: [vocab_size] floats, valid until the next call. */
const float *tr_forward_logits(const struct tr_forward *f, int i);
/* Nanoseconds of all passes so far, by what they were spent on; barriers count to what they wait
 * for. */
struct tr_forward_times {
    int64_t local, global; /* attention of the kind, its projections included */
    int64_t mlp;           /* dense layers, router, experts */
    int64_t head;
};
struct tr_forward_times tr_forward_times(const struct tr_forward *f);
/* Bytes of the experts that the passes so far have read: of each layer those that some row
 * chose. */
uint64_t tr_forward_expert_bytes(const struct tr_forward *f);
/* [n_layers] how unevenly the rows of late fell to the experts: the most that one got over the
 * mean; 0 = no experts, or no rows yet. Some passes are looked at. */
const float *tr_forward_expert_load(const struct tr_forward *f);

#endif
