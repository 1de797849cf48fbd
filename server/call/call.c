#include "server/call/call.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"
#include "server/call/constraint.h"
#include "server/call/kept.h"
#include "server/call/logprobs.h"
#include "server/call/measure.h"
#include "server/call/outbox.h"
#include "server/call/read.h"
#include "server/call/usage.h"
#include "server/http/keys.h"
#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/log.h"
#include "server/server.h"

enum {
    INLINE_ANSWER = 64 * 1024, /* bytes that are written on the loop thread */
    EVENT_WORK = 2048          /* tokens and alternatives that are taken in one turn of the loop */
};

/* ---- life ---- */

void srv_call_done(struct srv_call *c)
{
    srv_choices_free(c);
    for (int i = 0; i < c->n_jobs; i++)
        srv_job_done(&c->jobs[i]);
    tr_job_free(c->asked);
    free(c->jobs);
    tr_stops_free(c->stops);
    for (int i = 0; i < c->n_stops; i++)
        tr_buf_done(&c->stop_texts[i]);
    free(c->stop_texts);
    srv_turn_rules_done(&c->rules);
    tr_buf_done(&c->scratch);
    tr_buf_done(&c->head);
    free(c->model);
    tr_buf_done(&c->repeated);
}

static void free_call(struct srv_call *c)
{
    struct srv *s = c->srv;
    tr_list_remove(&c->link);
    s->n_calls--;
    srv_kept_give(c);
    srv_call_done(c);
    srv_work_leave(c->req);
    free(c);
}

static void cancel_jobs(struct srv_call *c)
{
    for (int i = 0; i < c->n_jobs; i++)
        if (c->jobs[i].open)
            tr_engine_cancel(c->req->model->engine, c->jobs[i].id, -1);
}

/* The first reason counts. What runs is cancelled; the client hears of it when all jobs
 * have ended. */
static void fail(struct srv_call *c, int code, const char *why)
{
    if (c->err.code)
        return;
    tr_err_set(&c->err, code, NULL, "%s", why);
    cancel_jobs(c);
}

void srv_call_abort(struct srv_call *c, int code, const char *why)
{
    if (!c->work.aside) /* else it is a worker's, and will find the daemon draining */
        fail(c, code, why);
}

static void pause_jobs(struct srv_call *c, bool paused)
{
    if (c->paused == paused)
        return;
    c->paused = paused;
    for (int i = 0; i < c->n_jobs; i++)
        if (c->jobs[i].open)
            tr_engine_pause(c->req->model->engine, c->jobs[i].id, paused);
}

static void on_proceed(struct srv_req *req)
{
    pause_jobs(req->owner, false);
}

static void on_stop(struct srv_req *req)
{
    struct srv_call *c = req->owner;
    c->dead = true;
    c->srv->metrics.cancelled_calls++;
    if (c->work.aside) {
        srv_work_cancel(&c->work);
        return;
    }
    cancel_jobs(c);
    srv_measure_ledger(c); /* as far as it came: the request leaves */
}

static const struct srv_generator generator = {on_proceed, on_stop};

/* ---- to the engine and back ---- */

static void reply(struct srv_call *c)
{
    if (c->req->out.oom)
        srv_refuse(c->req, SRV_PROBLEM_MEMORY, NULL, "out of memory for the answer");
    else
        srv_reply(c->req, 200, "application/json");
}

static void on_form(struct srv_work *work)
{
    struct srv_call *c = TR_CONTAINER_OF(work, struct srv_call, work);
    c->api->answer(c);
}

static void on_formed(struct srv_work *work)
{
    struct srv_call *c = TR_CONTAINER_OF(work, struct srv_call, work);
    if (!c->dead && work->cancelled)
        srv_refuse(c->req, SRV_PROBLEM_DRAIN, NULL, "the daemon is shutting down");
    else if (!c->dead)
        reply(c);
    free_call(c);
}

/* A long answer is written by a worker. */
static bool form_aside(struct srv_call *c)
{
    if (srv_kept_answer(c) <= INLINE_ANSWER || c->srv->closing)
        return false;
    c->work.bytes = c->grown;
    c->work.run = on_form;
    c->work.done = on_formed;
    return srv_work_again(&c->work);
}

static void finish(struct srv_call *c)
{
    struct srv_req *req = c->req;
    if (c->prompt_spent > 0) {
        struct srv_usage u = srv_usage_of(c);
        srv_key_spend(req->key, (struct srv_use){.cached = u.cached, .completion = u.completion});
    }
    if (c->dead) {
        c->srv->metrics.finished[SRV_REASON_ABORT] += (uint64_t)c->n_answers;
        free_call(c);
        return;
    }
    if (req->out.oom && !c->err.code)
        tr_err_set(&c->err, TR_ENOMEM, NULL, "out of memory for the answer");
    srv_measure_ledger(c);
    srv_measure_call(c);
    if (c->err.code && c->begun) {
        if (req->out.oom)
            tr_buf_clear(&req->out);
        c->api->fault(c, &c->err);
        srv_stream_end(req, true);
    } else if (c->err.code) {
        srv_refuse_err(req, &c->err);
    } else if (c->begun) {
        c->api->end(c);
        srv_stream_end(req, false);
    } else if (form_aside(c)) {
        return;
    } else {
        c->api->answer(c);
        reply(c);
    }
    free_call(c);
}

static void submit(struct srv_call *c)
{
    for (int i = 0; i < c->n_jobs && !c->err.code; i++) {
        struct srv_job *j = &c->jobs[i];
        struct tr_err err = {0};
        int r = tr_engine_submit(c->req->model->engine, j->job, &j->id, &err);
        if (r < 0) {
            fail(c, r, err.msg[0] ? err.msg : tr_err_text(r));
            memcpy(c->err.param, err.param, sizeof err.param);
            break;
        }
        j->job = NULL;
        j->open = true;
        c->n_open++;
    }
    if (c->n_open == 0) {
        finish(c);
        return;
    }
    c->prompt_spent = srv_usage_of(c).prompt;
    srv_key_spend(c->req->key, (struct srv_use){.prompt = c->prompt_spent});
}

static void begin_stream(struct srv_call *c)
{
    if (c->begun || !c->params.stream || c->err.code)
        return;
    c->begun = true;
    srv_stream_begin(c->req);
}

static void after_token(struct srv_choice *ch, struct srv_job *j)
{
    struct srv_call *c = ch->call;
    if (ch->stop == SRV_STOP_STRING)
        tr_engine_cancel(c->req->model->engine, j->id, ch->sample);
    if (c->rules.parse && !srv_turn_take(ch, c->begun ? c->api->part : NULL))
        c->req->out.oom = true;
    if (!c->begun)
        return;
    c->api->chunk(ch);
    srv_choice_written(ch);
    srv_stream_flush(c->req);
    if (srv_stream_full(c->req))
        pause_jobs(c, true);
}

/* Bytes of what a choice has to write. */
static size_t gathered(const struct srv_choice *ch)
{
    size_t n = ch->text.len + ch->ids.n * sizeof *ch->ids.ids;
    for (int i = 0; i < SRV_LOGPROB_PARTS; i++)
        n += ch->logprobs.part[i].len;
    return n;
}

/* A stream's answer is not gathered: it has a bound of its own. */
static void grow(struct srv_call *c, size_t n)
{
    if (!c->params.stream && !srv_kept_grow(c, n))
        fail(c, TR_ENOMEM, "the answers under way take twice request_memory: ask for streams");
}

static void on_token(struct srv_choice *ch, struct srv_job *j, const struct tr_event *e)
{
    struct srv_call *c = ch->call;
    int64_t now = tr_clock_ns();
    srv_measure_token(ch, now);
    if (!c->first_ns)
        c->first_ns = now;
    c->last_ns = now;
    begin_stream(c);
    size_t before = gathered(ch);
    srv_choice_token(ch, e);
    grow(c, gathered(ch) - before);
    after_token(ch, j);
}

/* Told already if a token ended the answer; news if it ended without one. */
static void on_choice_done(struct srv_choice *ch, struct srv_job *j, const struct srv_event *ev)
{
    struct srv_call *c = ch->call;
    if (ch->stop != SRV_STOP_NONE)
        return;
    switch (ev->e.finish) {
    case TR_FINISH_ERROR:
        fail(c, ev->error ? ev->error : TR_EINTERNAL, ev->error ? ev->end.text : "engine error");
        return;
    case TR_FINISH_CANCELED:
        fail(c, TR_ECANCELED, "the request was cancelled");
        return;
    case TR_FINISH_DEADLINE:
        if (!c->begun && ch->n_tokens == 0) {
            fail(c, TR_EDEADLINE,
                 j->admitted ? "the request's time was over before its first token"
                             : "the request's time was over before its turn came");
            return;
        }
        break;
    case TR_FINISH_EOS:
    case TR_FINISH_STOP_ID:
    case TR_FINISH_LENGTH:
    case TR_FINISH_NONE:
    default:
        break;
    }
    srv_choice_end(ch, ev->e.finish, ev->e.stop_id);
    after_token(ch, j);
}

/* Bytes of what there is to tell of a prompt. */
static size_t told(const struct srv_job *j)
{
    size_t n = j->prompt_logprobs.len;
    for (int i = 0; i < SRV_LOGPROB_PARTS; i++)
        n += j->logprobs.part[i].len;
    return n;
}

static void on_prompt_token(struct srv_job *j, const struct tr_event *e)
{
    struct srv_call *c = j->call;
    struct tr_event cut = *e;
    size_t before = told(j);
    if (j->offsets) {
        cut.n_top = TR_MIN(e->n_top, (int)c->params.logprobs);
        c->api->logprob(c, &j->logprobs, &cut, j->offsets[e->position]);
    }
    if (c->params.prompt_logprobs >= 0) {
        cut.n_top = TR_MIN(e->n_top, (int)c->params.prompt_logprobs);
        srv_prompt_logprob(c, &j->prompt_logprobs, &cut);
    }
    grow(c, told(j) - before);
}

static void on_event(struct srv_job *j, const struct srv_event *ev)
{
    struct srv_call *c = j->call;
    if (ev->e.usage)
        j->usage = *ev->e.usage;
    if (ev->e.kind == TR_EVENT_DONE) {
        j->open = false;
        if (j->sink.lost)
            fail(c, TR_ENOMEM, "out of memory for the answer's tokens");
        if (--c->n_open == 0)
            finish(c);
        return;
    }
    if (c->dead || c->err.code)
        return;
    if (!c->choices && srv_choices_make(c) < 0) {
        fail(c, TR_ENOMEM, "out of memory for the answers");
        return;
    }
    struct srv_choice *ch = &c->choices[(j - c->jobs) * (int)c->params.n + ev->e.choice];
    switch (ev->e.kind) {
    case TR_EVENT_ADMITTED:
        j->admitted = true;
        begin_stream(c);
        break;
    case TR_EVENT_PROMPT:
        on_prompt_token(j, &ev->e);
        break;
    case TR_EVENT_TOKEN:
        if (ch->stop == SRV_STOP_NONE)
            on_token(ch, j, &ev->e);
        break;
    case TR_EVENT_CHOICE_DONE:
        on_choice_done(ch, j, ev);
        break;
    case TR_EVENT_DONE:
    default:
        break;
    }
}

/* A page that fails a check costs a recomputation, no answer; but somebody should look at the
 * memory. */
static void warn_of_mismatches(struct srv_model *m)
{
    struct tr_engine_stats st;
    tr_engine_stats(m->engine, &st);
    if (st.page_mismatches > m->page_mismatches)
        srv_log(SRV_LOG_WARN, NULL, "%llu cached pages were not what they should be; not used",
                (unsigned long long)(st.page_mismatches - m->page_mismatches));
    m->page_mismatches = st.page_mismatches;
}

bool srv_call_events(struct srv *s)
{
    struct srv_event *used = NULL;
    bool done = false;
    for (int work = 0; work < EVENT_WORK;) {
        struct srv_event *ev = s->events ? s->events : srv_outbox_take(s->outbox);
        if (!ev)
            break;
        s->events = ev->next;
        work += 1 + ev->e.n_top;
        bool pooled = ev->e.kind != TR_EVENT_DONE;
        done |= !pooled;
        on_event(ev->e.user, ev); /* a DONE node goes with its job */
        if (pooled) {
            ev->next = used;
            used = ev;
        }
    }
    srv_outbox_recycle(s->outbox, used);
    if (done && s->options->verify && s->model && s->model->engine)
        warn_of_mismatches(s->model);
    if (s->events)
        uv_async_send(&s->outbox->async);
    return s->events != NULL;
}

/* ---- from the request to the engine ---- */

static void after_reading(struct srv_work *work)
{
    struct srv_call *c = TR_CONTAINER_OF(work, struct srv_call, work);
    srv_req_drop_body(c->req);
    if (c->dead || c->err.code) {
        finish(c);
    } else if (c->srv->state == SRV_STATE_DRAINING) {
        fail(c, TR_EDRAIN, "the daemon is shutting down");
        finish(c);
    } else if (c->req->key && c->req->key->limits.tokens > 0 &&
               !srv_key_may_spend(c->req, srv_usage_of(c).prompt)) {
        c->srv->metrics.finished[SRV_REASON_ERROR] += (uint64_t)c->n_answers;
        free_call(c);
    } else if (!srv_kept_take(c)) {
        fail(c, TR_EQUEUE, "other requests keep all of request_memory");
        finish(c);
    } else {
        submit(c);
    }
}

static struct srv_context context_of(const struct srv_req *req)
{
    const struct srv *s = req->srv;
    const struct srv_model *m = s->model;
    return (struct srv_context){
        .engine = m->engine,
        .grammars = m->grammars,
        .tokenizer = m->tokenizer,
        .chat = m->chat,
        .model = m->name,
        .names = m->names,
        .defaults = m->defaults,
        .context_length = m->info->context_length,
        .max_choices = s->options->max_choices,
        .max_queue = s->options->max_queue,
        .strict = s->options->strict,
        .reasoning_alias = s->options->reasoning_alias,
        .timeout_ms = s->options->request_timeout,
        .tenant = req->tenant,
        .across = req->across,
        .background = req->background,
        .weight = req->key ? (int)req->key->limits.weight : 1,
        .best_priority = req->key ? (int)req->key->limits.best_priority : INT32_MIN,
        .hash_key = {s->hash_key[0], s->hash_key[1]},
        .begun_ns = req->begun_ns,
        .random = req->number ^ s->hash_key[1],
    };
}

void srv_call_start(struct srv_req *req)
{
    struct srv *s = req->srv;
    struct srv_call *c = calloc(1, sizeof *c);
    if (!c) {
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        return;
    }
    c->srv = s;
    c->req = req;
    c->api = req->route->api;
    c->context = context_of(req);
    c->created = (int64_t)time(NULL);
    snprintf(c->id, sizeof c->id, "%s%016llx", c->api->id_prefix, (unsigned long long)req->number);
    tr_list_insert(&s->calls, &c->link);
    s->n_calls++;
    c->work.run = srv_call_read;
    c->work.done = after_reading;
    c->work.words = srv_constraint_words;
    c->work.n_words = SRV_N_CONSTRAINT_WORDS;
    srv_work_begin(req, &c->work, &generator, c, false);
}
