/* The engine thread: apply wishes, plan, compute, sample, deliver, publish; or sleep. */
#include <malloc.h>

#include "config/clock.h"
#include "engine/run/run.h"

/* An idle engine turns at least this often, so that its heartbeat shows that it lives. */
#define IDLE_NS INT64_C(1000000000)

enum { FLOPS_PER_BYTE = 10 }; /* that a processor computes while it reads one: of the order of */

static struct choice *choice_of(struct tr_seq *seq)
{
    return TR_CONTAINER_OF(seq, struct choice, seq);
}

/* Ends what is canceled, late or broken. Returns the earliest deadline that is left. */
static int64_t end_requests(struct tr_engine *e)
{
    int64_t now = tr_clock_ns();
    int64_t next = now + IDLE_NS;
    TR_LIST_EACH_SAFE(struct request, r, &e->inbox.live) {
        bool late = r->job->deadline_ns && r->job->deadline_ns <= now;
        if (r->job->deadline_ns && !late)
            next = TR_MIN(next, r->job->deadline_ns);
        for (int i = 0, left = r->n_open; left; i++) {
            struct choice *c = &r->choices[i];
            if (!c->open)
                continue;
            left--; /* with the last one the request goes */
            enum tr_finish f = c->stop       ? TR_FINISH_CANCELED
                               : r->err.code ? TR_FINISH_ERROR
                               : late        ? TR_FINISH_DEADLINE
                                             : TR_FINISH_NONE;
            if (f != TR_FINISH_NONE)
                tr__finish(e, c, f, -1);
        }
    }
    return next;
}

static void announce(struct tr_engine *e)
{
    TR_LIST_EACH_SAFE(struct request, r, &e->inbox.live) {
        if (!r->admit_ns && r->choices[0].seq.running)
            tr__deliver_admitted(e, r);
    }
}

/* Guesses behind the last token of every sequence that decodes. */
static void draft(struct tr_engine *e)
{
    TR_LIST_EACH(struct request, r, &e->inbox.live)
        for (int i = 0; i < r->n; i++) {
            struct tr_seq *seq = &r->choices[i].seq;
            bool decodes =
                seq->running && seq->n_ids > seq->n_prompt && seq->n_ids - seq->n_computed == 1;
            int max = TR_MAX(TR_MIN(seq->room - seq->n_ids - 1, TR_MAX_DRAFTS), 0);
            seq->n_drafts =
                decodes ? tr_ngram_draft(&r->choices[i].drafts, seq->ids, seq->n_ids, max) : 0;
        }
}

/* What the planned rows of a sequence are for. */
static struct head_rows head_rows(const struct tr_seq *seq, struct choice *c)
{
    const struct request *r = c->request;
    int end = seq->n_computed + seq->planned;
    int scored = c->index == 0 && r->job->prompt_logprobs >= 0 ? r->n_scored : seq->n_prompt;
    struct head_rows h = {.choice = c, .position = end};
    bool complete = end - seq->n_drafts == seq->n_ids;
    h.sample = complete && seq->n_ids < seq->max_ids;
    h.first = c->index == 0 && c->n_tokens == 0;
    if (h.sample)
        h.position = seq->n_ids - 1;
    if (scored < seq->n_prompt)
        h.position = TR_MIN(h.position, TR_MAX(scored - 1, seq->n_computed));
    h.n_score = (int)TR_MAX(TR_MIN(end, seq->n_prompt - 1) - h.position, 0);
    h.n_tail = (int)(end - h.position) - h.n_score;
    return h;
}

/* The request ends before the next step. */
static void lack_memory(struct request *r)
{
    tr_err_set(&r->err, TR_ENOMEM, NULL, "out of memory");
}

/* Whether all that is planned has its buffers. */
static bool prepare(struct tr_engine *e, const struct tr_plan *plan)
{
    bool ready = true;
    for (int i = 0; i < plan->n; i++) {
        struct choice *c = choice_of(plan->seqs[i]);
        if (tr__choice_prepare(e, c) == 0)
            continue;
        lack_memory(c->request);
        ready = false;
    }
    if (plan->failed)
        TR_LIST_EACH(struct request, r, &e->inbox.live)
            for (int i = 0; i < r->n; i++)
                if (r->choices[i].seq.failed) {
                    lack_memory(r);
                    ready = false;
                }
    return ready;
}

/* The prompt is computed: its other samples begin. */
static void fork_choices(struct tr_engine *e, struct choice *c)
{
    struct request *r = c->request;
    for (int i = 1; i < r->n && c->seq.n_forks; i++)
        if (r->choices[i].open && !r->choices[i].entered) {
            r->choices[i].entered = true;
            tr_schedule_fork(e->schedule, &c->seq, &r->choices[i].seq);
            if (r->choices[i].seq.running && tr__choice_prepare(e, &r->choices[i]) < 0)
                lack_memory(r);
        }
    if (!c->open)
        tr__leave(e, c);
}

static void count_rows(struct tr_engine *e, const struct tr_seq *seq, struct request *r)
{
    int prompt = TR_MIN(seq->n_computed + seq->planned, seq->n_prompt) - seq->n_computed;
    prompt = TR_MAX(prompt, 0);
    r->usage.prefill_computed += prompt;
    bool decode =
        seq->n_ids - seq->n_computed <= 1 + seq->n_ahead && seq->n_computed >= seq->n_prompt;
    e->now.decode_rows += decode ? (uint64_t)seq->planned : 0;
    e->now.prefill_rows += decode ? 0 : (uint64_t)seq->planned;
}

static void run_step(struct tr_engine *e, const struct tr_plan *plan)
{
    struct tr_engine_stats before = e->now;
    int64_t start = tr_clock_ns();
    int n = plan->n;
    int rows = plan->rows;
    for (int i = 0; i < n; i++) {
        struct tr_seq *seq = plan->seqs[i];
        struct choice *c = choice_of(seq);
        if (c->request->job->prompt_logprobs >= 0 && c->request->n_scored == 0)
            tr__deliver_first_prompt_token(e, c->request);
        e->heads[i] = head_rows(seq, c);
        e->spans[i] = (struct tr_span){.tokens = seq->ids + seq->n_computed,
                                       .n = seq->planned,
                                       .pos0 = seq->n_computed,
                                       .local = &seq->local,
                                       .global = &seq->global,
                                       .head_rows = e->heads[i].n_score + e->heads[i].n_tail};
        count_rows(e, seq, c->request);
    }
    int n_head_rows;
    struct tr_batch batch = {.spans = e->spans, .n_spans = n};
    tr_pace_begin(&e->pace, rows);
    tr_forward_run(e->forward, &batch, &n_head_rows);
    e->now.steps++;
    e->now.rows += (uint64_t)rows;
    e->now.expert_bytes = tr_forward_expert_bytes(e->forward);
    tr__view_reads(e, n, n_head_rows > 0);

    for (int i = 0; i < n; i++) {
        struct choice *c = e->heads[i].choice;
        tr_schedule_advance(e->schedule, &c->seq, c->seq.planned - c->seq.n_drafts);
        if (c->index == 0)
            tr__count_prompt(e, c->request);
        if (c->seq.n_forks && c->seq.n_computed == c->seq.n_prompt)
            fork_choices(e, c);
    }
    int64_t sampling = tr_clock_ns() - tr_forward_times(e->forward).head;
    tr__sample_step(e, n, rows);
    int64_t end = tr_clock_ns();
    e->view.times.sample += end - tr_forward_times(e->forward).head - sampling;
    tr_pace_end(&e->pace, rows,
                (double)e->info.step_bytes + (double)e->info.token_flops * rows / FLOPS_PER_BYTE);
    tr__count_step(e, &before, end - start, n);
    e->worked_ns = end;
}

/* Prompts that were to be computed only. */
static void end_prompts(struct tr_engine *e)
{
    TR_LIST_EACH_SAFE(struct request, r, &e->inbox.live) {
        const struct tr_seq *seq = &r->choices[0].seq;
        if (seq->max_ids > seq->n_prompt || seq->n_computed < seq->n_prompt || r->err.code)
            continue;
        for (int i = 0, left = r->n_open; left; i++)
            if (r->choices[i].open) {
                left--;
                tr__finish(e, &r->choices[i], TR_FINISH_LENGTH, -1);
            }
    }
}

static void publish(struct tr_engine *e)
{
    struct tr_engine_stats *s = &e->now;
    struct tr_schedule_counts counts = tr_schedule_counts(e->schedule);
    struct tr_page_counts local = tr_local_counts(e->pages);
    struct tr_page_counts global = tr_global_counts(e->pages);
    s->waiting = counts.waiting;
    s->running = counts.running;
    s->paused = counts.paused;
    s->local_pages_used = local.used;
    s->local_pages_cached = local.cached;
    s->local_pages_total = local.total;
    s->run.local.evicted = local.evicted;
    s->run.local.reused = local.reused;
    s->global_pages_used = global.used;
    s->global_pages_cached = global.cached;
    s->global_pages_total = global.total;
    s->run.global.evicted = global.evicted;
    s->run.global.reused = global.reused;
    s->preemptions = counts.preemptions;
    tr_pages_checks(e->pages, &s->page_mismatches, &s->verified_hits);
    s->queued_prompt_tokens = counts.prompt_left;
    s->queued_decode_tokens = (uint64_t)((counts.waiting + counts.running) * e->answer_tokens);
    s->heartbeat_ns = tr_clock_ns();
    pthread_mutex_lock(&e->stats_mutex);
    e->stats = *s;
    e->stats.choice_bytes += counts.buffer_bytes;
    pthread_mutex_unlock(&e->stats_mutex);
}

/* Sleeps. Once no work came for a while, the heap's free memory goes back to the system. */
static void rest(struct tr_engine *e, int64_t until)
{
    if (tr__inbox_wait(&e->inbox, until) || !e->worked || !tr_list_empty(&e->inbox.live) ||
        tr_clock_ns() - e->worked_ns < IDLE_NS)
        return;
    e->worked = false;
    malloc_trim(0);
}

void *tr__engine_thread(void *engine)
{
    struct tr_engine *e = engine;
    tr_fp_enter();
    tr__view_draw(e);
    for (;;) {
        bool open = tr__inbox_apply(e);
        int64_t until = end_requests(e);
        if (!open)
            break;
        if (e->options.speculation)
            draft(e);
        const struct tr_plan *plan = tr_schedule_plan(e->schedule);
        bool idle = plan->n == 0;
        announce(e);
        tr__inbox_set_seats(&e->inbox, plan->blocked ? 0 : tr_schedule_counts(e->schedule).seats);
        if (!prepare(e, plan))
            continue; /* who lacks memory ends first */
        if (!idle)
            run_step(e, plan);
        end_prompts(e);
        publish(e);
        if (idle)
            rest(e, until);
        e->worked |= !idle;
    }
    publish(e);
    return NULL;
}
