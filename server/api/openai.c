#include "server/api/openai.h"

#include <string.h>

#include "server/call/usage.h"
#include "server/http/reply.h"
#include "server/server.h"

static void make_head(struct tr_buf *out, const struct srv_call *c, const char *object)
{
    tr_buf_adds(out, "{\"id\":");
    tr_json_quote(out, c->id, strlen(c->id));
    tr_buf_addf(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
                (long long)c->created);
    tr_json_quote(out, c->context.model, strlen(c->context.model));
    tr_buf_addf(out, ",\"system_fingerprint\":\"%s\",\"choices\":[", c->req->model->fingerprint);
}

void srv_openai_head(struct srv_call *c, const char *object)
{
    struct tr_buf *out = &c->req->out;
    if (!c->head.len)
        make_head(&c->head, c, object);
    tr_buf_add(out, c->head.data, c->head.len);
    out->oom |= c->head.oom;
}

static void add_timings(struct tr_buf *out, const struct srv_call *c)
{
    if (!c->params.timings)
        return;
    tr_buf_adds(out, ",\"timings\":");
    srv_timings_object(out, c);
}

void srv_openai_answer(struct srv_call *c, const char *object,
                       void (*add)(struct tr_buf *out, struct srv_choice *ch))
{
    struct tr_buf *out = &c->req->out;
    srv_openai_head(c, object);
    for (int i = 0; i < c->n_choices; i++) {
        if (i > 0)
            tr_buf_addc(out, ',');
        add(out, &c->choices[i]);
    }
    tr_buf_adds(out, "],\"usage\":");
    srv_usage_object(out, c);
    add_timings(out, c);
    tr_buf_addc(out, '}');
}

void srv_openai_chunk_end(struct tr_buf *out, const struct srv_call *c)
{
    tr_buf_addc(out, ']');
    if (c->params.continuous_usage) {
        tr_buf_adds(out, ",\"usage\":");
        srv_usage_object(out, c);
    } else if (c->params.include_usage) {
        tr_buf_adds(out, ",\"usage\":null");
    }
    tr_buf_adds(out, "}\n\n");
}

void srv_openai_end(struct srv_call *c, const char *object)
{
    struct tr_buf *out = &c->req->out;
    if (c->params.include_usage || c->params.timings) {
        tr_buf_adds(out, "data: ");
        srv_openai_head(c, object);
        tr_buf_addc(out, ']');
        if (c->params.include_usage) {
            tr_buf_adds(out, ",\"usage\":");
            srv_usage_object(out, c);
        }
        add_timings(out, c);
        tr_buf_adds(out, "}\n\n");
    }
    tr_buf_adds(out, "data: [DONE]\n\n");
}

void srv_openai_fault(struct srv_call *c, const struct tr_err *err)
{
    struct tr_buf *out = &c->req->out;
    tr_buf_adds(out, "data: ");
    srv_error_object.write(out, c->req, srv_problem_of(err->code),
                           err->param[0] ? err->param : NULL, err->msg);
    tr_buf_adds(out, "\n\ndata: [DONE]\n\n");
}

void srv_openai_ids(struct tr_buf *out, const int32_t *ids, size_t n)
{
    tr_buf_addc(out, '[');
    for (size_t i = 0; i < n; i++)
        tr_buf_addf(out, "%s%d", i ? "," : "", (int)ids[i]);
    tr_buf_addc(out, ']');
}

void srv_openai_token_ids(struct tr_buf *out, const struct srv_choice *ch)
{
    if (!ch->call->params.return_token_ids)
        return;
    tr_buf_adds(out, ",\"token_ids\":");
    srv_openai_ids(out, ch->ids.ids, ch->ids.n);
}

void srv_openai_prompt(struct tr_buf *out, const struct srv_choice *ch)
{
    const struct srv_params *p = &ch->call->params;
    if (p->return_token_ids) {
        tr_buf_adds(out, ",\"prompt_token_ids\":");
        srv_openai_ids(out, ch->job->prompt, (size_t)ch->job->n_prompt);
    }
    if (p->prompt_logprobs >= 0) {
        tr_buf_adds(out, ",\"prompt_logprobs\":[");
        tr_buf_add(out, ch->job->prompt_logprobs.data, ch->job->prompt_logprobs.len);
        tr_buf_addc(out, ']');
    }
}

void srv_openai_stop_reason(struct tr_buf *out, const struct srv_choice *ch)
{
    if (ch->stop == SRV_STOP_ID)
        tr_buf_addf(out, "%d", ch->stop_value);
    else if (ch->stop == SRV_STOP_STRING)
        tr_buf_add(out, ch->call->stop_texts[ch->stop_value].data,
                   ch->call->stop_texts[ch->stop_value].len);
    else
        tr_buf_adds(out, "null");
}
