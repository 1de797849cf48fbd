#include "server/api/responses.h"

#include <string.h>

#include "server/api/chat.h"
#include "server/api/responses_input.h"
#include "server/api/schema.h"
#include "server/call/usage.h"
#include "server/http/reply.h"
#include "server/server.h"

#define ID_PREFIX "resp_"

static const struct srv_table *const tables[] = {&srv_responses_fields, &srv_common_fields};

/* ---- output items ---- */

/* An item's id: its kind, the response's own id, its place. */
static void add_item_id(struct tr_buf *out, const struct srv_choice *ch, const struct srv_part *p,
                        int index)
{
    static const char *const prefixes[] = {
        [SRV_PART_REASONING] = "rs_", [SRV_PART_CONTENT] = "msg_", [SRV_PART_CALL] = "fc_"};
    struct tr_buf id = {0};
    tr_buf_addf(&id, "%s%s_%d", prefixes[p->kind], ch->call->id + strlen(ID_PREFIX), index);
    tr_json_quote(out, id.data, id.len);
    out->oom |= id.oom;
    tr_buf_done(&id);
}

static void add_text(struct tr_buf *out, const struct tr_buf *text)
{
    tr_json_quote(out, text->data ? text->data : "", text->len);
}

/* The one part of a message or of reasoning. */
static void add_content(struct tr_buf *out, const struct srv_part *p)
{
    bool reasoning = p->kind == SRV_PART_REASONING;
    tr_buf_adds(out, reasoning ? "{\"type\":\"reasoning_text\",\"text\":"
                               : "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],"
                                 "\"text\":");
    add_text(out, &p->text);
    tr_buf_addc(out, '}');
}

/* status: in_progress (an item that begins: empty), completed, incomplete. */
static void add_item(struct tr_buf *out, const struct srv_choice *ch, int index, const char *status)
{
    const struct srv_part *p = &ch->turn.parts[index];
    bool begins = strcmp(status, "in_progress") == 0;
    tr_buf_adds(out, "{\"id\":");
    add_item_id(out, ch, p, index);
    tr_buf_addf(out, ",\"status\":\"%s\",", status);
    if (p->kind == SRV_PART_CALL) {
        tr_buf_adds(out, "\"type\":\"function_call\",\"call_id\":");
        srv_call_id(out, ch, p->call);
        tr_buf_adds(out, ",\"name\":");
        add_text(out, &p->name);
        tr_buf_adds(out, ",\"arguments\":");
        add_text(out, &p->text);
    } else {
        tr_buf_adds(out, p->kind == SRV_PART_REASONING
                             ? "\"type\":\"reasoning\",\"summary\":[],\"content\":["
                             : "\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
        if (!begins)
            add_content(out, p);
        tr_buf_addc(out, ']');
    }
    tr_buf_addc(out, '}');
}

static void add_output(struct tr_buf *out, const struct srv_choice *ch)
{
    bool cut = ch->stop == SRV_STOP_LENGTH;
    tr_buf_adds(out, ",\"output\":[");
    for (int i = 0; i < ch->turn.n_parts; i++) {
        if (i > 0)
            tr_buf_addc(out, ',');
        add_item(out, ch, i, cut && i + 1 == ch->turn.n_parts ? "incomplete" : "completed");
    }
    tr_buf_addc(out, ']');
}

/* ---- the response ---- */

static void add_usage(struct tr_buf *out, const struct srv_call *c)
{
    struct srv_usage u = srv_usage_of(c);
    tr_buf_addf(
        out,
        ",\"usage\":{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld,"
        "\"cache_write_tokens\":0},\"output_tokens\":%lld,\"output_tokens_details\":"
        "{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}",
        u.prompt, u.cached, u.completion, u.reasoning, u.prompt + u.completion);
}

static const char *final_status(const struct srv_call *c)
{
    return c->choices[0].stop == SRV_STOP_LENGTH ? "incomplete" : "completed";
}

/* failure: the error object's members, or NULL. */
static void add_response(struct srv_call *c, const char *status, const struct tr_err *failure)
{
    struct tr_buf *out = &c->req->out;
    bool over = strcmp(status, "in_progress") != 0;
    tr_buf_adds(out, "{\"id\":");
    tr_json_quote(out, c->id, strlen(c->id));
    tr_buf_addf(out, ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"model\":",
                (long long)c->created, status);
    tr_json_quote(out, c->context.model, strlen(c->context.model));
    if (failure) {
        tr_buf_adds(out, ",\"error\":{\"code\":\"server_error\",\"message\":");
        tr_json_quote(out, failure->msg, strlen(failure->msg));
        tr_buf_addc(out, '}');
    } else {
        tr_buf_adds(out, ",\"error\":null");
    }
    tr_buf_adds(out, strcmp(status, "incomplete") == 0
                         ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"
                         : ",\"incomplete_details\":null");
    tr_buf_add(out, c->repeated.data, c->repeated.len);
    tr_buf_adds(out, ",\"previous_response_id\":null,\"store\":false,\"background\":false,"
                     "\"truncation\":\"disabled\","
                     "\"reasoning\":{\"effort\":null,\"summary\":null}");
    if (over) {
        add_output(out, &c->choices[0]);
        add_usage(out, c);
    } else {
        tr_buf_adds(out, ",\"output\":[],\"usage\":null");
    }
    tr_buf_addc(out, '}');
}

static void answer(struct srv_call *c)
{
    add_response(c, final_status(c), NULL);
}

/* ---- the stream ---- */

static void begin_event(struct srv_call *c, const char *type)
{
    tr_buf_addf(&c->req->out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d", type,
                type, c->n_events++);
}

static void end_event(struct srv_call *c)
{
    tr_buf_adds(&c->req->out, "}\n\n");
}

static void response_event(struct srv_call *c, const char *type, const char *status,
                           const struct tr_err *failure)
{
    begin_event(c, type);
    tr_buf_adds(&c->req->out, ",\"response\":");
    add_response(c, status, failure);
    end_event(c);
}

static void begin_stream(struct srv_call *c)
{
    if (c->n_events > 0)
        return;
    response_event(c, "response.created", "in_progress", NULL);
    response_event(c, "response.in_progress", "in_progress", NULL);
}

static void item_event(struct srv_choice *ch, const char *type, int index, const char *status)
{
    struct tr_buf *out = &ch->call->req->out;
    begin_event(ch->call, type);
    tr_buf_addf(out, ",\"output_index\":%d,\"item\":", index);
    add_item(out, ch, index, status);
    end_event(ch->call);
}

/* An event within an item, up to its own members. */
static void begin_inner(struct srv_choice *ch, const char *type, const struct srv_part_event *e)
{
    struct tr_buf *out = &ch->call->req->out;
    begin_event(ch->call, type);
    tr_buf_adds(out, ",\"item_id\":");
    add_item_id(out, ch, e->part, e->index);
    tr_buf_addf(out, ",\"output_index\":%d", e->index);
    if (e->part->kind != SRV_PART_CALL)
        tr_buf_adds(out, ",\"content_index\":0");
}

static void content_event(struct srv_choice *ch, const char *type, const struct srv_part_event *e)
{
    struct tr_buf *out = &ch->call->req->out;
    begin_inner(ch, type, e);
    tr_buf_adds(out, ",\"part\":");
    add_content(out, e->part);
    end_event(ch->call);
}

/* A piece of an item's text, or all of it. */
static void text_event(struct srv_choice *ch, const struct srv_part_event *e)
{
    static const char *const deltas[] = {[SRV_PART_REASONING] = "response.reasoning_text.delta",
                                         [SRV_PART_CONTENT] = "response.output_text.delta",
                                         [SRV_PART_CALL] =
                                             "response.function_call_arguments.delta"};
    static const char *const dones[] = {[SRV_PART_REASONING] = "response.reasoning_text.done",
                                        [SRV_PART_CONTENT] = "response.output_text.done",
                                        [SRV_PART_CALL] = "response.function_call_arguments.done"};
    struct tr_buf *out = &ch->call->req->out;
    enum srv_part_kind kind = e->part->kind;
    bool done = e->step == SRV_PART_END;
    begin_inner(ch, (done ? dones : deltas)[kind], e);
    if (kind == SRV_PART_CONTENT)
        tr_buf_adds(out, ",\"logprobs\":[]");
    if (done && kind == SRV_PART_CALL) {
        tr_buf_adds(out, ",\"name\":");
        add_text(out, &e->part->name);
    }
    if (done) {
        tr_buf_adds(out, kind == SRV_PART_CALL ? ",\"arguments\":" : ",\"text\":");
        add_text(out, &e->part->text);
    } else {
        tr_buf_adds(out, ",\"delta\":");
        tr_json_quote(out, e->text, e->n);
    }
    end_event(ch->call);
}

static void part(struct srv_choice *ch, const struct srv_part_event *e)
{
    bool has_content = e->part->kind != SRV_PART_CALL;
    begin_stream(ch->call);
    switch (e->step) {
    case SRV_PART_BEGIN:
        item_event(ch, "response.output_item.added", e->index, "in_progress");
        if (has_content)
            content_event(ch, "response.content_part.added", e);
        break;
    case SRV_PART_DELTA:
        text_event(ch, e);
        break;
    case SRV_PART_END:
        text_event(ch, e);
        if (has_content)
            content_event(ch, "response.content_part.done", e);
        /* Only the last part of a cut answer ends while the cause is known. */
        item_event(ch, "response.output_item.done", e->index,
                   ch->stop == SRV_STOP_LENGTH ? "incomplete" : "completed");
        break;
    }
}

static void chunk(struct srv_choice *ch)
{
    begin_stream(ch->call);
}

static void end(struct srv_call *c)
{
    const char *status = final_status(c);
    response_event(c, *status == 'i' ? "response.incomplete" : "response.completed", status, NULL);
}

static void fault(struct srv_call *c, const struct tr_err *err)
{
    begin_stream(c);
    response_event(c, "response.failed", "failed", err);
}

static const struct srv_api api = {
    .id_prefix = ID_PREFIX,
    .default_max_tokens = -1,
    .read = srv_responses_read,
    .part = part,
    .chunk = chunk,
    .end = end,
    .fault = fault,
    .answer = answer,
};

const struct srv_route srv_responses_route = {
    .path = "/v1/responses",
    .doc = "Answer a conversation: the responses API",
    .flags = SRV_ROUTE_STREAMS,
    .post = srv_call_start,
    .api = &api,
    .tables = tables,
    .n_tables = TR_ARRAY_LEN(tables),
    .rules = SRV_REQUIRED("\"input\""),
};
