/*
 * The forward pass's memory: every buffer of a step in one region, sized once.
 *
 * The same walk over the buffers runs twice: without memory it counts bytes, with memory it hands
 * them out.
 */
#include "engine/forward/forward_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 128 }; /* two cache lines: threads do not share one */

struct arena {
    char *base; /* NULL: only count */
    size_t used;
};

static void *take(struct arena *a, size_t count, size_t bytes)
{
    size_t at = a->used;
    a->used += TR_ROUND_UP(count * bytes, ALIGN);
    return a->base ? a->base + at : NULL;
}

static void take_rows(struct arena *a, struct tr_rows *r, size_t rows, int k)
{
    size_t stride = (size_t)tr_rows_stride(k);
    r->k = k;
    r->f32 = take(a, rows * stride, sizeof *r->f32);
    r->bf16 = take(a, rows * stride, sizeof *r->bf16);
    r->q8 = take(a, rows * stride, sizeof *r->q8);
    r->q8_scale = take(a, rows * stride / 32, sizeof *r->q8_scale);
    r->q8_sum = take(a, rows * stride / 32, sizeof *r->q8_sum);
}

static int widest_mlp(const struct tr_model_config *c)
{
    int shared = c->expert_width * c->n_shared;
    int dense = c->n_dense ? c->dense_width : 0;
    return TR_MAX(TR_MAX(dense, shared), 1);
}

static void lay_out_worker(struct tr_forward *f, struct arena *a, struct worker *w)
{
    const struct tr_model_config *c = f->config;
    int group = c->n_heads / c->n_kv_heads;
    size_t tile = (size_t)TILE_TOKENS * group * c->head_dim;
    int max_k = TR_MAX(TR_MAX(c->hidden_size, c->n_heads * c->head_dim),
                       TR_MAX(c->dense_width, widest_mlp(c)));
    size_t width = (size_t)tr_rows_stride(c->expert_width);
    w->matmul = take(a, tr_matmul_scratch(c->vocab_size, TR_MAX(max_k, c->expert_width)), 1);
    w->attend = take(a, tr_kv_attend_scratch(TILE_TOKENS * group, c->head_dim), 1);
    w->q = take(a, tile, sizeof *w->q);
    w->o = take(a, tile, sizeof *w->o);
    take_rows(a, &w->in, EXPERT_ROWS, c->hidden_size);
    take_rows(a, &w->act, EXPERT_ROWS, c->expert_width);
    w->gate = take(a, EXPERT_ROWS * width, sizeof *w->gate);
    w->up = take(a, EXPERT_ROWS * width, sizeof *w->up);
}

static void lay_out(struct tr_forward *f, struct arena *a, int n_threads)
{
    const struct tr_model_config *c = f->config;
    size_t rows = (size_t)f->max_rows;
    size_t chosen = rows * (size_t)c->n_active;
    f->sd = (size_t)tr_rows_stride(c->hidden_size);
    f->sq = (size_t)tr_rows_stride(c->n_heads * c->head_dim);
    f->sk = (size_t)tr_rows_stride(c->n_kv_heads * c->head_dim);
    f->sm = (size_t)tr_rows_stride(widest_mlp(c));
    f->se = (size_t)tr_rows_stride(c->n_experts);
    f->sv = (size_t)tr_rows_stride(c->vocab_size);

    f->ticket = take(a, 1, sizeof *f->ticket);
    f->tiles = take(a, rows, sizeof *f->tiles);
    f->tokens = take(a, rows, sizeof *f->tokens);
    f->positions = take(a, rows, sizeof *f->positions);
    f->head_row = take(a, rows, sizeof *f->head_row);
    f->rope_table = take(a, rows * (size_t)c->head_dim, sizeof *f->rope_table);
    f->x = take(a, rows * f->sd, sizeof *f->x);
    take_rows(a, &f->h, rows, c->hidden_size);
    f->q = take(a, rows * f->sq, sizeof *f->q);
    f->z = take(a, rows * f->sq, sizeof *f->z);
    f->k = take(a, rows * f->sk, sizeof *f->k);
    f->v = take(a, rows * f->sk, sizeof *f->v);
    take_rows(a, &f->o, rows, c->n_heads * c->head_dim);
    f->branch = take(a, rows * f->sd, sizeof *f->branch);
    f->gate = take(a, rows * f->sm, sizeof *f->gate);
    f->up = take(a, rows * f->sm, sizeof *f->up);
    take_rows(a, &f->act, rows, widest_mlp(c));
    f->scores = take(a, rows * f->se, sizeof *f->scores);
    f->chosen = take(a, chosen, sizeof *f->chosen);
    f->chosen_weight = take(a, chosen, sizeof *f->chosen_weight);
    f->expert_begin = take(a, (size_t)c->n_experts + 1, sizeof *f->expert_begin);
    f->load = take(a, (size_t)c->n_layers * (size_t)c->n_experts, sizeof *f->load);
    f->load_ratio = take(a, (size_t)c->n_layers, sizeof *f->load_ratio);
    f->slot_row = take(a, chosen, sizeof *f->slot_row);
    f->slot = take(a, chosen, sizeof *f->slot);
    f->slots = take(a, chosen * f->sd, sizeof *f->slots);
    size_t few = (size_t)TR_MIN(f->max_rows, FEW_ROWS) * (size_t)c->n_active;
    size_t width = (size_t)tr_rows_stride(c->expert_width);
    f->few_gate = take(a, few * width, sizeof *f->few_gate);
    f->few_up = take(a, few * width, sizeof *f->few_up);
    take_rows(a, &f->few_act, few, c->expert_width);
    take_rows(a, &f->final, rows, c->hidden_size);
    f->logits = take(a, (size_t)f->max_head_rows * f->sv, sizeof *f->logits);
    f->pieces = take(a, (size_t)TR_CEIL_DIV(c->vocab_size, tr_matmul_unit(f->weights->head.type)),
                     sizeof *f->pieces);
    f->logits_row = take(a, (size_t)f->max_head_rows, sizeof *f->logits_row);
    f->piece_row = take(a, (size_t)f->max_head_rows, sizeof *f->piece_row);
    f->workers = take(a, (size_t)n_threads, sizeof *f->workers);
    for (int t = 0; t < n_threads; t++) {
        struct worker counted;
        struct worker *w = a->base ? &f->workers[t] : &counted;
        *w = (struct worker){.f = f};
        lay_out_worker(f, a, w);
    }
}

uint64_t tr_forward_need(const struct tr_weights *w, int max_rows, int max_head_rows, int n_threads)
{
    struct tr_forward f = {
        .weights = w, .config = &w->config, .max_rows = max_rows, .max_head_rows = max_head_rows};
    struct arena count = {0};
    lay_out(&f, &count, n_threads);
    return count.used;
}

uint64_t tr_forward_bytes(const struct tr_forward *f)
{
    return f->memory_bytes;
}

static int allocate(struct tr_forward *f, int n_threads)
{
    size_t bytes = tr_forward_need(f->weights, f->max_rows, f->max_head_rows, n_threads);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return TR_ENOMEM;
    f->memory = memory;
    f->memory_bytes = bytes;
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    struct arena a = {.base = memory};
    lay_out(f, &a, n_threads);
    return 0;
}

int tr_forward_open(struct tr_forward **ret, const struct tr_forward_options *o, struct tr_err *err)
{
    struct tr_forward *f = aligned_alloc(APART, sizeof *f);
    int threads = tr_pool_threads(o->pool);
    if (!f)
        goto fail;
    memset(f, 0, sizeof *f);
    f->weights = o->weights;
    f->config = &o->weights->config;
    f->kn = o->kernels;
    f->pool = o->pool;
    f->local = *o->local;
    f->global = *o->global;
    f->max_rows = o->max_rows;
    f->max_head_rows = o->max_head_rows;
    if (allocate(f, threads) < 0)
        goto fail;
    if (tr_rope_init(&f->rope, f->config->head_dim, f->config->rope_theta) < 0)
        goto fail;
    *ret = f;
    return 0;
fail:
    tr_forward_close(f);
    return tr_err_set(err, TR_ENOMEM, "max_batch_tokens",
                      "no memory for the buffers of a step of %d tokens", o->max_rows);
}

struct tr_forward *tr_forward_close(struct tr_forward *f)
{
    if (!f)
        return NULL;
    if (f->memory)
        munmap(f->memory, f->memory_bytes);
    tr_rope_done(&f->rope);
    free(f);
    return NULL;
}
