/* Bytes of a completion request to engine jobs: whatever they are, the result is jobs within every bound, or an error
 * that says why. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "server/api/completions.h"
#include "server/call/call.h"
#include "server/call/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tr_tokenizer *tokenizer(void)
{
    static struct tr_tokenizer *t;
    struct tr_err err;
    if (!t && tr_tokenizer_load(&t, "config/demo", 4096, &err) < 0)
        abort();
    return t;
}

static void check_ids(const struct tr_tokenizer *t, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        assert(tr_tokenizer_has_id(t, ids[i]));
}

static void check_job(const struct srv_call *c, const struct tr_job *job)
{
    const struct tr_sampling *s = &job->sampling;
    assert(job->n_prompt >= 1 && job->n_prompt <= c->context.context_length);
    assert(job->max_tokens >= 0 && job->n_prompt + job->max_tokens <= c->context.context_length);
    assert(job->n >= 1 && job->n <= c->context.max_choices);
    assert(s->temperature >= 0 && s->temperature <= 2 && s->top_k >= 0);
    assert(s->top_p >= 0 && s->top_p <= 1 && s->min_p >= 0 && s->min_p <= 1);
    assert(s->repetition_penalty > 0 && s->n_logprobs <= SRV_MAX_LOGPROBS);
    check_ids(c->context.tokenizer, job->prompt, job->n_prompt);
    check_ids(c->context.tokenizer, job->stop_ids, job->n_stop_ids);
    check_ids(c->context.tokenizer, s->allowed, s->n_allowed);
    for (int i = 0; i < s->n_bias; i++)
        assert(tr_tokenizer_has_id(c->context.tokenizer, s->bias[i].id) && s->bias[i].value <= 100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct srv_call *c = calloc(1, sizeof *c);
    if (!c)
        return 0;
    struct srv_req req = {.route = &srv_completions_route,
                          .body = {.data = (char *)(uintptr_t)data, .len = size}};
    c->req = &req;
    c->api = req.route->api;
    c->context = (struct srv_context){.tokenizer = tokenizer(),
                                      .model = "demo",
                                      .context_length = 64,
                                      .max_choices = 8,
                                      .max_queue = 8,
                                      .strict = size % 2};
    srv_call_read(&c->work);
    assert(c->err.code == 0 || c->err.msg[0]);
    for (int i = 0; c->err.code == 0 && i < c->n_jobs; i++)
        check_job(c, c->jobs[i].job);
    srv_call_done(c);
    free(c);
    return 0;
}
