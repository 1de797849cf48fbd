/* The engine's numbers: what steps and prompts came to. */
#include <string.h>

#include "engine/run/run.h"

static void smooth(double *mean, double value)
{
    *mean = *mean > 0 ? *mean + (value - *mean) * 0.1 : value;
}

static void observe(struct tr_step_histogram *h, double first, double value)
{
    int i = 0;
    for (double edge = first; i < TR_STEP_EDGES && value > edge; edge *= 2)
        i++;
    h->buckets[i]++;
    h->sum += value;
}

void tr__count_step(struct tr_engine *e, const struct tr_engine_stats *before, int64_t ns, int n)
{
    tr__view_step(e, before, ns, n);
    struct tr_engine_stats *s = &e->now;
    double seconds = (double)TR_MAX(ns, 1) * 1e-9;
    uint64_t prefill = s->prefill_rows - before->prefill_rows;
    uint64_t decode = s->decode_rows - before->decode_rows;
    uint64_t tokens = s->generated_tokens - before->generated_tokens;
    enum tr_step_kind kind = !prefill ? TR_STEP_DECODE : decode ? TR_STEP_MIXED : TR_STEP_PREFILL;
    s->step_ns += (uint64_t)ns;
    observe(&s->run.seconds[kind], TR_STEP_FIRST_SECONDS, seconds);
    observe(&s->run.rows[kind], TR_STEP_FIRST_ROWS, (double)(s->rows - before->rows));
    if (prefill > tokens)
        smooth(&s->prefill_tokens_per_second, (double)prefill / seconds);
    else if (tokens)
        smooth(&s->decode_tokens_per_second, (double)tokens / seconds);
    if (kind == TR_STEP_DECODE)
        smooth(&s->run.decode_bytes_a_second,
               (double)(e->info.step_bytes + s->expert_bytes - before->expert_bytes) / seconds);
    size_t layers = (size_t)TR_MIN(e->info.n_layers, (int)TR_ARRAY_LEN(s->run.expert_load));
    memcpy(s->run.expert_load, tr_forward_expert_load(e->forward),
           layers * sizeof *s->run.expert_load);
}

/* Where the prompt tokens that were not reused are told to be from. */
static void count_misses(struct tr_engine *e, const struct tr_seq *seq)
{
    uint64_t *missed = e->now.run.missed;
    int page = e->info.page_tokens;
    int left = seq->n_prompt - seq->n_cached;
    if (seq->recompute) {
        missed[TR_MISS_ROWS] += (uint64_t)left;
        return;
    }
    int rest = TR_MIN(left, seq->n_prompt - (seq->n_prompt - 1) / page * page);
    left -= rest;
    int window = TR_MAX(TR_MIN(left, (int)seq->branch - seq->n_cached), 0);
    left -= window;
    missed[TR_MISS_REST] += (uint64_t)rest;
    missed[TR_MISS_WINDOW] += (uint64_t)window;
    missed[seq->evicted ? TR_MISS_EVICTED : TR_MISS_NEW] += (uint64_t)left;
}

void tr__count_prompt(struct tr_engine *e, struct request *r)
{
    const struct tr_seq *seq = &r->choices[0].seq;
    if (r->counted || seq->n_computed < seq->n_prompt)
        return;
    r->counted = true;
    r->usage.cached_tokens = seq->n_cached;
    e->now.prompt_tokens += (uint64_t)seq->n_prompt;
    e->now.prefix_hits += (uint64_t)seq->n_cached;
    if (!seq->share)
        return;
    e->now.prefix_queries += (uint64_t)seq->n_prompt;
    count_misses(e, seq);
}

void tr__count_open(struct tr_engine *e)
{
    e->now.run.read_limit = tr__measure_limit(e);
    e->now.run.local.page_bytes = e->limits.local_page_cost;
    e->now.run.global.page_bytes = e->limits.global_page_cost;
    e->stats.run = e->now.run;
}
