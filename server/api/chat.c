#include "server/api/chat.h"

#include <string.h>

#include "server/api/openai.h"
#include "server/api/schema.h"
#include "server/call/logprobs.h"
#include "server/call/read.h"
#include "server/http/task.h"
#include "server/server.h"

#define OBJECT "chat.completion"
#define CHUNK  "chat.completion.chunk"

/* ---- the request ---- */

#define AT(member) offsetof(struct srv_params, member)

#define STRING_OR_PARTS                                                                            \
    "\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"},{\"type\":\"array\",\"items\":"          \
    "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"text\"},"                          \
    "\"text\":{\"type\":\"string\"}},\"required\":[\"type\",\"text\"]}}]"
#define MESSAGES_SCHEMA                                                                            \
    "\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"properties\":{"            \
    "\"role\":{\"enum\":[\"system\",\"developer\",\"user\",\"assistant\",\"tool\"]},"              \
    "\"content\":{" STRING_OR_PARTS "},\"reasoning_content\":{\"type\":[\"string\",\"null\"]},"    \
    "\"tool_calls\":{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\"}}},"             \
    "\"required\":[\"role\"]}"
#define TOOLS_SCHEMA                                                                               \
    "\"type\":[\"array\",\"null\"],\"maxItems\":128,\"items\":{\"type\":\"object\","               \
    "\"properties\":{\"type\":{\"const\":\"function\"},\"function\":{\"type\":\"object\","         \
    "\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64},"             \
    "\"parameters\":{\"type\":[\"object\",\"null\"]},\"strict\":{\"type\":[\"boolean\",\"null\"]}" \
    "},"                                                                                           \
    "\"required\":[\"name\"]}},"                                                                   \
    "\"required\":[\"type\",\"function\"]}"

static const struct srv_field prompt_rows[] = {
    SRV_VALUE_FIELD("messages", AT(dialog.messages), MESSAGES_SCHEMA, "the conversation so far"),
    SRV_VALUE_FIELD("tools", AT(dialog.tools), TOOLS_SCHEMA, "functions that the model may call"),
    SRV_VALUE_FIELD("documents", AT(dialog.documents),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\"}",
                    "handed to the template"),
    SRV_VALUE_FIELD("chat_template_kwargs", AT(dialog.kwargs), "\"type\":[\"object\",\"null\"]",
                    "more variables for the template"),
    SRV_VALUE_FIELD("add_generation_prompt", AT(dialog.add_generation_prompt),
                    "\"type\":[\"boolean\",\"null\"]",
                    "end the prompt where the assistant begins; true unless a message goes on"),
    SRV_BOOL_FIELD("continue_final_message", AT(dialog.continue_final_message), false,
                   "the answer goes on with the last message"),
    SRV_REFUSED_FIELD("chat_template", "code from the caller"),
};
const struct srv_table srv_apply_template_fields = {prompt_rows, TR_ARRAY_LEN(prompt_rows)};

static const struct srv_field own_rows[] = {
    SRV_OPT_INT_FIELD("max_tokens", AT(max_tokens), -1, INT64_MAX, SRV_ABSENT,
                      "longest answer; absent and -1: what the context leaves"),
    SRV_BOOL_FIELD("logprobs", AT(want_logprobs), false, "log probability of every token"),
    SRV_OPT_INT_FIELD("top_logprobs", AT(top_logprobs), 0, SRV_MAX_LOGPROBS, -1,
                      "with logprobs: so many alternatives to each token"),
    SRV_VALUE_FIELD("tool_choice", AT(dialog.tool_choice), SRV_TOOL_CHOICE_SCHEMA,
                    "whether tools may or must be called, and which"),
    SRV_BOOL_FIELD("parallel_tool_calls", AT(dialog.parallel_tool_calls), true,
                   "more than one call in an answer"),
    SRV_BOOL_FIELD("include_reasoning", AT(include_reasoning), true,
                   "answer with reasoning_content"),
    SRV_BOOL_FIELD("add_special_tokens", AT(dialog.add_special_tokens), false,
                   "begin with the start token even if the template does not write it"),
    SRV_VALUE_FIELD("modalities", AT(modalities),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"const\":\"text\"}",
                    "only text is supported"),
    SRV_REFUSED_FIELD("functions", "use tools"),
    SRV_REFUSED_FIELD("function_call", "use tool_choice"),
    SRV_REFUSED_FIELD("audio", "speech"),
    SRV_REFUSED_FIELD("prediction", "predicted outputs"),
    SRV_REFUSED_FIELD("web_search_options", "searching the web"),
    SRV_IGNORED_FIELD("reasoning_effort", "the template decides"),
    SRV_IGNORED_FIELD("verbosity", "the model decides"),
};
static const struct srv_table own = {own_rows, TR_ARRAY_LEN(own_rows)};
static const struct srv_table *const tables[] = {&srv_apply_template_fields, &own,
                                                 &srv_common_fields};

static int check(struct srv_params *p, struct tr_err *err)
{
    if (p->top_logprobs > 0 && !p->want_logprobs)
        return tr_err_set(err, TR_EINVAL, "top_logprobs",
                          "top_logprobs: only allowed with \"logprobs\": true");
    if (p->max_tokens == 0 && p->prompt_logprobs < 0)
        return tr_err_set(err, TR_EINVAL, "max_tokens",
                          "max_tokens: 0 is allowed with prompt_logprobs only");
    p->logprobs = p->want_logprobs ? TR_MAX(p->top_logprobs, 0) : -1;
    for (size_t i = 0; i < tr_json_size(&p->modalities); i++) {
        struct tr_json item = tr_json_at(&p->modalities, i);
        const char *s;
        int r = tr_json_as_string(&item, &s, NULL, err);
        if (r == 0 && strcmp(s, "text") != 0)
            r = tr_json_fail(&p->modalities, err, "only \"text\" is supported");
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_request(struct srv_call *c, struct tr_err *err)
{
    int r = check(&c->params, err);
    return r < 0 ? r : srv_dialog_read(c, err);
}

/* ---- parts of an answer ---- */

void srv_call_id(struct tr_buf *out, const struct srv_choice *ch, int number)
{
    /* The call's own id without its prefix; after it, what tells its choices and their calls
     * apart. */
    const char *id = ch->call->id + strlen(ch->call->api->id_prefix);
    struct tr_buf text = {0};
    tr_buf_addf(&text, "call_%s_%d_%d", id, ch->index, number);
    tr_json_quote(out, text.data, text.len);
    out->oom |= text.oom;
    tr_buf_done(&text);
}

static void add_text(struct tr_buf *out, const struct tr_buf *text)
{
    tr_json_quote(out, text->data ? text->data : "", text->len);
}

/* Reasoning under each name that clients look for. */
static void add_reasoning(struct tr_buf *out, const struct srv_call *c, const char *text, size_t n)
{
    tr_buf_adds(out, "\"reasoning_content\":");
    tr_json_quote(out, text, n);
    if (c->context.reasoning_alias) {
        tr_buf_adds(out, ",\"reasoning\":");
        tr_json_quote(out, text, n);
    }
}

static void add_logprobs(struct tr_buf *out, const struct srv_choice *ch)
{
    if (ch->call->params.logprobs < 0 || ch->logprobs.n == 0) {
        tr_buf_adds(out, "null");
        return;
    }
    tr_buf_adds(out, "{\"content\":[");
    tr_buf_add(out, ch->logprobs.part[0].data, ch->logprobs.part[0].len);
    tr_buf_adds(out, "],\"refusal\":null}");
}

static const char *finish_reason(const struct srv_choice *ch)
{
    /* A cut answer may hold complete calls, but nobody knows whether they were all. */
    return ch->turn.n_calls > 0 && ch->stop != SRV_STOP_LENGTH ? "tool_calls"
                                                               : srv_choice_reason(ch);
}

/* ---- the whole answer ---- */

static void add_calls(struct tr_buf *out, const struct srv_choice *ch)
{
    const char *sep = "";
    tr_buf_adds(out, ",\"tool_calls\":[");
    for (int i = 0; i < ch->turn.n_parts; i++) {
        const struct srv_part *p = &ch->turn.parts[i];
        if (p->kind != SRV_PART_CALL)
            continue;
        tr_buf_addf(out, "%s{\"id\":", sep);
        srv_call_id(out, ch, p->call);
        tr_buf_adds(out, ",\"type\":\"function\",\"function\":{\"name\":");
        add_text(out, &p->name);
        tr_buf_adds(out, ",\"arguments\":");
        add_text(out, &p->text);
        tr_buf_adds(out, "}}");
        sep = ",";
    }
    tr_buf_addc(out, ']');
}

static void add_choice(struct tr_buf *out, struct srv_choice *ch)
{
    struct tr_buf reasoning = {0}, content = {0};
    srv_turn_text(&ch->turn, SRV_PART_REASONING, &reasoning);
    srv_turn_text(&ch->turn, SRV_PART_CONTENT, &content);
    tr_buf_addf(out, "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", ch->index);
    if (ch->turn.n_calls > 0 && content.len == 0)
        tr_buf_adds(out, "null");
    else
        add_text(out, &content);
    tr_buf_adds(out, ",\"refusal\":null");
    if (reasoning.len > 0) {
        tr_buf_addc(out, ',');
        add_reasoning(out, ch->call, reasoning.data, reasoning.len);
    }
    if (ch->turn.n_calls > 0)
        add_calls(out, ch);
    tr_buf_adds(out, "},\"logprobs\":");
    add_logprobs(out, ch);
    tr_buf_addf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":", finish_reason(ch));
    srv_openai_stop_reason(out, ch);
    srv_openai_token_ids(out, ch);
    srv_openai_prompt(out, ch);
    tr_buf_addc(out, '}');
    out->oom |= reasoning.oom | content.oom;
    tr_buf_done(&reasoning);
    tr_buf_done(&content);
}

static void answer(struct srv_call *c)
{
    srv_openai_answer(c, OBJECT, add_choice);
}

/* ---- the stream ---- */

static void begin_frame(struct srv_choice *ch)
{
    struct tr_buf *out = &ch->call->req->out;
    tr_buf_adds(out, "data: ");
    srv_openai_head(ch->call, CHUNK);
    tr_buf_addf(out, "{\"index\":%d,\"delta\":{", ch->index);
}

/* Behind the delta. What the token brought beside text goes with its first frame. */
static void end_frame(struct srv_choice *ch, const char *reason)
{
    struct tr_buf *out = &ch->call->req->out;
    tr_buf_adds(out, "},\"logprobs\":");
    add_logprobs(out, ch);
    tr_buf_addf(out, reason ? ",\"finish_reason\":\"%s\"" : ",\"finish_reason\":null", reason);
    if (reason) {
        tr_buf_adds(out, ",\"stop_reason\":");
        srv_openai_stop_reason(out, ch);
    }
    srv_openai_token_ids(out, ch);
    tr_buf_addc(out, '}');
    srv_openai_chunk_end(out, ch->call);
    ch->spoke = true;
    srv_choice_written(ch);
}

/* The first frame says who speaks, and what was asked about the prompt. */
static void begin_message(struct srv_choice *ch)
{
    struct tr_buf *out = &ch->call->req->out;
    if (ch->begun)
        return;
    ch->begun = true;
    begin_frame(ch);
    tr_buf_adds(out, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null");
    srv_openai_prompt(out, ch);
    tr_buf_addc(out, '}');
    srv_openai_chunk_end(out, ch->call);
}

static void part(struct srv_choice *ch, const struct srv_part_event *e)
{
    struct tr_buf *out = &ch->call->req->out;
    bool call = e->part->kind == SRV_PART_CALL;
    if (e->step == SRV_PART_END || (e->step == SRV_PART_BEGIN && !call))
        return;
    begin_message(ch);
    begin_frame(ch);
    if (e->step == SRV_PART_BEGIN) {
        tr_buf_addf(out, "\"tool_calls\":[{\"index\":%d,\"id\":", e->part->call);
        srv_call_id(out, ch, e->part->call);
        tr_buf_adds(out, ",\"type\":\"function\",\"function\":{\"name\":");
        add_text(out, &e->part->name);
        tr_buf_adds(out, ",\"arguments\":\"\"}}]");
    } else if (call) {
        tr_buf_addf(out,
                    "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", e->part->call);
        tr_json_quote(out, e->text, e->n);
        tr_buf_adds(out, "}}]");
    } else if (e->part->kind == SRV_PART_REASONING) {
        add_reasoning(out, ch->call, e->text, e->n);
    } else {
        tr_buf_adds(out, "\"content\":");
        tr_json_quote(out, e->text, e->n);
    }
    end_frame(ch, NULL);
}

/* A token that was held back, or had no text, still has its frame: clients count them. */
static void chunk(struct srv_choice *ch)
{
    begin_message(ch);
    if (!ch->spoke && ch->stop == SRV_STOP_NONE) {
        begin_frame(ch);
        tr_buf_adds(&ch->call->req->out, "\"content\":\"\"");
        end_frame(ch, NULL);
    }
    if (ch->stop != SRV_STOP_NONE) {
        begin_frame(ch);
        end_frame(ch, finish_reason(ch));
    }
    ch->spoke = false;
}

static void end(struct srv_call *c)
{
    srv_openai_end(c, CHUNK);
}

static const struct srv_api api = {
    .id_prefix = "chatcmpl-",
    .default_max_tokens = -1,
    .read = read_request,
    .logprob = srv_chat_logprob,
    .part = part,
    .chunk = chunk,
    .end = end,
    .fault = srv_openai_fault,
    .answer = answer,
};

const struct srv_route srv_chat_route = {
    .path = "/v1/chat/completions",
    .doc = "Answer a conversation",
    .flags = SRV_ROUTE_STREAMS,
    .post = srv_call_start,
    .api = &api,
    .tables = tables,
    .n_tables = TR_ARRAY_LEN(tables),
    .rules = SRV_REQUIRED("\"messages\""),
};

/* ---- /apply-template ---- */

static const struct srv_table *const template_tables[] = {&srv_apply_template_fields};

static int add_prompt(struct srv_req *req, void *params, struct tr_err *err)
{
    struct srv_params *p = params;
    struct tr_rendered prompt = {0};
    int r = srv_dialog_check_tools(&p->dialog, err);
    if (r == 0)
        r = srv_dialog_render(req->model->chat, &p->dialog, &prompt, err);
    if (r == 0) {
        tr_buf_adds(&req->out, "{\"prompt\":");
        tr_json_quote(&req->out, prompt.text, prompt.n);
        tr_buf_addc(&req->out, '}');
    }
    tr_rendered_done(&prompt);
    return r;
}

static int apply_template(struct srv_req *req, struct tr_err *err)
{
    struct srv_params p = {0};
    return srv_body_take(req, template_tables, 1, false, &p, add_prompt, err);
}

static void post_template(struct srv_req *req)
{
    srv_task_run(req, apply_template);
}

const struct srv_route srv_apply_template_route = {
    .path = "/apply-template",
    .doc = "Messages to the prompt they make",
    .post = post_template,
    .tables = template_tables,
    .n_tables = TR_ARRAY_LEN(template_tables),
    .rules = SRV_REQUIRED("\"messages\""),
};
