#include "server/call/measure.h"

#include <stdio.h>

#include "config/clock.h"
#include "server/call/usage.h"
#include "server/server.h"

void srv_measure_token(const struct srv_choice *ch, int64_t now_ns)
{
    const struct srv_call *c = ch->call;
    struct srv_metrics *m = &c->srv->metrics;
    if (!c->first_ns)
        srv_metrics_observe(m, SRV_HIST_TTFT, (double)(now_ns - c->context.begun_ns) * 1e-9);
    else if (ch->n_tokens > 0)
        srv_metrics_observe(m, SRV_HIST_ITL, (double)(now_ns - c->last_ns) * 1e-9);
}

static enum srv_reason reason_of(const struct srv_call *c, const struct srv_choice *ch)
{
    if (c->err.code)
        return c->err.code == TR_ECANCELED ? SRV_REASON_ABORT : SRV_REASON_ERROR;
    return ch && ch->stop == SRV_STOP_LENGTH ? SRV_REASON_LENGTH : SRV_REASON_STOP;
}

/* Mean time of a token after the first; 0: there was none. */
static double token_ns(const struct srv_call *c, long long answer)
{
    return answer > c->n_choices ? (double)(c->last_ns - c->first_ns) /
                                       (double)(answer - c->n_choices) * (double)c->n_choices
                                 : 0.0;
}

void srv_measure_ledger(const struct srv_call *c)
{
    struct srv_ledger *l = &c->req->ledger;
    struct srv_usage u = srv_usage_of(c);
    int64_t queue_ns = 0, prefill_ns = 0, decode_ns = 0;
    for (int i = 0; i < c->n_jobs; i++) {
        queue_ns = TR_MAX(queue_ns, c->jobs[i].usage.queue_ns);
        prefill_ns = TR_MAX(prefill_ns, c->jobs[i].usage.prefill_ns);
        decode_ns = TR_MAX(decode_ns, c->jobs[i].usage.decode_ns);
    }
    *l = (struct srv_ledger){.made = true,
                             .begun = c->first_ns != 0,
                             .constrained = c->asked && c->asked->grammar,
                             .prompt = u.prompt,
                             .cached = u.cached,
                             .completion = u.completion,
                             .queue_ms = (double)queue_ns * 1e-6,
                             .operation = c->api->part ? "chat" : "text_completion",
                             .prefill_ms = (double)prefill_ns * 1e-6,
                             .decode_ms = (double)decode_ns * 1e-6,
                             .first_ms = (double)(c->first_ns - c->context.begun_ns) * 1e-6,
                             .token_ms = token_ns(c, u.completion) * 1e-6};
    snprintf(l->model, sizeof l->model, "%s", c->model ? c->model : c->context.model);
    for (int i = 0; i < c->n_choices; i++)
        l->tool_calls += c->choices[i].turn.n_calls;
    if (c->err.code)
        l->finish = "error";
    else if (l->tool_calls > 0)
        l->finish = "tool_calls";
    else if (c->n_choices > 0)
        l->finish = srv_choice_reason(&c->choices[0]);
}

void srv_measure_call(const struct srv_call *c)
{
    struct srv_metrics *m = &c->srv->metrics;
    for (int i = 0; i < c->n_choices; i++)
        m->finished[reason_of(c, &c->choices[i])]++;
    m->finished[reason_of(c, NULL)] += (uint64_t)(c->n_answers - c->n_choices);
    if (c->err.code)
        return;
    struct srv_usage all = srv_usage_of(c);
    for (int i = 0; i < c->n_jobs; i++) {
        const struct tr_usage *u = &c->jobs[i].usage;
        srv_metrics_observe(m, SRV_HIST_QUEUE, (double)u->queue_ns * 1e-9);
        srv_metrics_observe(m, SRV_HIST_PREFILL, (double)u->prefill_ns * 1e-9);
        srv_metrics_observe(m, SRV_HIST_DECODE, (double)u->decode_ns * 1e-9);
        srv_metrics_observe(m, SRV_HIST_INFERENCE, (double)(u->prefill_ns + u->decode_ns) * 1e-9);
    }
    srv_metrics_observe(m, SRV_HIST_E2E, (double)(tr_clock_ns() - c->context.begun_ns) * 1e-9);
    srv_metrics_observe(m, SRV_HIST_PROMPT_TOKENS, (double)all.prompt);
    srv_metrics_observe(m, SRV_HIST_ANSWER_TOKENS, (double)all.completion);
    srv_metrics_observe(m, SRV_HIST_N, (double)c->params.n);
    if (c->params.max_tokens >= 0)
        srv_metrics_observe(m, SRV_HIST_MAX_TOKENS, (double)c->params.max_tokens);
    if (all.completion > c->n_choices)
        srv_metrics_observe(m, SRV_HIST_TPOT, token_ns(c, all.completion) * 1e-9);
}
