#include "server/api/messages.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/chat.h"
#include "server/api/messages_input.h"
#include "server/api/schema.h"
#include "server/api/translate.h"
#include "server/call/read.h"
#include "server/call/usage.h"
#include "server/http/reply.h"
#include "server/http/task.h"
#include "server/server.h"

static const struct srv_table *const tables[] = {&srv_messages_fields, &srv_common_fields};

/* ---- errors ---- */

static void write_error(struct tr_buf *out, const struct srv_req *req, enum srv_problem why,
                        const char *param, const char *msg)
{
    (void)param; /* has no place in this form */
    tr_buf_addf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                srv_problems[why].messages_type);
    tr_json_quote(out, msg, strlen(msg));
    tr_buf_adds(out, "},\"request_id\":");
    tr_json_quote(out, req->id, strlen(req->id));
    tr_buf_addc(out, '}');
}

static const struct srv_error_form error_form = {
    "MessagesRefused",
    SRV_OBJECT(
        "\"type\",\"error\"",
        "\"type\":{\"const\":\"error\"},\"request_id\":{\"type\":\"string\"},\"error\":" SRV_OBJECT(
            "\"type\",\"message\"",
            "\"type\":{\"type\":\"string\"},\"message\":{\"type\":\"string\"}")),
    write_error,
};

/* ---- the message ---- */

static void add_text(struct tr_buf *out, const struct tr_buf *text)
{
    tr_json_quote(out, text->data ? text->data : "", text->len);
}

/* A block; one that begins has no text yet, and an object as input. */
static void add_block(struct tr_buf *out, const struct srv_choice *ch, const struct srv_part *p)
{
    switch (p->kind) {
    case SRV_PART_CALL:
        tr_buf_adds(out, "{\"type\":\"tool_use\",\"id\":");
        srv_call_id(out, ch, p->call);
        tr_buf_adds(out, ",\"name\":");
        add_text(out, &p->name);
        tr_buf_adds(out, ",\"input\":");
        tr_buf_adds(out, p->text.len ? p->text.data : "{}"); /* an object as JSON already */
        break;
    case SRV_PART_REASONING:
        tr_buf_adds(out, "{\"type\":\"thinking\",\"signature\":\"\",\"thinking\":");
        add_text(out, &p->text);
        break;
    case SRV_PART_CONTENT:
        tr_buf_adds(out, "{\"type\":\"text\",\"text\":");
        add_text(out, &p->text);
        break;
    }
    tr_buf_addc(out, '}');
}

/* "stop_reason":...,"stop_sequence":... */
static void add_stop(struct tr_buf *out, const struct srv_choice *ch)
{
    const char *reason = "end_turn";
    if (ch->stop == SRV_STOP_LENGTH)
        reason = "max_tokens";
    else if (ch->turn.n_calls > 0)
        reason = "tool_use";
    else if (ch->stop == SRV_STOP_STRING)
        reason = "stop_sequence";
    tr_buf_addf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (ch->stop == SRV_STOP_STRING)
        tr_buf_add(out, ch->call->stop_texts[ch->stop_value].data,
                   ch->call->stop_texts[ch->stop_value].len);
    else
        tr_buf_adds(out, "null");
}

static void add_usage(struct tr_buf *out, const struct srv_call *c)
{
    struct srv_usage u = srv_usage_of(c);
    tr_buf_addf(out,
                "{\"input_tokens\":%lld,\"cache_read_input_tokens\":%lld,"
                "\"cache_creation_input_tokens\":0,\"output_tokens\":%lld}",
                u.prompt - u.cached, u.cached, u.completion);
}

static void add_head(struct tr_buf *out, const struct srv_call *c)
{
    tr_buf_adds(out, "{\"id\":");
    tr_json_quote(out, c->id, strlen(c->id));
    tr_buf_adds(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    tr_json_quote(out, c->context.model, strlen(c->context.model));
    tr_buf_adds(out, ",\"content\":[");
}

static void answer(struct srv_call *c)
{
    struct tr_buf *out = &c->req->out;
    const struct srv_choice *ch = &c->choices[0];
    add_head(out, c);
    for (int i = 0; i < ch->turn.n_parts; i++) {
        if (i > 0)
            tr_buf_addc(out, ',');
        add_block(out, ch, &ch->turn.parts[i]);
    }
    tr_buf_adds(out, "],");
    add_stop(out, ch);
    tr_buf_adds(out, ",\"usage\":");
    add_usage(out, c);
    tr_buf_addc(out, '}');
}

/* ---- the stream ---- */

static void begin_event(struct tr_buf *out, const char *type)
{
    tr_buf_addf(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void begin_stream(struct srv_call *c)
{
    struct tr_buf *out = &c->req->out;
    if (c->n_events++ > 0)
        return;
    begin_event(out, "message_start");
    tr_buf_adds(out, ",\"message\":");
    add_head(out, c);
    tr_buf_adds(out, "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    add_usage(out, c);
    tr_buf_adds(out, "}}\n\n");
}

static void part(struct srv_choice *ch, const struct srv_part_event *e)
{
    /* type of the delta, name of its text */
    static const char *const deltas[][2] = {[SRV_PART_REASONING] = {"thinking_delta", "thinking"},
                                            [SRV_PART_CONTENT] = {"text_delta", "text"},
                                            [SRV_PART_CALL] = {"input_json_delta", "partial_json"}};
    struct tr_buf *out = &ch->call->req->out;
    begin_stream(ch->call);
    switch (e->step) {
    case SRV_PART_BEGIN:
        begin_event(out, "content_block_start");
        tr_buf_addf(out, ",\"index\":%d,\"content_block\":", e->index);
        add_block(out, ch, e->part);
        break;
    case SRV_PART_DELTA:
        begin_event(out, "content_block_delta");
        tr_buf_addf(out, ",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":", e->index,
                    deltas[e->part->kind][0], deltas[e->part->kind][1]);
        tr_json_quote(out, e->text, e->n);
        tr_buf_addc(out, '}');
        break;
    case SRV_PART_END:
        begin_event(out, "content_block_stop");
        tr_buf_addf(out, ",\"index\":%d", e->index);
        break;
    }
    tr_buf_adds(out, "}\n\n");
}

static void chunk(struct srv_choice *ch)
{
    begin_stream(ch->call);
}

static void end(struct srv_call *c)
{
    struct tr_buf *out = &c->req->out;
    begin_event(out, "message_delta");
    tr_buf_adds(out, ",\"delta\":{");
    add_stop(out, &c->choices[0]);
    tr_buf_adds(out, "},\"usage\":");
    add_usage(out, c);
    tr_buf_adds(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void fault(struct srv_call *c, const struct tr_err *err)
{
    struct tr_buf *out = &c->req->out;
    tr_buf_adds(out, "event: error\ndata: ");
    write_error(out, c->req, srv_problem_of(err->code), NULL, err->msg);
    tr_buf_adds(out, "\n\n");
}

static const struct srv_api api = {
    .id_prefix = "msg_",
    .default_max_tokens = -1,
    .read = srv_messages_read,
    .part = part,
    .chunk = chunk,
    .end = end,
    .fault = fault,
    .answer = answer,
};

const struct srv_route srv_messages_route = {
    .path = "/v1/messages",
    .doc = "Answer a conversation: the messages API",
    .flags = SRV_ROUTE_STREAMS,
    .post = srv_call_start,
    .api = &api,
    .errors = &error_form,
    .rate_prefix = "anthropic-ratelimit-",
    .tables = tables,
    .n_tables = TR_ARRAY_LEN(tables),
    .rules = SRV_REQUIRED("\"messages\",\"max_tokens\""),
};

/* ---- /v1/messages/count_tokens ---- */

static int count(struct srv_req *req, void *params, struct tr_err *err)
{
    struct srv_params *p = params;
    struct srv_translation t = {0};
    struct tr_ids ids = {0};
    int r = srv_messages_translate(p, &t, err);
    if (r == 0)
        r = srv_dialog_ids(req->model->chat, &p->dialog, &ids, err);
    if (r == 0)
        tr_buf_addf(&req->out, "{\"input_tokens\":%zu}", ids.n);
    free(ids.ids);
    srv_translation_done(&t);
    return r;
}

static int count_tokens(struct srv_req *req, struct tr_err *err)
{
    struct srv_params p = {0};
    return srv_body_take(req, tables, TR_ARRAY_LEN(tables), false, &p, count, err);
}

static void post_count(struct srv_req *req)
{
    srv_task_run(req, count_tokens);
}

/* Its fields are not told: only what makes the prompt is looked at. */
const struct srv_route srv_count_tokens_route = {
    .path = "/v1/messages/count_tokens",
    .doc = "Tokens of the prompt that messages make",
    .post = post_count,
    .errors = &error_form,
    .rate_prefix = "anthropic-ratelimit-",
    .rules = SRV_REQUIRED("\"messages\""),
};
