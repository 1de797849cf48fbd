/* From results to events: tokens, ends, and what a job cost. */
#include <math.h>

#include "config/clock.h"
#include "engine/run/run.h"

static void emit(struct tr_engine *e, struct request *r, struct tr_event *event)
{
    event->id = r->id;
    event->user = r->job->user;
    e->options.on_event(e->options.event_arg, event);
}

void tr__deliver_admitted(struct tr_engine *e, struct request *r)
{
    r->admit_ns = tr_clock_ns();
    r->usage.queue_ns = r->admit_ns - r->submit_ns;
    r->usage.cached_tokens = r->choices[0].seq.n_cached;
    tr__inbox_admitted(&e->inbox, r);
    struct tr_event event = {.kind = TR_EVENT_ADMITTED, .stop_id = -1, .usage = &r->usage};
    emit(e, r, &event);
}

/* The prompt's first token has no logprob, but a place in the list. */
void tr__deliver_first_prompt_token(struct tr_engine *e, struct request *r)
{
    struct tr_event event = {
        .kind = TR_EVENT_PROMPT, .token = r->job->prompt[0], .logprob = NAN, .stop_id = -1};
    emit(e, r, &event);
    r->n_scored = 1;
}

static void finish_request(struct tr_engine *e, struct request *r)
{
    e->now.finished[r->first_finish]++;
    if (r->usage.completion_tokens) {
        double n = r->usage.completion_tokens / (double)r->n;
        e->answer_tokens += (n - e->answer_tokens) * 0.1;
    }
    struct tr_usage *u = &r->usage;
    u->prefill_ns = r->first_ns && r->admit_ns ? r->first_ns - r->admit_ns : 0;
    u->decode_ns = r->last_ns - r->first_ns;
    struct tr_event event = {.kind = TR_EVENT_DONE,
                             .finish = r->first_finish,
                             .stop_id = -1,
                             .usage = u,
                             .err = r->err.code ? &r->err : NULL};
    tr__inbox_remove(&e->inbox, r);
    emit(e, r, &event);
    tr__request_free(r);
}

void tr__finish(struct tr_engine *e, struct choice *c, enum tr_finish finish, int32_t stop_id)
{
    struct request *r = c->request;
    struct choice *first = &r->choices[0];
    c->open = false;
    if (c->seq.open_ended && c->n_tokens)
        tr__learn_length(e, c->n_tokens);
    if (c->index == 0)
        r->first_finish = finish;
    else if (!c->entered)
        first->seq.n_forks--; /* it will not be forked */
    struct tr_event event = {.kind = TR_EVENT_CHOICE_DONE,
                             .choice = c->index,
                             .finish = finish,
                             .stop_id = stop_id,
                             .err = finish == TR_FINISH_ERROR ? &r->err : NULL};
    emit(e, r, &event);
    /* The first sequence stays while others are to be forked off it. */
    if (c->index)
        tr__leave(e, c);
    if (!first->open && first->seq.n_forks == 0)
        tr__leave(e, first);
    if (--r->n_open == 0)
        finish_request(e, r);
}

static bool is_one_of(int32_t id, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* What the choice's newest token ends it with. */
static enum tr_finish finish_of(const struct tr_engine *e, const struct choice *c, int32_t id)
{
    const struct tr_job *job = c->request->job;
    if ((!job->ignore_eos || job->grammar) && is_one_of(id, e->eog, e->n_eog))
        return TR_FINISH_EOS;
    if (is_one_of(id, job->stop_ids, job->n_stop_ids))
        return TR_FINISH_STOP_ID;
    return c->seq.n_ids == c->seq.max_ids ? TR_FINISH_LENGTH : TR_FINISH_NONE;
}

static void deliver_score(struct tr_engine *e, const struct sample_work *w)
{
    struct request *r = w->choice->request;
    struct tr_event event = {.kind = TR_EVENT_PROMPT,
                             .position = r->n_scored,
                             .token = w->score_id,
                             .logprob = w->samples[0].logprob,
                             .top = w->samples[0].top,
                             .n_top = w->samples[0].n_top,
                             .stop_id = -1};
    r->n_scored++;
    emit(e, r, &event);
}

/* Appends one token. false: it ended the choice, which is gone. */
static bool deliver_token(struct tr_engine *e, struct choice *c, const struct tr_sample *s)
{
    struct request *r = c->request;
    c->seq.ids[c->seq.n_ids++] = s->id;
    enum tr_finish finish = finish_of(e, c, s->id);
    bool stopped = finish == TR_FINISH_STOP_ID || finish == TR_FINISH_EOS;
    r->usage.completion_tokens++;
    e->now.generated_tokens++;
    struct tr_event event = {.kind = TR_EVENT_TOKEN,
                             .choice = c->index,
                             .position = c->n_tokens++,
                             .token = s->id,
                             .logprob = s->logprob,
                             .top = s->top,
                             .n_top = s->n_top,
                             .finish = finish,
                             .stop_id = stopped ? s->id : -1};
    emit(e, r, &event);
    if (finish != TR_FINISH_NONE)
        tr__finish(e, c, finish, event.stop_id);
    return finish == TR_FINISH_NONE;
}

static void count_step(struct tr_engine *e, struct request *r, int64_t now, int rows)
{
    if (!r->first_ns)
        r->first_ns = now;
    r->last_ns = now;
    if (r->last_step == e->now.steps)
        return;
    r->last_step = e->now.steps;
    r->usage.decode_steps++;
    r->usage.batch_rows += rows;
}

/* Drafts that turned out right are computed already. */
static void deliver_drafts(struct tr_engine *e, struct choice *c, int drafts, int accepted)
{
    tr_ngram_learn(&c->drafts, drafts, accepted);
    c->request->usage.draft_tokens += drafts;
    c->request->usage.accepted_tokens += accepted;
    e->now.draft_tokens += (uint64_t)drafts;
    e->now.accepted_tokens += (uint64_t)accepted;
    if (accepted)
        tr_schedule_advance(e->schedule, &c->seq, accepted);
}

void tr__deliver(struct tr_engine *e, struct sample_work *w, int64_t now, int rows)
{
    struct choice *c = w->choice;
    struct request *r = c->request;
    e->now.bound.mask_ns += (uint64_t)w->mask_ns;
    if (r->err.code)
        return;
    if (w->status < 0) { /* the job ends before the next step */
        tr_err_set(&r->err, w->status, NULL, "%s",
                   w->why                   ? w->why
                   : w->status == TR_EINVAL ? "no token is allowed here"
                                            : "the model's output is not a number");
        return;
    }
    if (w->score_id >= 0) {
        deliver_score(e, w);
        return;
    }
    count_step(e, r, now, rows);
    if (c->grammar) {
        e->now.bound.tokens += (uint64_t)w->n;
        e->now.bound.forced += (uint64_t)(w->n - w->n_drawn);
    }
    if (w->n_rows > 1)
        deliver_drafts(e, c, w->n_rows - 1, TR_MAX(w->n_drawn - 1, 0));
    for (int i = 0; i < w->n; i++)
        if (!deliver_token(e, c, &w->samples[i]))
            return;
    c->seq.n_ahead = w->n - w->n_drawn;
    if (w->ended)
        tr__finish(e, c, TR_FINISH_EOS, -1);
}
