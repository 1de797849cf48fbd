/* What engine/view.h tells, drawn by the engine thread. */
#include "engine/view.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "engine/checkpoint/survey.h"
#include "engine/machine/machine.h"
#include "engine/machine/pool.h"
#include "engine/machine/sweep.h"
#include "engine/run/run.h"

enum {
    IS_NEW = 4, /* the reader has not seen the drawing that changes hands; added to its place */
    MOST_AREAS = 4096, /* of the weights are read to find out how fast that is */
    LIMITS = 5
};
#define LIMIT_NS INT64_C(5000000000)

/* ---- hand-over ---- */

void tr__view_init(struct view *v)
{
    v->mine = 0;
    v->theirs = 1;
    atomic_init(&v->between, 2);
}

void tr_engine_look(struct tr_engine *e)
{
    tr__inbox_look(&e->inbox);
}

const struct tr_engine_view *tr_engine_view(struct tr_engine *e)
{
    struct view *v = &e->view;
    if (atomic_load(&v->between) & IS_NEW)
        v->theirs = atomic_exchange(&v->between, v->theirs) & ~IS_NEW;
    return &v->drawings[v->theirs];
}

bool tr_engine_layer_is_global(const struct tr_engine *e, int layer)
{
    return e->weights->config.kind[layer] == TR_GLOBAL;
}

/* ---- steps ---- */

void tr__view_step(struct tr_engine *e, const struct tr_engine_stats *before, int64_t ns, int n)
{
    e->view.steps[e->now.steps % TR_VIEW_STEPS] = (struct tr_view_step){
        .number = e->now.steps,
        .end_ns = tr_clock_ns(),
        .ns = ns,
        .prefill_rows = (int)(e->now.prefill_rows - before->prefill_rows),
        .decode_rows = (int)(e->now.decode_rows - before->decode_rows),
        .sequences = n,
    };
}

void tr__view_reads(struct tr_engine *e, int n_spans, bool head)
{
    const struct tr_matrix *m = &e->weights->head;
    const struct tr_engine_info *info = &e->info;
    e->view.read_bytes += info->step_bytes - (head ? 0 : tr_packed_bytes(m->type, m->n, m->k));
    for (int i = 0; i < n_spans; i++) {
        int64_t end = e->spans[i].pos0 + e->spans[i].n;
        int64_t seen = TR_MIN(end, (int64_t)info->window + e->spans[i].n - 1);
        e->view.read_bytes += (uint64_t)seen * info->local_bytes_per_token +
                              (uint64_t)end * info->global_bytes_per_token;
    }
}

/* ---- the limit ---- */

static void add_area(struct tr_area *areas, int *n, const struct tr_matrix *m)
{
    if (m->n == 0 || m->type == TR_W_F32 || *n == MOST_AREAS) /* F32 may lie in a file still */
        return;
    areas[(*n)++] = (struct tr_area){m->data, tr_packed_bytes(m->type, m->n, m->k)};
}

static void add_mlp(struct tr_area *areas, int *n, const struct tr_mlp *mlp)
{
    add_area(areas, n, &mlp->gate);
    add_area(areas, n, &mlp->up);
    add_area(areas, n, &mlp->down);
}

double tr__measure_limit(const struct tr_engine *e)
{
    const struct tr_model_config *c = &e->weights->config;
    struct tr_area *areas = calloc(MOST_AREAS, sizeof *areas);
    int n = 0;
    for (int i = 0; areas && i < c->n_layers; i++) {
        const struct tr_layer *l = &e->weights->layers[i];
        add_area(areas, &n, &l->q);
        add_area(areas, &n, &l->o);
        add_mlp(areas, &n, &l->mlp);
        for (int x = 0; l->experts && x < c->n_experts; x++)
            add_mlp(areas, &n, &l->experts[x]);
    }
    double limit = areas ? tr_sweep(e->pool, areas, n) : 0;
    free(areas);
    return limit;
}

/* While others use the machine it looks slow: it is measured some times more, the best counts. */
static void learn_limit(struct tr_engine *e)
{
    struct view *v = &e->view;
    int64_t now = tr_clock_ns();
    bool idle = v->number && tr_list_empty(&e->inbox.live); /* the first is drawn at the start */
    if (!idle || v->n_limits == LIMITS || (v->n_limits && now - v->limit_ns < LIMIT_NS))
        return;
    v->n_limits++;
    v->limit_ns = now;
    e->now.run.read_limit = TR_MAX(e->now.run.read_limit, tr__measure_limit(e));
}

/* ---- drawing ---- */

static enum tr_view_state state_of(const struct tr_seq *seq)
{
    if (seq->paused)
        return TR_VIEW_PAUSED;
    if (!seq->running)
        return TR_VIEW_WAITING;
    return seq->n_ids - seq->n_computed > 1 || seq->n_computed < seq->n_prompt ? TR_VIEW_PREFILL
                                                                               : TR_VIEW_DECODE;
}

static void draw_sequence(struct tr_view_sequence *ret, const struct request *r, int choice)
{
    const struct tr_seq *seq = &r->choices[choice].seq;
    *ret = (struct tr_view_sequence){
        .id = r->id,
        .choice = choice,
        .state = state_of(seq),
        .prompt = seq->n_prompt,
        .cached = seq->n_cached,
        .computed = seq->n_computed,
        .tokens = TR_MAX(seq->n_ids, seq->n_prompt),
        .most = seq->max_ids,
        .first_local = (int)seq->local.table.first,
        .local_pages = seq->local.table.n,
        .global_pages = seq->global.table.n,
    };
}

static void draw_sequences(const struct tr_engine *e, struct tr_engine_view *v)
{
    v->n_sequences = v->n_open = 0;
    for (int running = 1; running >= 0; running--)
        TR_LIST_EACH(struct request, r, &e->inbox.live)
            for (int i = 0; i < r->n; i++) {
                if (!r->choices[i].open || r->choices[i].seq.running != running)
                    continue;
                if (v->n_sequences < TR_VIEW_SEQUENCES)
                    draw_sequence(&v->sequences[v->n_sequences++], r, i);
                v->n_open++;
            }
}

static void draw_steps(const struct tr_engine *e, struct tr_engine_view *v)
{
    uint64_t steps = e->now.steps;
    v->n_steps = (int)TR_MIN(steps, (uint64_t)TR_VIEW_STEPS);
    for (int i = 0; i < v->n_steps; i++)
        v->steps[i] = e->view.steps[(steps - (uint64_t)(v->n_steps - 1 - i)) % TR_VIEW_STEPS];
}

void tr__view_draw(struct tr_engine *e)
{
    struct tr_engine_view *v = &e->view.drawings[e->view.mine];
    struct tr_forward_times spent = tr_forward_times(e->forward);
    learn_limit(e);
    v->number = ++e->view.number;
    v->now_ns = tr_clock_ns();
    tr_engine_stats(e, &v->stats);
    v->times = e->view.times;
    v->times.steps = (int64_t)v->stats.step_ns;
    v->times.local = spent.local;
    v->times.global = spent.global;
    v->times.mlp = spent.mlp;
    v->times.head = spent.head;
    v->read_bytes = e->view.read_bytes + e->now.expert_bytes;
    v->local_page_bytes = e->limits.local_page_cost;
    v->global_page_bytes = e->limits.global_page_cost;
    v->local = *tr_local_map(e->pages);
    v->global = *tr_global_map(e->pages);
    draw_sequences(e, v);
    draw_steps(e, v);
    e->view.mine = atomic_exchange(&e->view.between, e->view.mine | IS_NEW) & ~IS_NEW;
}

int tr_engine_survey(const char *model, enum tr_weights_choice weights, tr_tensor_fn fn, void *arg,
                     struct tr_err *err)
{
    struct tr_pool *pool = NULL;
    int r = tr_pool_open(&pool, tr_default_threads(TR_CGROUP_ROOT), err);
    if (r == 0)
        r = tr_survey(model, weights, pool, fn, arg, err);
    tr_pool_close(pool);
    return r;
}
