/*
 * The AFMoE forward pass over a batch (transformers' AfmoeForCausalLM).
 *
 * A step is a sequence of phases, each cut into parts by rows or by output columns; the compute
 * threads share the parts of one before they go on to the next. A row's numbers never depend on the
 * other rows, nor on how phases are cut.
 */
#include "engine/forward/forward_internal.h"

#include <string.h>

#include "config/clock.h"

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

static void close_attention(const struct worker *w)
{
    const struct tr_layer *l = layer_of(w);
    close_branch(w, l->post_attn_norm, l->pre_mlp_norm, mlp_forms(l));
}

static void close_mlp(const struct worker *w)
{
    const struct tr_layer *l = layer_of(w);
    bool last = w->f->layer + 1 == w->f->config->n_layers;
    if (l->experts)
        tr__combine(w);
    close_branch(w, l->post_mlp_norm, last ? NULL : l[1].input_norm,
                 last ? 0 : attention_forms(&l[1]));
}

static void show_layer(const struct worker *w)
{
    struct tr_forward *f = w->f;
    for (int r = 0; r < f->n_rows; r++)
        f->probe.layer(f->probe.arg, f->layer, r, f->x + (size_t)r * f->sd,
                       f->z + (size_t)r * f->sq);
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

static void begin_step(const struct worker *w)
{
    embed(w);
    norm_rows(w, layer_of(w)->input_norm, attention_forms(layer_of(w)));
}

/* ---- phases ---- */

static bool has_whole_heads(const struct tr_forward *f)
{
    return f->config->n_kv_heads % f->n_parts == 0;
}

static bool has_no_whole_heads(const struct tr_forward *f)
{
    return !has_whole_heads(f);
}

static bool heads_share_a_cut(const struct tr_forward *f)
{
    const struct tr_model_config *c = f->config;
    return c->n_heads / c->n_kv_heads * c->head_dim % CUT != 0 &&
           tr_wtype_form(f->weights->layers[f->layer].o.type) != TR_FORM_F32;
}

static bool has_experts(const struct tr_forward *f)
{
    return f->weights->layers[f->layer].experts;
}

static bool is_dense(const struct tr_forward *f)
{
    return !has_experts(f);
}

static bool has_few_rows(const struct tr_forward *f)
{
    return has_experts(f) && tr__experts_are_shared(f);
}

static bool has_many_rows(const struct tr_forward *f)
{
    return has_experts(f) && !tr__experts_are_shared(f);
}

static bool is_probed(const struct tr_forward *f)
{
    return f->probe.layer;
}

/* How a phase is cut. A cut costs a wait for all parts, so work by rows is not worth it for a few
 * short ones: then it belongs to what one thread does between two phases. */
enum cut { BY_COLUMNS, BY_ROWS, UNCUT };
enum account { UNTOLD, ATTENTION, MLP }; /* what the time of a phase counts to */

struct phase {
    void (*work)(const struct worker *w);
    enum cut cut;
    enum account account;
    bool (*wanted)(const struct tr_forward *f); /* NULL: always */
};

/* A layer: h = RMS(x; input_norm) on entry, and for the next layer on exit. */
static const struct phase layer_phases[] = {
    {tr__project_heads, BY_COLUMNS, ATTENTION, NULL},
    {tr__attend_heads, BY_COLUMNS, ATTENTION, has_whole_heads},
    {tr__store_keys, BY_ROWS, ATTENTION, has_no_whole_heads},
    {tr__attend_tiles, BY_COLUMNS, ATTENTION, has_no_whole_heads},
    {tr__prepare_heads, BY_ROWS, ATTENTION, heads_share_a_cut},
    {tr__project_out, BY_COLUMNS, ATTENTION, NULL},
    {close_attention, BY_ROWS, ATTENTION, NULL},

    {tr__dense_up, BY_COLUMNS, MLP, is_dense},
    {tr__dense_act, BY_ROWS, MLP, is_dense},
    {tr__dense_down, BY_COLUMNS, MLP, is_dense},

    {tr__route, BY_COLUMNS, MLP, has_experts},
    {tr__choose, BY_ROWS, MLP, has_experts},
    {tr__group, UNCUT, MLP, has_experts},
    {tr__few_experts_up, BY_COLUMNS, MLP, has_few_rows},
    {tr__few_experts_down, BY_COLUMNS, MLP, has_few_rows},
    {tr__experts, BY_COLUMNS, MLP, has_many_rows},

    {close_mlp, BY_ROWS, MLP, NULL},
    {show_layer, UNCUT, MLP, is_probed},
};

static const struct phase first_phase = {begin_step, BY_ROWS, UNTOLD, NULL};
static const struct phase last_phase = {final_norm, BY_ROWS, UNTOLD, NULL};

/* The next phase of the step; NULL: it has ended. */
static const struct phase *step_on(struct tr_forward *f)
{
    if (f->phase < 0) {
        f->phase = 0;
        return &first_phase;
    }
    for (; f->layer < f->config->n_layers; f->layer++, f->phase = 0)
        while (f->phase < (int)TR_ARRAY_LEN(layer_phases)) {
            const struct phase *p = &layer_phases[f->phase++];
            if (!p->wanted || p->wanted(f))
                return p;
        }
    return f->layer++ == f->config->n_layers ? &last_phase : NULL;
}

static bool is_cut(const struct tr_forward *f, enum cut cut)
{
    enum { SHORT = 1024 }; /* floats */
    bool is_short = f->n_rows == 1 || f->n_rows * f->config->hidden_size <= SHORT;
    return f->n_parts > 1 && (cut == BY_COLUMNS || (cut == BY_ROWS && !is_short));
}

static void run_part(void *arg, const struct tr_pool_part *part)
{
    struct tr_forward *f = arg;
    struct worker *w = &f->workers[part->tid];
    w->part = part->i;
    w->n_parts = part->n;
    f->work(w);
}

/* NULL: the time is not told. */
static int64_t *account_of(struct tr_forward *f, const struct phase *p)
{
    if (!p || p->account == UNTOLD)
        return NULL;
    if (p->account == MLP)
        return &f->times.mlp;
    return f->config->kind[f->layer] == TR_LOCAL ? &f->times.local : &f->times.global;
}

/* A phase begins: the time since another account was opened goes to that one. */
static void spend(struct tr_forward *f, int64_t *account)
{
    if (account == f->account)
        return;
    int64_t now = tr_clock_ns();
    if (f->account)
        *f->account += now - f->clock;
    f->account = account;
    f->clock = now;
}

/* Does what needs no other thread, up to the next phase that is cut. */
static tr_pool_fn next_phase(void *arg, int tid)
{
    struct tr_forward *f = arg;
    for (;;) {
        const struct phase *p = step_on(f);
        spend(f, account_of(f, p));
        if (!p)
            return NULL;
        f->work = p->work;
        if (atomic_load_explicit(f->ticket, memory_order_relaxed) > 0)
            atomic_store_explicit(f->ticket, 0, memory_order_relaxed);
        if (is_cut(f, p->cut))
            return run_part;
        run_part(f, &(struct tr_pool_part){.tid = tid, .n = 1});
    }
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
    f->layer = 0;
    f->phase = -1;
}

void tr_forward_run(struct tr_forward *f, const struct tr_batch *batch, int *ret_head_rows)
{
    flatten(f, batch);
    f->counts_load = f->n_runs++ % LOAD_EVERY == 0;
    f->n_parts = tr_pool_parts(f->pool);
    if (f->n_rows)
        tr_pool_run_phases(f->pool, next_phase, f);
    *ret_head_rows = f->n_head_rows;
}

struct tr_forward_times tr_forward_times(const struct tr_forward *f)
{
    return f->times;
}

uint64_t tr_forward_expert_bytes(const struct tr_forward *f)
{
    return f->expert_bytes;
}

const float *tr_forward_expert_load(const struct tr_forward *f)
{
    return f->load_ratio;
}

void tr_forward_set_probe(struct tr_forward *f, const struct tr_forward_probe *probe)
{
    f->probe = probe ? *probe : (struct tr_forward_probe){0};
}
