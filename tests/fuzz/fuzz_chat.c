/* Bytes of a chat, response or messages request (the first byte says which) to engine jobs: whatever they are, the
 * result is one job within every bound, or an error that says why. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "server/api/chat.h"
#include "server/api/messages.h"
#include "server/api/responses.h"
#include "server/call/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tr_tokenizer *tokenizer;
static struct tr_chat *chat;

static void load(void)
{
    struct tr_err err;
    if (tokenizer)
        return;
    if (tr_tokenizer_load(&tokenizer, "config/demo", 4096, &err) < 0 ||
        tr_chat_open(&chat, tokenizer, NULL, &err) < 0)
        abort();
}

static void check_job(const struct srv_call *c, const struct tr_job *job)
{
    assert(job->n_prompt >= 1 && job->n_prompt <= c->context.context_length);
    assert(job->max_tokens >= 0 && job->n_prompt + job->max_tokens <= c->context.context_length);
    assert(job->n >= 1 && job->n <= c->context.max_choices && job->n == c->n_answers);
    for (int i = 0; i < job->n_prompt; i++)
        assert(tr_tokenizer_has_id(tokenizer, job->prompt[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct srv_route *const routes[] = {&srv_chat_route, &srv_responses_route,
                                                     &srv_messages_route};
    struct srv_call *c = size > 0 ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return 0;
    load();
    struct srv_req req = {.route = routes[data[0] % TR_ARRAY_LEN(routes)],
                          .body = {.data = (char *)(uintptr_t)data + 1, .len = size - 1}};
    c->req = &req;
    c->api = req.route->api;
    c->context = (struct srv_context){.tokenizer = tokenizer,
                                      .chat = chat,
                                      .model = "demo",
                                      .context_length = 512,
                                      .max_choices = 8,
                                      .max_queue = 8,
                                      .strict = size % 2};
    srv_call_read(&c->work);
    assert(c->err.code == 0 || c->err.msg[0]);
    if (c->err.code == 0) {
        assert(c->n_jobs == 1);
        check_job(c, c->jobs[0].job);
    }
    srv_call_done(c);
    free(c);
    return 0;
}
