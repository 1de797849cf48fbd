/*
 * SwiGLU MLPs: dense in the first layers, then a sigmoid router over experts beside a shared
 * expert.
 *
 * Scores are sigmoid(W_r h) in fp32. The k largest of score + bias are chosen (ties: lowest
 * expert); the bias has no other use. Weights are the plain scores of the chosen, divided by their
 * sum, times route_scale; the shared expert is not scaled. The batch's rows are grouped by expert
 * so that each expert's weights are read once; every (row, rank) result has its own slot, and a row
 * sums its slots in order of rank, so order of arrival can't matter.
 */
#include "engine/forward/forward_internal.h"

#include <string.h>

#include "engine/checkpoint/cost.h"
#include "engine/kernels/math.h"

/* act = SwiGLU(gate, up) of rows [begin, end), in the form that `down` reads. */
static void swiglu_rows(const struct worker *w, const struct tr_mlp *mlp, int begin, int end)
{
    struct tr_forward *f = w->f;
    struct tr_rows act = f->act;
    act.k = mlp->down.k;
    size_t stride = (size_t)tr_rows_stride(act.k);
    for (int r = begin; r < end; r++) {
        f->kn->swiglu(f->gate + (size_t)r * f->sm, f->up + (size_t)r * f->sm, act.k,
                      act.f32 + (size_t)r * stride);
        tr_rows_prepare(f->kn, &act, r, tr_wtype_form(mlp->down.type));
    }
}

static void project_down(const struct worker *w, const struct tr_mlp *mlp)
{
    struct tr_rows act = w->f->act;
    act.k = mlp->down.k;
    project(w, &mlp->down, &act, w->f->branch, w->f->sd);
}

static void project_up(const struct worker *w, const struct tr_mlp *mlp)
{
    struct tr_forward *f = w->f;
    project(w, &mlp->gate, &f->h, f->gate, f->sm);
    project(w, &mlp->up, &f->h, f->up, f->sm);
    warm(w, &mlp->down);
}

/* What is read first behind the layer. */
static void warm_next(const struct worker *w)
{
    const struct tr_weights *weights = w->f->weights;
    warm(w, w->f->layer + 1 < weights->config.n_layers ? &layer_of(w)[1].q : &weights->head);
}

void tr__dense_up(const struct worker *w)
{
    project_up(w, &layer_of(w)->mlp);
}

void tr__dense_act(const struct worker *w)
{
    int begin;
    int end;
    share(w, w->f->n_rows, &begin, &end);
    swiglu_rows(w, &layer_of(w)->mlp, begin, end);
}

void tr__dense_down(const struct worker *w)
{
    project_down(w, &layer_of(w)->mlp);
    warm_next(w);
}

/* Router and, beside it, the shared expert's first half. */
void tr__route(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    int begin;
    int end;
    share(w, f->config->n_experts, &begin, &end);
    if (l->router_bf16)
        f->kn->router_bf16(l->router_bf16, f->config->hidden_size, begin, end, f->h.f32, f->sd,
                           f->n_rows, f->scores, f->se);
    else
        f->kn->router_f32(l->router_f32, f->config->hidden_size, begin, end, f->h.f32, f->sd,
                          f->n_rows, f->scores, f->se);
    if (l->mlp.gate.n)
        project_up(w, &l->mlp);
}

/* The k best experts of a row and their weights, by falling biased score. */
static void choose(const struct tr_forward *f, const struct tr_layer *l, int row)
{
    const struct tr_model_config *c = f->config;
    float *score = f->scores + (size_t)row * f->se;
    int32_t *chosen = f->chosen + (size_t)row * c->n_active;
    float *weight = f->chosen_weight + (size_t)row * c->n_active;
    float best[TR_MAX_TOPK];
    float sum = 0.0F;
    int n = 0;

    f->kn->sigmoid(score, c->n_experts);
    for (int e = 0; e < c->n_experts; e++) {
        float biased = score[e] + l->expert_bias[e];
        if (n == c->n_active && !(biased > best[n - 1]))
            continue;
        int at = n < c->n_active ? n++ : n - 1;
        for (; at > 0 && biased > best[at - 1]; at--) {
            best[at] = best[at - 1];
            chosen[at] = chosen[at - 1];
        }
        best[at] = biased;
        chosen[at] = e;
    }
    for (int rank = 0; rank < c->n_active; rank++) {
        weight[rank] = score[chosen[rank]];
        sum += weight[rank];
    }
    for (int rank = 0; rank < c->n_active; rank++) {
        if (c->route_norm)
            weight[rank] /= sum + 1e-20F;
        weight[rank] *= c->route_scale;
    }
}

/* Experts of this part's rows, and the shared one's SwiGLU. */
void tr__choose(const struct worker *w)
{
    const struct tr_layer *l = layer_of(w);
    int begin;
    int end;
    share(w, w->f->n_rows, &begin, &end);
    for (int r = begin; r < end; r++)
        choose(w->f, l, r);
    if (l->mlp.gate.n)
        swiglu_rows(w, &l->mlp, begin, end);
}

/* slots [n_experts] of this pass. */
static void count_load(struct tr_forward *f, const int *slots)
{
    int n = f->config->n_experts;
    float *load = f->load + (size_t)f->layer * (size_t)n;
    float sum = 0, most = 0;
    for (int e = 0; e < n; e++) {
        load[e] += (float)slots[e];
        sum += load[e];
        most = TR_MAX(most, load[e]);
    }
    f->load_ratio[f->layer] = most * (float)n / sum;
    for (int e = 0; e < n && sum > LOAD_SLOTS; e++)
        load[e] *= 0.5F;
}

/* Slots by expert, rows ascending within one: counting sort of (row, rank). */
void tr__group(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    int n = f->n_rows * f->config->n_active;
    int *begin = f->expert_begin;
    memset(begin, 0, ((size_t)f->config->n_experts + 1) * sizeof *begin);
    for (int i = 0; i < n; i++)
        begin[f->chosen[i]]++;
    if (f->counts_load)
        count_load(f, begin);
    int at = 0;
    for (int e = 0; e <= f->config->n_experts; e++) {
        f->expert_bytes += begin[e] ? tr_mlp_bytes(&l->experts[e]) : 0;
        at += begin[e];
        begin[e] = at; /* the end, walked back below */
    }
    for (int i = n - 1; i >= 0; i--) {
        int s = --begin[f->chosen[i]];
        f->slot_row[s] = i / f->config->n_active;
        f->slot[i] = s;
    }
}

/* The forms of the rows that an expert reads. Its matrices, and other experts, may be of any
 * types. */
static unsigned in_forms(const struct tr_mlp *e)
{
    return tr_wtype_form(e->gate.type) | tr_wtype_form(e->up.type);
}

static void gather(const struct tr_forward *f, const int32_t *rows, int n, unsigned forms,
                   struct tr_rows *in)
{
    size_t sd = f->sd;
    for (int i = 0; i < n; i++) {
        size_t from = (size_t)rows[i];
        if (forms & TR_FORM_F32)
            memcpy(in->f32 + i * sd, f->h.f32 + from * sd, sd * sizeof *in->f32);
        if (forms & TR_FORM_BF16)
            memcpy(in->bf16 + i * sd, f->h.bf16 + from * sd, sd * sizeof *in->bf16);
        if (forms & TR_FORM_Q8) {
            size_t blocks = sd / 32;
            memcpy(in->q8 + i * sd, f->h.q8 + from * sd, sd);
            memcpy(in->q8_scale + i * blocks, f->h.q8_scale + from * blocks,
                   blocks * sizeof *in->q8_scale);
            memcpy(in->q8_sum + i * blocks, f->h.q8_sum + from * blocks,
                   blocks * sizeof *in->q8_sum);
        }
    }
}

/* The first expert from e on that has rows; n_experts if there is none. */
static int next_chosen(const struct tr_forward *f, int e)
{
    while (e < f->config->n_experts && f->expert_begin[e] == f->expert_begin[e + 1])
        e++;
    return e;
}

/* One expert for its rows, whole, on this thread; `after`: what the thread will probably read then,
 * or NULL. */
static void run_expert(const struct worker *w, const struct tr_mlp *e, int begin, int end,
                       const struct tr_matrix *after)
{
    struct tr_forward *f = w->f;
    size_t width = (size_t)tr_rows_stride(e->gate.n);
    for (int s = begin; s < end; s += EXPERT_ROWS) {
        int m = TR_MIN(EXPERT_ROWS, end - s);
        struct tr_rows in = w->in;
        if (m == 1)
            in = tr_rows_at(&f->h, f->slot_row[s]);
        else
            gather(f, f->slot_row + s, m, in_forms(e), &in);
        tr_matmul_warm(&e->up, 0, 1);
        tr_matmul(f->kn, &e->gate, &in, m, w->gate, width, 0, 1, w->matmul);
        tr_matmul_warm(&e->down, 0, 1);
        tr_matmul(f->kn, &e->up, &in, m, w->up, width, 0, 1, w->matmul);
        for (int i = 0; i < m; i++) {
            f->kn->swiglu(w->gate + i * width, w->up + i * width, e->gate.n,
                          w->act.f32 + i * width);
            tr_rows_prepare(f->kn, &w->act, i, tr_wtype_form(e->down.type));
        }
        const struct tr_matrix *next = s + m < end ? &e->gate : after;
        if (next)
            tr_matmul_warm(next, 0, 1);
        tr_matmul(f->kn, &e->down, &w->act, m, f->slots + (size_t)s * f->sd, f->sd, 0, 1,
                  w->matmul);
    }
}

/* The shared expert's second half, then whole experts as they are asked for. */
void tr__experts(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    int n = f->config->n_experts;
    if (l->mlp.gate.n)
        project_down(w, &l->mlp);
    for (int e; (e = take_ticket(w)) < n;) {
        if (f->expert_begin[e] == f->expert_begin[e + 1])
            continue;
        int after = next_chosen(f, atomic_load_explicit(f->ticket, memory_order_relaxed));
        run_expert(w, &l->experts[e], f->expert_begin[e], f->expert_begin[e + 1],
                   after < n ? &l->experts[after].gate : NULL);
    }
    warm_next(w);
}

/* Few rows: every part has its columns of each chosen expert, balanced however few there are. */
bool tr__experts_are_shared(const struct tr_forward *f)
{
    return f->n_rows <= FEW_ROWS && f->n_parts > 1 && f->weights->layers[f->layer].expert_panels;
}

/* Columns [c0, c1) of a panel matrix, c0 a multiple of 16. */
static void project_columns(const struct worker *w, const struct tr_matrix *m,
                            const struct tr_rows *x, int rows, int c0, int c1, float *y, size_t ldy)
{
    w->f->kn->gemm[m->type](m->data, m->k, c0 / 16, TR_CEIL_DIV(c1, 16), x, rows, y, ldy);
}

/* The shared expert's second half, and the others' first. */
void tr__few_experts_up(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    int columns = f->config->expert_width;
    size_t width = (size_t)tr_rows_stride(columns);
    int c0;
    int c1;
    share(w, TR_CEIL_DIV(columns, CUT), &c0, &c1);
    c0 *= CUT;
    c1 = TR_MIN(c1 * CUT, columns);
    if (l->mlp.gate.n)
        project_down(w, &l->mlp);
    int n = f->config->n_experts;
    int first = next_chosen(f, 0);
    for (int e = first, after; e < n && c0 < c1; e = after) {
        int begin = f->expert_begin[e];
        int m = f->expert_begin[e + 1] - begin;
        const struct tr_mlp *expert = &l->experts[e];
        struct tr_rows in = w->in;
        after = next_chosen(f, e + 1);
        warm(w, &expert->up);
        if (m == 1)
            in = tr_rows_at(&f->h, f->slot_row[begin]);
        else
            gather(f, f->slot_row + begin, m, in_forms(expert), &in);
        float *gate = f->few_gate + begin * width;
        float *up = f->few_up + begin * width;
        project_columns(w, &expert->gate, &in, m, c0, c1, gate, width);
        warm(w, after < n ? &l->experts[after].gate : &l->experts[first].down);
        project_columns(w, &expert->up, &in, m, c0, c1, up, width);
        for (int i = 0; i < m; i++) {
            f->kn->swiglu(gate + i * width + c0, up + i * width + c0, c1 - c0,
                          f->few_act.f32 + (begin + i) * width + c0);
            prepare_columns(w, &f->few_act, begin + i, c0, c1, tr_wtype_form(expert->down.type));
        }
    }
}

void tr__few_experts_down(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    int n = f->config->n_experts;
    for (int e = next_chosen(f, 0), after; e < n; e = after) {
        int begin = f->expert_begin[e];
        int m = f->expert_begin[e + 1] - begin;
        struct tr_rows act = tr_rows_at(&f->few_act, begin);
        after = next_chosen(f, e + 1);
        if (after < n)
            warm(w, &l->experts[after].down);
        tr_matmul(f->kn, &l->experts[e].down, &act, m, f->slots + (size_t)begin * f->sd, f->sd,
                  w->part, w->n_parts, w->matmul);
    }
    warm_next(w);
}

/* branch = shared + sum over ranks of weight * slot, for this part's rows. */
void tr__combine(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    const struct tr_model_config *c = f->config;
    int begin;
    int end;
    share(w, f->n_rows, &begin, &end);
    for (int r = begin; r < end; r++) {
        float *y = f->branch + (size_t)r * f->sd;
        if (!l->mlp.gate.n) /* no shared expert */
            memset(y, 0, (size_t)c->hidden_size * sizeof *y);
        const float *results[TR_MAX_TOPK];
        size_t first = (size_t)r * c->n_active;
        for (int rank = 0; rank < c->n_active; rank++)
            results[rank] = f->slots + (size_t)f->slot[first + rank] * f->sd;
        f->kn->combine(f->chosen_weight + first, results, c->n_active, y, c->hidden_size);
    }
}
