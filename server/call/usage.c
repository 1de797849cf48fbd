#include "server/call/usage.h"

#include "server/call/call.h"

struct srv_usage srv_usage_of(const struct srv_call *c)
{
    struct srv_usage u = {0};
    for (int i = 0; i < c->n_jobs; i++) {
        u.prompt += c->jobs[i].n_prompt;
        u.cached += c->jobs[i].usage.cached_tokens;
    }
    /* Counted here, not by the engine: it may run a token past a stop string before it
     * hears of it. */
    for (int i = 0; i < c->n_choices; i++) {
        u.completion += c->choices[i].n_tokens;
        u.reasoning += c->choices[i].turn.reasoning_tokens;
    }
    return u;
}

void srv_usage_object(struct tr_buf *out, const struct srv_call *c)
{
    struct srv_usage u = srv_usage_of(c);
    tr_buf_addf(out,
                "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                "\"prompt_tokens_details\":{\"cached_tokens\":%lld}",
                u.prompt, u.completion, u.prompt + u.completion, u.cached);
    if (c->rules.parse)
        tr_buf_addf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%lld}", u.reasoning);
    tr_buf_addc(out, '}');
}

void srv_timings_object(struct tr_buf *out, const struct srv_call *c)
{
    struct tr_usage sum = {0};
    for (int i = 0; i < c->n_jobs; i++) {
        const struct tr_usage *u = &c->jobs[i].usage;
        sum.queue_ns = TR_MAX(sum.queue_ns, u->queue_ns);
        sum.prefill_ns = TR_MAX(sum.prefill_ns, u->prefill_ns);
        sum.decode_ns = TR_MAX(sum.decode_ns, u->decode_ns);
        sum.prefill_computed += u->prefill_computed;
        sum.cached_tokens += u->cached_tokens;
        sum.decode_steps += u->decode_steps;
        sum.batch_rows += u->batch_rows;
        sum.preemptions += u->preemptions;
        sum.draft_tokens += u->draft_tokens;
        sum.accepted_tokens += u->accepted_tokens;
    }
    tr_buf_addf(
        out,
        "{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,"
        "\"prefill_tokens\":%lld,\"cached_tokens\":%d,\"decode_steps\":%lld,"
        "\"mean_batch\":%.2f,\"preemptions\":%lld,\"draft_tokens\":%lld,"
        "\"accepted_tokens\":%lld}",
        (double)sum.queue_ns * 1e-6, (double)sum.prefill_ns * 1e-6, (double)sum.decode_ns * 1e-6,
        (long long)sum.prefill_computed, sum.cached_tokens, (long long)sum.decode_steps,
        sum.decode_steps ? (double)sum.batch_rows / (double)sum.decode_steps : 0.0,
        (long long)sum.preemptions, (long long)sum.draft_tokens, (long long)sum.accepted_tokens);
}
