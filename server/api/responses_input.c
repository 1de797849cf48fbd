#include "server/api/responses_input.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "server/api/schema.h"
#include "server/api/translate.h"
#include "server/log.h"

#define AT(member) offsetof(struct srv_params, member)

#define INPUT_SCHEMA                                                                               \
    "\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"minItems\":1,\"items\":"               \
    "{\"type\":\"object\",\"properties\":{\"type\":{\"enum\":[\"message\",\"function_call\","      \
    "\"function_call_output\",\"reasoning\"]},\"role\":{\"enum\":[\"system\",\"developer\","       \
    "\"user\",\"assistant\"]}}}}]"
#define TOOLS_SCHEMA                                                                               \
    "\"type\":[\"array\",\"null\"],\"maxItems\":128,\"items\":{\"type\":\"object\","               \
    "\"properties\":{\"type\":{\"const\":\"function\"},\"name\":{\"type\":\"string\","             \
    "\"minLength\":1,\"maxLength\":64},\"parameters\":{\"type\":[\"object\",\"null\"]},"           \
    "\"strict\":{\"type\":[\"boolean\",\"null\"]}},"                                               \
    "\"required\":[\"type\",\"name\"]}"

static const struct srv_field rows[] = {
    SRV_VALUE_FIELD("input", AT(dialog.messages), INPUT_SCHEMA,
                    "text, or a list of items: messages, calls and what they returned"),
    SRV_VALUE_FIELD("instructions", AT(instructions), "\"type\":[\"string\",\"null\"]",
                    "a system message before the input"),
    SRV_OPT_INT_FIELD("max_output_tokens", AT(max_tokens), 1, INT64_MAX, -1,
                      "longest answer; absent: what the context leaves"),
    SRV_VALUE_FIELD("tools", AT(dialog.tools), TOOLS_SCHEMA, "functions that the model may call"),
    SRV_VALUE_FIELD("tool_choice", AT(dialog.tool_choice), SRV_TOOL_CHOICE_SCHEMA,
                    "whether tools may or must be called, and which"),
    SRV_BOOL_FIELD("parallel_tool_calls", AT(dialog.parallel_tool_calls), true,
                   "more than one call in an answer"),
    SRV_VALUE_FIELD("chat_template_kwargs", AT(dialog.kwargs), "\"type\":[\"object\",\"null\"]",
                    "variables for the template"),
    SRV_VALUE_FIELD("text", AT(text), "\"type\":[\"object\",\"null\"]",
                    "the answer's format: as response_format, with the schema beside the type"),
    SRV_VALUE_FIELD("include", AT(include),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"}",
                    "nothing that can be included exists here"),
    SRV_VALUE_FIELD("truncation", AT(truncation), "\"enum\":[\"disabled\",null]",
                    "a long input is refused, not cut"),
    SRV_VALUE_FIELD("metadata", AT(metadata), "\"type\":[\"object\",\"null\"]",
                    "comes back with the answer"),
    SRV_INT_FIELD("n", AT(n), 1, 1, 1, "one answer"),
    SRV_REFUSED_FIELD("previous_response_id", "nothing is stored: send the whole conversation"),
    SRV_REFUSED_FIELD("conversation", "nothing is stored: send the whole conversation"),
    SRV_REFUSED_FIELD("background", "nothing is stored: keep the connection"),
    SRV_REFUSED_FIELD("prompt", "nothing is stored"),
    SRV_REFUSED_FIELD("top_logprobs", "log probabilities; /v1/chat/completions has them"),
    SRV_REFUSED_FIELD("return_token_ids", "ids; /v1/chat/completions has them"),
    SRV_REFUSED_FIELD("prompt_logprobs", "log probabilities; /v1/chat/completions has them"),
    SRV_REFUSED_FIELD("timings", "a ledger; /v1/chat/completions has one"),
    SRV_IGNORED_FIELD("reasoning", "the template decides"),
    SRV_IGNORED_FIELD("max_tool_calls", "there are no built-in tools"),
};
const struct srv_table srv_responses_fields = {rows, TR_ARRAY_LEN(rows)};

/* ---- items ---- */

static const char *const said_types[] = {"input_text", "output_text", "text", NULL};

static int take_message(struct srv_translation *t, const struct tr_json *item, struct tr_err *err)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    struct tr_json content = tr_json_get(item, "content");
    struct json_t *parts;
    const char *role;
    int r = tr_json_string(item, "role", &role, NULL, err);
    if (r < 0)
        return r;
    size_t i = 0;
    while (i < TR_ARRAY_LEN(roles) && strcmp(roles[i], role) != 0)
        i++;
    if (i == TR_ARRAY_LEN(roles))
        return tr_json_fail(item, err, "the role must be system, developer, user or assistant");
    r = srv_translate_parts(&content, said_types, &parts, err);
    if (r < 0)
        return r;
    if (strcmp(role, "assistant") == 0)
        srv_translate_said(t, parts);
    else
        srv_translate_message(t, roles[i], parts);
    return 0;
}

static int take_call(struct srv_translation *t, const struct tr_json *item, struct tr_err *err)
{
    return srv_translate_use(t, item, "call_id", "arguments", TR_JSON_STRING, err);
}

static int take_output(struct srv_translation *t, const struct tr_json *item, struct tr_err *err)
{
    return srv_translate_tool_result(t, item, "call_id", "output", said_types, err);
}

/* The reasoning itself if it is there, else its summary. */
static int take_reasoning(struct srv_translation *t, const struct tr_json *item, struct tr_err *err)
{
    struct tr_json list = tr_json_get(item, "content");
    if (tr_json_size(&list) == 0)
        list = tr_json_get(item, "summary");
    for (size_t i = 0; i < tr_json_size(&list); i++) {
        struct tr_json part = tr_json_at(&list, i), text = tr_json_get(&part, "text");
        int r = tr_json_expect(&text, TR_JSON_STRING, err);
        if (r < 0)
            return r;
        srv_translate_thought(t, &text);
    }
    return 0;
}

/* A call of a tool that takes text instead of JSON. */
static int take_custom_call(struct srv_translation *t, const struct tr_json *item,
                            struct tr_err *err)
{
    return srv_translate_use(t, item, "call_id", "input", TR_JSON_STRING, err);
}

/* Clients with tools of their own send back what became of them. */
static int take_foreign(struct srv_translation *t, const struct tr_json *item, const char *type,
                        struct tr_err *err)
{
    struct tr_json id = tr_json_get(item, "call_id"), output = tr_json_get(item, "output");
    if (tr_ends_with(type, "_call_output") && tr_json_type(&id) == TR_JSON_STRING &&
        tr_json_type(&output) == TR_JSON_STRING)
        return take_output(t, item, err);
    if (!tr_ends_with(type, "_call") && !tr_ends_with(type, "_call_output"))
        return tr_json_fail(item, err, "items of this type are not supported");
    srv_translate_foreign(t, item);
    return 0;
}

static int take_item(struct srv_translation *t, const struct tr_json *item, struct tr_err *err)
{
    static const struct {
        const char *type;
        int (*take)(struct srv_translation *t, const struct tr_json *item, struct tr_err *err);
    } kinds[] = {{"message", take_message},
                 {"function_call", take_call},
                 {"function_call_output", take_output},
                 {"custom_tool_call", take_custom_call},
                 {"custom_tool_call_output", take_output},
                 {"reasoning", take_reasoning}};
    const char *type = "message";
    size_t n;
    int r = tr_json_expect(item, TR_JSON_OBJECT, err);
    if (r == 0)
        r = tr_json_opt_string(item, "type", &type, &n, err);
    for (size_t i = 0; r == 0 && i < TR_ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].type, type) == 0)
            return kinds[i].take(t, item, err);
    return r < 0 ? r : take_foreign(t, item, type, err);
}

static int take_input(struct srv_translation *t, const struct srv_params *p, struct tr_err *err)
{
    const struct tr_json *input = &p->dialog.messages, *instructions = &p->instructions;
    static const char *const no_types[] = {NULL};
    struct json_t *parts;
    int r = 0;
    if (tr_json_given(instructions)) {
        r = tr_json_expect(instructions, TR_JSON_STRING, err);
        if (r == 0)
            srv_translate_message(t, "system", json_incref(instructions->node));
    }
    if (r < 0)
        return r;
    if (!tr_json_given(input))
        return tr_err_set(err, TR_EINVAL, "input", "input: missing");
    if (tr_json_type(input) != TR_JSON_ARRAY) {
        r = srv_translate_parts(input, no_types, &parts, err);
        if (r == 0)
            srv_translate_message(t, "user", parts);
        return r;
    }
    if (tr_json_size(input) == 0)
        return tr_json_fail(input, err, "an empty list");
    for (size_t i = 0; r == 0 && i < tr_json_size(input); i++) {
        struct tr_json item = tr_json_at(input, i);
        r = take_item(t, &item, err);
    }
    return r;
}

static int take_tools(struct srv_translation *t, const struct tr_json *tools, struct tr_err *err)
{
    int r = tr_json_given(tools) ? tr_json_expect(tools, TR_JSON_ARRAY, err) : 0;
    for (size_t i = 0; r == 0 && i < tr_json_size(tools); i++) {
        struct tr_json tool = tr_json_at(tools, i), name = tr_json_get(&tool, "name");
        struct tr_json parameters = tr_json_get(&tool, "parameters");
        const char *type;
        size_t n;
        r = tr_json_string(&tool, "type", &type, &n, err);
        if (r == 0 && strcmp(type, "function") != 0) {
            srv_log(SRV_LOG_DEBUG, NULL, "tools[%zu] is passed over: its type is %.64s", i, type);
            continue;
        }
        if (r == 0)
            r = tr_json_expect(&name, TR_JSON_STRING, err);
        if (r == 0)
            srv_translate_tool(t, &tool, &name, &parameters);
    }
    return r;
}

/* ---- the rest ---- */

static int check(const struct srv_params *p, struct tr_err *err)
{
    const char *s;
    int r = tr_json_given(&p->text) ? tr_json_expect(&p->text, TR_JSON_OBJECT, err) : 0;
    if (r == 0 && tr_json_given(&p->truncation)) {
        r = tr_json_as_string(&p->truncation, &s, NULL, err);
        if (r == 0 && strcmp(s, "disabled") != 0)
            r = tr_json_fail(&p->truncation, err, "only \"disabled\" is supported");
    }
    for (size_t i = 0; r == 0 && i < tr_json_size(&p->include); i++) {
        struct tr_json item = tr_json_at(&p->include, i);
        r = tr_json_as_string(&item, &s, NULL, err);
        if (r == 0 && strcmp(s, "message.output_text.logprobs") == 0)
            r = tr_json_fail(&p->include, err, "log probabilities: use /v1/chat/completions");
    }
    if (r == 0 && tr_json_given(&p->metadata))
        r = tr_json_expect(&p->metadata, TR_JSON_OBJECT, err);
    return r;
}

static void add_value(struct tr_buf *out, const char *name, const struct tr_json *v,
                      const char *absent)
{
    tr_buf_addf(out, ",\"%s\":", name);
    if (tr_json_given(v))
        tr_json_write(out, v);
    else
        tr_buf_adds(out, absent);
}

/* The document is gone when the answer is written, which repeats these. */
static void keep_request(struct srv_call *c)
{
    const struct srv_params *p = &c->params;
    struct tr_buf *out = &c->repeated;
    add_value(out, "instructions", &p->instructions, "null");
    add_value(out, "metadata", &p->metadata, "{}");
    add_value(out, "tool_choice", &p->dialog.tool_choice, "\"auto\"");
    add_value(out, "tools", &p->dialog.tools, "[]");
    add_value(out, "text", &p->text, "{\"format\":{\"type\":\"text\"}}");
    tr_buf_addf(out, ",\"parallel_tool_calls\":%s,\"temperature\":%.9g,\"top_p\":%.9g",
                p->dialog.parallel_tool_calls ? "true" : "false", p->temperature, p->top_p);
    if (p->max_tokens >= 0)
        tr_buf_addf(out, ",\"max_output_tokens\":%lld", (long long)p->max_tokens);
    else
        tr_buf_adds(out, ",\"max_output_tokens\":null");
}

int srv_responses_read(struct srv_call *c, struct tr_err *err)
{
    struct srv_translation t = {0};
    int r = check(&c->params, err);
    if (r == 0)
        r = take_input(&t, &c->params, err);
    if (r == 0)
        r = take_tools(&t, &c->params.dialog.tools, err);
    if (r == 0) {
        keep_request(c);
        c->params.include_reasoning = true;
        c->params.logprobs = -1;
        c->params.dialog.param = "input";
        r = srv_translation_use(&t, &c->params.dialog, err);
    }
    if (r == 0)
        r = srv_dialog_read(c, err);
    srv_translation_done(&t);
    return r;
}
