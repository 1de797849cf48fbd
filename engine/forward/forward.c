/*
 * The AFMoE forward pass over a batch (transformers' AfmoeForCausalLM).
 *
 * All compute threads run the same code; a phase works on rows or on output columns, and
 * sync_threads separates phases. A row's numbers never depend on the other rows.
 */
#include "engine/forward/forward_internal.h"

#include <string.h>

static void embed(const struct worker *w)
{
    struct tr_forward *f = w->f;
    int begin;
    int end;
    share(w, f->n_rows, &begin, &end);
    for (int r = begin; r < end; r++) {
        float *x = f->x + (size_t)r * f->sd;
        tr_weights_embed(f->weights, f->tokens[r], x);
        for (int i = 0; i < f->config->hidden_size; i++)
            x[i] *= f->config->embed_scale;
        tr_rope_table(&f->rope, f->positions[r], f->rope_table + (size_t)r * f->config->head_dim);
    }
}

static unsigned attention_forms(const struct tr_layer *l)
{
    return tr_wtype_form(l->q.type) | tr_wtype_form(l->k.type) | tr_wtype_form(l->v.type) |
           tr_wtype_form(l->gate.type);
}

static unsigned mlp_forms(const struct tr_layer *l)
{
    unsigned forms = 0;
    if (l->mlp.gate.n)
        forms |= tr_wtype_form(l->mlp.gate.type) | tr_wtype_form(l->mlp.up.type);
    if (l->experts)
        forms |= l->expert_forms;
    return forms;
}

/* h = RMS(x; norm), in the forms that its readers want. */
static void norm_row(const struct worker *w, int row, const float *norm, unsigned forms)
{
    struct tr_forward *f = w->f;
    f->kn->rmsnorm(f->x + (size_t)row * f->sd, norm, f->config->hidden_size, f->config->norm_eps,
                   f->h.f32 + (size_t)row * f->sd);
    tr_rows_prepare(f->kn, &f->h, row, forms);
}

static void norm_rows(const struct worker *w, const float *norm, unsigned forms)
{
    int begin;
    int end;
    share(w, w->f->n_rows, &begin, &end);
    for (int r = begin; r < end; r++)
        norm_row(w, r, norm, forms);
}

/* x += RMS(branch; branch_norm), then h = RMS(x; next_norm): the sandwich. next_norm NULL: after
 * the last layer. */
static void close_branch(const struct worker *w, const float *branch_norm, const float *next_norm,
                         unsigned forms)
{
    struct tr_forward *f = w->f;
    int d = f->config->hidden_size;
    int begin;
    int end;
    share(w, f->n_rows, &begin, &end);
    for (int r = begin; r < end; r++) {
        float *branch = f->branch + (size_t)r * f->sd;
        f->kn->rmsnorm(branch, branch_norm, d, f->config->norm_eps, branch);
        f->kn->add(f->x + (size_t)r * f->sd, branch, d);
        if (next_norm)
            norm_row(w, r, next_norm, forms);
    }
}

static void show_layer(const struct worker *w, int layer)
{
    struct tr_forward *f = w->f;
    if (f->probe.layer && w->tid == 0)
        for (int r = 0; r < f->n_rows; r++)
            f->probe.layer(f->probe.arg, layer, r, f->x + (size_t)r * f->sd,
                           f->z + (size_t)r * f->sq);
    if (f->probe.layer)
        sync_threads(w);
}

/* One layer: h = RMS(x; input_norm) on entry, and for the next layer on exit. */
static void run_layer(const struct worker *w, int i)
{
    const struct tr_weights *weights = w->f->weights;
    const struct tr_layer *l = &weights->layers[i];
    const struct tr_layer *next = i + 1 < weights->config.n_layers ? l + 1 : NULL;

    tr__attention(w, l, i);
    warm(w, &l->mlp.gate);
    sync_threads(w);
    close_branch(w, l->post_attn_norm, l->pre_mlp_norm, mlp_forms(l));
    sync_threads(w);
    if (l->experts)
        tr__moe(w, l, i);
    else
        tr__dense_mlp(w, l);
    warm(w, next ? &next->q : &weights->head);
    sync_threads(w);
    if (l->experts)
        tr__combine(w, l);
    close_branch(w, l->post_mlp_norm, next ? next->input_norm : NULL,
                 next ? attention_forms(next) : 0);
    sync_threads(w);
    show_layer(w, i);
}

/* The rows that want logits, normed for the head. */
static void final_norm(const struct worker *w)
{
    struct tr_forward *f = w->f;
    int begin;
    int end;
    share(w, f->n_head_rows, &begin, &end);
    for (int r = begin; r < end; r++) {
        f->kn->rmsnorm(f->x + (size_t)f->head_row[r] * f->sd, f->weights->final_norm,
                       f->config->hidden_size, f->config->norm_eps,
                       f->final.f32 + (size_t)r * f->sd);
        tr_rows_prepare(f->kn, &f->final, r, tr_wtype_form(f->weights->head.type));
    }
}

static void run_step(void *arg, int tid, int n_threads)
{
    struct tr_forward *f = arg;
    struct worker *w = &f->workers[tid];
    w->n_threads = n_threads;
    tr_fp_enter();
    embed(w);
    norm_rows(w, f->weights->layers[0].input_norm, attention_forms(&f->weights->layers[0]));
    sync_threads(w);
    for (int i = 0; i < f->config->n_layers; i++)
        run_layer(w, i);
    final_norm(w);
}

static void flatten(struct tr_forward *f, const struct tr_batch *batch)
{
    f->n_rows = f->n_tiles = f->n_head_rows = 0;
    for (int s = 0; s < batch->n_spans; s++) {
        const struct tr_span *span = &batch->spans[s];
        for (int i = 0; i < span->n; i++) {
            f->tokens[f->n_rows + i] = span->tokens[i];
            f->positions[f->n_rows + i] = span->pos0 + i;
            if (i >= span->n - span->head_rows)
                f->head_row[f->n_head_rows++] = f->n_rows + i;
        }
        for (int i = 0; i < span->n; i += TILE_TOKENS)
            f->tiles[f->n_tiles++] = (struct tile){.span = span,
                                                   .row0 = f->n_rows + i,
                                                   .n = TR_MIN(TILE_TOKENS, span->n - i),
                                                   .pos0 = span->pos0 + i};
        f->n_rows += span->n;
    }
    for (int i = 0; i < f->config->n_layers; i++)
        for (int t = 0; t < TICKETS; t++)
            atomic_store_explicit(&f->tickets[i][t], 0, memory_order_relaxed);
}

void tr_forward_run(struct tr_forward *f, const struct tr_batch *batch, int *ret_head_rows)
{
    flatten(f, batch);
    if (f->n_rows)
        tr_pool_run(f->pool, run_step, f);
    *ret_head_rows = f->n_head_rows;
}

uint64_t tr_forward_expert_bytes(const struct tr_forward *f)
{
    return f->expert_bytes;
}

void tr_forward_set_probe(struct tr_forward *f, const struct tr_forward_probe *probe)
{
    f->probe = probe ? *probe : (struct tr_forward_probe){0};
}
