/* The forward pass's private state: one struct for the step, one per compute thread. */
#ifndef TR_ENGINE_FORWARD_FORWARD_INTERNAL_H
#define TR_ENGINE_FORWARD_FORWARD_INTERNAL_H

#include <stdatomic.h>

#include "engine/forward/forward.h"

enum {
    TILE_TOKENS = 8,   /* tokens of a sequence whose attention is computed together */
    EXPERT_ROWS = 64,  /* rows that go through an expert at a time: bounds the thread's scratch */
    FEW_ROWS = 8,      /* up to here threads share every expert instead of taking whole ones */
    CUT = 64,          /* columns that a row's forms can be prepared by */
    LOAD_EVERY = 16,   /* passes: the experts' load is counted in one of so many */
    LOAD_SLOTS = 4096, /* of a layer, after which older ones count half */
    APART = 128        /* bytes between words that different threads write */
};

/* Consecutive rows of one span. */
struct tile {
    const struct tr_span *span;
    int row0; /* first row in the batch */
    int n;    /* rows, at most TILE_TOKENS */
    int64_t pos0;
};

/* A unit of the head's product (tr_matmul_unit) that a row wants. */
struct piece {
    int row; /* of logits */
    int unit;
};

/* One compute thread's view of the step, and its own scratch. */
struct worker {
    _Alignas(APART) struct tr_forward *f;
    int part, n_parts;  /* of the phase, that it computes now */
    void *matmul;       /* tr_matmul_scratch */
    void *attend;       /* tr_kv_attend_scratch */
    float *q, *o;       /* one tile and KV head: [TILE_TOKENS][group][head_dim] */
    struct tr_rows in;  /* gathered rows of an expert [EXPERT_ROWS][d] */
    float *gate, *up;   /* [EXPERT_ROWS][expert width, padded] */
    struct tr_rows act; /* SwiGLU of an expert [EXPERT_ROWS][expert width] */
};

struct tr_forward {
    const struct tr_weights *weights;
    const struct tr_model_config *config;
    const struct tr_kernels *kn;
    struct tr_pool *pool;
    struct tr_kv_layout local, global;
    struct tr_rope rope;
    struct tr_forward_probe probe; /* layer == NULL: off */
    int max_rows, max_head_rows;
    void *memory; /* every buffer below; bytes: memory_bytes */
    uint64_t memory_bytes;
    struct worker *workers; /* [threads] */

    /* The batch, flattened. */
    int n_rows;
    struct tile *tiles; /* [max_rows] at most */
    int n_tiles;
    int32_t *tokens;    /* [max_rows] */
    int64_t *positions; /* [max_rows] */
    int *head_row;      /* [max_rows]: rows that want logits */
    int n_head_rows;

    int n_parts;        /* of a phase that is cut */
    atomic_int *ticket; /* for phases that hand out work as it is asked for; alone on its line */

    /* Activations, a row per token. Strides in floats: tr_rows_stride of the width. */
    size_t sd, sq, sk, sm; /* hidden, heads * head_dim, kv_heads * head_dim, widest MLP */
    float *rope_table;     /* [max_rows][head_dim]: cosines, sines of the row's position */
    float *x;              /* [max_rows][sd] residual stream */
    struct tr_rows h;      /* [max_rows][sd] normed input of the branch */
    float *q, *z;          /* [max_rows][sq] queries, gate logits */
    float *k, *v;          /* [max_rows][sk] */
    struct tr_rows o;      /* [max_rows][sq] gated attention output */
    float *branch;         /* [max_rows][sd] output of a branch */
    float *gate, *up;      /* [max_rows][sm] dense or shared MLP */
    struct tr_rows act;    /* [max_rows][sm] its SwiGLU */

    /* Mixture of experts. */
    size_t se;                /* stride of scores */
    float *scores;            /* [max_rows][se] router logits, then sigmoid */
    int32_t *chosen;          /* [max_rows][k] experts by falling biased score */
    float *chosen_weight;     /* [max_rows][k] */
    int *expert_begin;        /* [E + 1] slots of expert e: [begin[e], begin[e + 1]) */
    int32_t *slot_row;        /* [max_rows * k] the row of a slot */
    int32_t *slot;            /* [max_rows][k] the slot of a row's rank */
    float *slots;             /* [max_rows * k][sd] expert outputs */
    float *load;              /* [n_layers][E] slots of late */
    float *load_ratio;        /* [n_layers]: see tr_forward_expert_load */
    float *few_gate, *few_up; /* [FEW_ROWS * k][expert width, padded] */
    struct tr_rows few_act;   /* [FEW_ROWS * k][expert width] */

    struct tr_rows final; /* [max_rows][sd] final normed rows that want logits, densely */
    float *logits;        /* [max_head_rows][sv] */
    size_t sv;
    struct tr_rows whole; /* of the head pass: rows that want all logits, */
    int n_whole;          /* which are the first so many rows of logits; */
    struct piece *pieces; /* [units of the head]: what the others want, row by row */
    int n_pieces;
    int *logits_row; /* [max_head_rows]: where the logits of a row are */
    int *piece_row;  /* [max_head_rows]: of a row of logits, the row of `final` */

    /* Where the step is: set between phases, and apart from what does not change with them, which
     * all threads read. */
    _Alignas(APART) int layer;
    int phase; /* of the layer's phases, the next one */
    void (*work)(const struct worker *w);
    /* What only the thread between two phases reads and writes. */
    _Alignas(APART) struct tr_forward_times times;
    int64_t *account;      /* of these, that of the phase under way; NULL: none */
    int64_t clock;         /* since when */
    uint64_t expert_bytes; /* see tr_forward_expert_bytes */
    uint64_t n_runs;
    bool counts_load; /* this pass */
};

static inline const struct tr_layer *layer_of(const struct worker *w)
{
    return &w->f->weights->layers[w->f->layer];
}

/* This part's share [*begin, *end) of n items. */
static inline void share(const struct worker *w, int n, int *begin, int *end)
{
    *begin = (int)((int64_t)n * w->part / w->n_parts);
    *end = (int)((int64_t)n * (w->part + 1) / w->n_parts);
}

static inline int take_ticket(const struct worker *w)
{
    return atomic_fetch_add_explicit(w->f->ticket, 1, memory_order_relaxed);
}

/* y = W x for all rows of the batch; this part's columns. */
static inline void project(const struct worker *w, const struct tr_matrix *m,
                           const struct tr_rows *x, float *y, size_t ldy)
{
    tr_matmul(w->f->kn, m, x, w->f->n_rows, y, ldy, w->part, w->n_parts, w->matmul);
}

static inline void warm(const struct worker *w, const struct tr_matrix *m)
{
    tr_matmul_warm(m, w->part, w->n_parts);
}

/* Fills the forms of columns [begin, end) of a row from its f32; begin is a multiple of CUT, and so
 * is end unless it is the row's. */
static inline void prepare_columns(const struct worker *w, const struct tr_rows *rows, int row,
                                   int begin, int end, unsigned forms)
{
    struct tr_rows v = tr_rows_at(rows, row);
    if (forms & TR_FORM_BF16)
        w->f->kn->to_bf16(v.f32 + begin, end - begin, v.bf16 + begin);
    if (forms & TR_FORM_Q8)
        w->f->kn->quantize(v.f32 + begin, end - begin, v.q8 + begin, v.q8_scale + begin / 32,
                           v.q8_sum + begin / 32);
}

/* Phases of a layer, for one part each; who is called when stands in forward.c. */

/* attention.c: h -> branch */
void tr__project_heads(const struct worker *w);
void tr__attend_heads(const struct worker *w); /* keys stored and read, by KV heads */
void tr__store_keys(const struct worker *w);
void tr__attend_tiles(const struct worker *w);
void tr__prepare_heads(const struct worker *w);
void tr__project_out(const struct worker *w);

/* mlp.c: h -> branch. tr__combine makes the branch of this part's rows from what the experts
 * left. */
void tr__dense_up(const struct worker *w);
void tr__dense_act(const struct worker *w);
void tr__dense_down(const struct worker *w);
void tr__route(const struct worker *w);
void tr__choose(const struct worker *w);
void tr__group(const struct worker *w); /* undivided */
void tr__experts(const struct worker *w);
bool tr__experts_are_shared(const struct tr_forward *f);
void tr__few_experts_up(const struct worker *w);
void tr__few_experts_down(const struct worker *w);
void tr__combine(const struct worker *w);

#endif
