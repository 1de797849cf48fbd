/* From head rows to tokens: the output head runs over groups of rows, the sampler over all
 * threads. */
#include <string.h>

#include "config/clock.h"
#include "engine/run/run.h"

/* One token of a constrained choice; 1: there is none. */
static int sample_bound(struct tr_engine *e, int tid, struct sample_work *w, const float *logits,
                        struct tr_sample *ret)
{
    struct choice *c = w->choice;
    struct tr_grammar_mask *m = &e->masks[tid];
    int64_t begin = tr_clock_ns();
    int r = tr__constrain_mask(e, c, m, &w->why);
    w->mask_ns += tr_clock_ns() - begin;
    int32_t only = r == 0 && !c->unbound ? tr_grammar_mask_forced(m) : -1;
    if (only >= 0 && tr_choice_takes(c->sampling, only))
        *ret = (struct tr_sample){.id = only};
    else if (r == 0)
        r = tr_sample(e->samplers[tid], c->sampling, logits, m->bits, ret);
    return r ? r : tr__constrain_follow(e, c, ret->id, &w->why);
}

/* Samples a row, then, as long as the draft that follows was right, the next one. */
static void draw_rows(struct tr_engine *e, int tid, struct sample_work *w)
{
    struct choice *c = w->choice;
    const int32_t *drafts = c->seq.ids + c->seq.n_ids;
    while (w->n < w->n_rows) {
        const float *logits = tr_forward_logits(e->forward, w->row + w->n);
        struct tr_sample *sample = &w->samples[w->n];
        int r = c->grammar ? sample_bound(e, tid, w, logits, sample)
                           : tr_sample(e->samplers[tid], c->sampling, logits, NULL, sample);
        w->status = TR_MIN(r, 0);
        w->ended = r > 0;
        if (r)
            return;
        tr_choice_accept(c->sampling, sample->id);
        struct tr_top *top = w->top + (size_t)w->n * TR_MAX_LOGPROBS;
        if (sample->n_top)
            memcpy(top, sample->top, (size_t)sample->n_top * sizeof *top);
        sample->top = top;
        if (w->n++ == w->n_rows - 1 || drafts[w->n - 1] != sample->id)
            return;
    }
}

/* Adds what a constraint leaves no choice about, without rows of its own: they are computed with
 * the next one's. The mask that ends this is then remembered when it is needed. */
static void go_ahead(struct tr_engine *e, struct sample_work *w)
{
    struct choice *c = w->choice;
    int most = TR_MIN(1 + TR_MAX_DRAFTS, c->seq.room - c->seq.n_ids);
    const char *why; /* what can't be followed fails once it has a row of its own */
    for (;;) {
        int64_t begin = tr_clock_ns();
        int32_t id = tr__constrain_only(c);
        w->mask_ns += tr_clock_ns() - begin;
        if (id < 0 || w->n >= most || tr__constrain_follow(e, c, id, &why) < 0)
            return;
        tr_choice_accept(c->sampling, id);
        w->samples[w->n++] = (struct tr_sample){.id = id};
    }
}

static void sample_rows(struct tr_engine *e, int tid, struct sample_work *w)
{
    draw_rows(e, tid, w);
    w->n_drawn = w->n;
    if (w->choice->grammar && w->status == 0 && !w->ended)
        go_ahead(e, w);
}

static void score_row(struct tr_engine *e, struct tr_sampler *s, struct sample_work *w)
{
    const float *logits = tr_forward_logits(e->forward, w->row);
    struct tr_sample *sample = &w->samples[0];
    w->status =
        tr_sample_score(s, logits, w->score_id, w->choice->request->job->prompt_logprobs, sample);
    if (w->status == 0 && sample->n_top)
        memcpy(w->top, sample->top, (size_t)sample->n_top * sizeof *w->top);
    sample->top = w->top;
}

static void run_work(void *arg, const struct tr_pool_part *part)
{
    struct tr_engine *e = arg;
    tr_fp_enter();
    for (int i = part->i; i < e->n_work; i += part->n) {
        struct sample_work *w = &e->work[i];
        if (w->score_id >= 0)
            score_row(e, e->samplers[part->tid], w);
        else
            sample_rows(e, part->tid, w);
    }
}

/* The rows that wait for logits: [first, first + n) of the step's head rows. */
struct group {
    int first, n;
    int step_rows;
};

/* Where a constraint allows few ids, their logits are all that is wanted. */
static void choose_parts(struct tr_engine *e, int n_rows)
{
    memset(e->parts, 0, (size_t)n_rows * sizeof *e->parts);
    for (int i = 0; i < e->n_work; i++) {
        const struct sample_work *w = &e->work[i];
        struct tr_head_part *part = &e->parts[w->row];
        if (!w->choice->grammar || w->score_id >= 0 || w->n_rows > 1 || part->ids)
            continue; /* choices that share a row are at their text's begin: they want the same */
        int32_t *ids = e->part_ids + (size_t)w->row * TR_MASK_LIST;
        int64_t begin = tr_clock_ns();
        int n = tr__constrain_few(e, w->choice, ids);
        e->now.bound.mask_ns += (uint64_t)(tr_clock_ns() - begin);
        if (n >= 0)
            e->now.bound.part_rows++;
        if (n >= 0)
            *part = (struct tr_head_part){.ids = ids, .n = n};
    }
}

static void flush(struct tr_engine *e, struct group *g)
{
    if (g->n) {
        choose_parts(e, g->n);
        tr_forward_head(e->forward, g->first, g->n, e->parts);
        if (e->n_work)
            tr_pool_run(e->pool, run_work, e);
        int64_t now = tr_clock_ns();
        for (int i = 0; i < e->n_work; i++)
            tr__deliver(e, &e->work[i], now, g->step_rows);
    }
    g->first += g->n;
    g->n = 0;
    e->n_work = 0;
}

static void add_work(struct tr_engine *e, struct group *g, struct choice *c, int n_rows,
                     int32_t score_id)
{
    struct sample_work *w = &e->work[e->n_work++];
    *w = (struct sample_work){.choice = c,
                              .row = g->n,
                              .n_rows = n_rows,
                              .score_id = score_id,
                              .top = e->tops + (size_t)(w - e->work) * TOPS_PER_WORK};
}

/* Room in the group for n rows and one piece of work. */
static void make_room(struct tr_engine *e, struct group *g, int n)
{
    if (g->n + n > e->max_head_rows || e->n_work == e->max_work)
        flush(e, g);
}

/* Every open choice of the request that runs samples the row at the prompt's end. */
static void add_first_samples(struct tr_engine *e, struct group *g, struct request *r)
{
    for (int i = 0; i < r->n; i++) {
        if (!r->choices[i].open || !r->choices[i].sampling)
            continue;
        if (e->n_work == e->max_work) { /* then the same row once more */
            g->n++;
            flush(e, g);
            g->first--;
        }
        add_work(e, g, &r->choices[i], 1, -1);
    }
}

static void add_rows(struct tr_engine *e, struct group *g, const struct head_rows *h)
{
    struct choice *c = h->choice;
    struct request *r = c->request;
    for (int i = 0; i < h->n_score; i++) {
        make_room(e, g, 1);
        add_work(e, g, c, 1, r->job->prompt[h->position + i + 1]);
        g->n++;
    }
    if (h->n_tail == 0)
        return;
    make_room(e, g, h->n_tail);
    if (h->sample && h->first)
        add_first_samples(e, g, r);
    else if (h->sample)
        add_work(e, g, c, h->n_tail, -1);
    g->n += h->n_tail;
}

void tr__sample_step(struct tr_engine *e, int n_heads, int step_rows)
{
    struct group g = {.step_rows = step_rows};
    for (int i = 0; i < n_heads; i++)
        add_rows(e, &g, &e->heads[i]);
    flush(e, &g);
}
