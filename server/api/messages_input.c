#include "server/api/messages_input.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

#include "server/api/translate.h"
#include "server/log.h"

/* This API's own bounds; tools are bounded by the body. */
enum { MAX_TOOLS = INT_MAX, MAX_TOOL_NAME = 128 };

#define AT(member) offsetof(struct srv_params, member)

#define MESSAGES_SCHEMA                                                                            \
    "\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"properties\":{"            \
    "\"role\":{\"enum\":[\"user\",\"assistant\",\"system\"]},\"content\":{\"anyOf\":["             \
    "{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"    \
    "\"type\":{\"enum\":[\"text\",\"tool_use\",\"tool_result\",\"thinking\","                      \
    "\"redacted_thinking\"]}},\"required\":[\"type\"]}}]}},\"required\":[\"role\",\"content\"]}"
#define TOOLS_SCHEMA                                                                               \
    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\","                                \
    "\"properties\":{\"type\":{\"type\":\"string\"},\"name\":{\"type\":\"string\",\"minLength\":"  \
    "1,"                                                                                           \
    "\"maxLength\":128},\"input_schema\":{\"type\":\"object\"},"                                   \
    "\"strict\":{\"type\":[\"boolean\",\"null\"]}}}"

static const struct srv_field rows[] = {
    SRV_VALUE_FIELD("messages", AT(dialog.messages), MESSAGES_SCHEMA,
                    "the conversation so far; a last one of the assistant is continued"),
    SRV_OPT_INT_FIELD("max_tokens", AT(max_tokens), 1, INT64_MAX, -1, "longest answer"),
    SRV_VALUE_FIELD("system", AT(system),
                    "\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":"
                    "{\"type\":\"object\"}},{\"type\":\"null\"}]",
                    "the system message"),
    SRV_VALUE_FIELD("tools", AT(dialog.tools), TOOLS_SCHEMA, "functions that the model may call"),
    SRV_VALUE_FIELD("tool_choice", AT(dialog.tool_choice),
                    "\"anyOf\":[{\"type\":\"null\"},{\"type\":\"object\",\"properties\":{"
                    "\"type\":{\"enum\":[\"auto\",\"any\",\"tool\",\"none\"]},"
                    "\"name\":{\"type\":\"string\"},"
                    "\"disable_parallel_tool_use\":{\"type\":[\"boolean\",\"null\"]}},"
                    "\"required\":[\"type\"]}]",
                    "whether tools may or must be called, and which"),
    SRV_VALUE_FIELD("stop_sequences", AT(stop),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\",\"minLength\":1},"
                    "\"maxItems\":64",
                    "the answer ends before the first of these texts"),
    SRV_VALUE_FIELD("thinking", AT(thinking),
                    "\"anyOf\":[{\"type\":\"null\"},{\"type\":\"object\",\"properties\":{\"type\":"
                    "{\"enum\":[\"enabled\",\"adaptive\",\"disabled\"]}},\"required\":[\"type\"]}]",
                    "sets the template's enable_thinking"),
    SRV_VALUE_FIELD("chat_template_kwargs", AT(dialog.kwargs), "\"type\":[\"object\",\"null\"]",
                    "variables for the template"),
    SRV_VALUE_FIELD("output_config", AT(output_config), "\"type\":[\"object\",\"null\"]",
                    "format: as output_format"),
    SRV_INT_FIELD("n", AT(n), 1, 1, 1, "one answer"),
    SRV_VALUE_FIELD("output_format", AT(output_format), "\"type\":[\"object\",\"null\"]",
                    "the answer's format: as response_format, with the schema beside the type"),
    SRV_REFUSED_FIELD("mcp_servers", "tools of other servers"),
    SRV_REFUSED_FIELD("container", "running code"),
    SRV_REFUSED_FIELD("return_token_ids", "ids; /v1/chat/completions has them"),
    SRV_REFUSED_FIELD("prompt_logprobs", "log probabilities; /v1/chat/completions has them"),
    SRV_REFUSED_FIELD("timings", "a ledger; /v1/chat/completions has one"),
    SRV_IGNORED_FIELD("context_management", "the context is what is sent"),
};
const struct srv_table srv_messages_fields = {rows, TR_ARRAY_LEN(rows)};

/* ---- blocks ---- */

static const char *const text_types[] = {"text", NULL};

static int take_result(struct srv_translation *t, const struct tr_json *block, struct tr_err *err)
{
    return srv_translate_tool_result(t, block, "tool_use_id", "content", text_types, err);
}

static int take_text(struct srv_translation *t, const struct tr_json *block, json_t **parts,
                     struct tr_err *err)
{
    struct tr_json text = tr_json_get(block, "text");
    int r = tr_json_expect(&text, TR_JSON_STRING, err);
    if (r < 0)
        return r;
    if (!*parts)
        *parts = json_array();
    t->oom |= json_array_append_new(*parts,
                                    json_pack("{s:s,s:O}", "type", "text", "text", text.node)) < 0;
    return 0;
}

static int take_user(struct srv_translation *t, const struct tr_json *blocks, struct tr_err *err)
{
    json_t *said = NULL; /* text between results of tools */
    int r = 0;
    for (size_t i = 0; r == 0 && i < tr_json_size(blocks); i++) {
        struct tr_json block = tr_json_at(blocks, i);
        const char *type;
        size_t n;
        r = tr_json_string(&block, "type", &type, &n, err);
        if (r < 0)
            break;
        if (strcmp(type, "text") == 0) {
            r = take_text(t, &block, &said, err);
        } else if (strcmp(type, "tool_result") == 0) {
            if (said)
                srv_translate_message(t, "user", said);
            said = NULL;
            r = take_result(t, &block, err);
        } else {
            r = tr_json_fail(&block, err, "a user's blocks are text and tool_result");
        }
    }
    if (r == 0 && said)
        srv_translate_message(t, "user", said);
    else
        json_decref(said);
    return r;
}

static int take_thinking(struct srv_translation *t, const struct tr_json *block, struct tr_err *err)
{
    struct tr_json text = tr_json_get(block, "thinking");
    int r = tr_json_expect(&text, TR_JSON_STRING, err);
    if (r == 0)
        srv_translate_thought(t, &text);
    return r;
}

static int take_assistant(struct srv_translation *t, const struct tr_json *blocks,
                          struct tr_err *err)
{
    json_t *parts = NULL;
    int r = 0;
    for (size_t i = 0; r == 0 && i < tr_json_size(blocks); i++) {
        struct tr_json block = tr_json_at(blocks, i);
        const char *type;
        size_t n;
        r = tr_json_string(&block, "type", &type, &n, err);
        if (r < 0)
            break;
        bool text = strcmp(type, "text") == 0;
        if (!text && parts) {
            srv_translate_said(t, parts);
            parts = NULL;
        }
        if (text)
            r = take_text(t, &block, &parts, err);
        else if (strcmp(type, "tool_use") == 0)
            r = srv_translate_use(t, &block, "id", "input", TR_JSON_OBJECT, err);
        else if (strcmp(type, "thinking") == 0)
            r = take_thinking(t, &block, err);
        else if (strcmp(type, "redacted_thinking") != 0) /* nobody here can read that */
            r = tr_json_fail(&block, err, "an assistant's blocks are text, tool_use and thinking");
    }
    if (r == 0 && parts)
        srv_translate_said(t, parts);
    else
        json_decref(parts);
    return r;
}

static int take_message(struct srv_translation *t, const struct tr_json *message,
                        struct tr_err *err)
{
    struct tr_json content = tr_json_get(message, "content");
    struct json_t *parts;
    const char *role;
    size_t n;
    int r = tr_json_string(message, "role", &role, &n, err);
    if (r < 0)
        return r;
    bool assistant = strcmp(role, "assistant") == 0, user = strcmp(role, "user") == 0;
    if (!assistant && !user && strcmp(role, "system") != 0)
        return tr_json_fail(message, err, "the role must be user, assistant or system");
    t->turn = NULL;
    if (tr_json_type(&content) == TR_JSON_ARRAY && user)
        return take_user(t, &content, err);
    if (tr_json_type(&content) == TR_JSON_ARRAY && assistant)
        return take_assistant(t, &content, err);
    if (!tr_json_given(&content))
        return tr_json_fail(message, err, "content is missing");
    r = srv_translate_parts(&content, text_types, &parts, err);
    if (r == 0 && assistant)
        srv_translate_said(t, parts);
    else if (r == 0)
        srv_translate_message(t, user ? "user" : "system", parts);
    return r;
}

/* ---- the request ---- */

/* Claude Code puts a block of its own before the system message that is another in every request:
 * with it no two prompts would share a prefix, and it tells the model nothing. */
static void drop_billing_header(json_t *parts)
{
    static const char header[] = "x-anthropic-billing-header:";
    const char *text = json_string_value(json_object_get(json_array_get(parts, 0), "text"));
    if (text && strncmp(text, header, sizeof header - 1) == 0 && !strchr(text, '\n'))
        json_array_remove(parts, 0);
}

static int take_messages(struct srv_translation *t, struct srv_params *p, struct tr_err *err)
{
    const struct tr_json *messages = &p->dialog.messages;
    struct json_t *parts;
    int r = 0;
    if (tr_json_given(&p->system)) {
        r = srv_translate_parts(&p->system, text_types, &parts, err);
        if (r == 0) {
            drop_billing_header(parts);
            srv_translate_message(t, "system", parts);
        }
    }
    if (r == 0 && !tr_json_given(messages))
        r = tr_err_set(err, TR_EINVAL, "messages", "messages: missing");
    if (r == 0)
        r = tr_json_expect(messages, TR_JSON_ARRAY, err);
    if (r == 0 && tr_json_size(messages) == 0)
        r = tr_json_fail(messages, err, "an empty list");
    for (size_t i = 0; r == 0 && i < tr_json_size(messages); i++) {
        struct tr_json message = tr_json_at(messages, i);
        r = take_message(t, &message, err);
    }
    p->dialog.continue_final_message = t->turn != NULL;
    return r;
}

static int take_tools(struct srv_translation *t, const struct tr_json *tools, struct tr_err *err)
{
    int r = tr_json_given(tools) ? tr_json_expect(tools, TR_JSON_ARRAY, err) : 0;
    for (size_t i = 0; r == 0 && i < tr_json_size(tools); i++) {
        struct tr_json tool = tr_json_at(tools, i), name = tr_json_get(&tool, "name");
        struct tr_json schema = tr_json_get(&tool, "input_schema");
        const char *type = "custom";
        size_t n;
        r = tr_json_opt_string(&tool, "type", &type, &n, err);
        if (r == 0 && strcmp(type, "custom") != 0) {
            srv_log(SRV_LOG_DEBUG, NULL, "tools[%zu] is passed over: its type is %.64s", i, type);
            continue;
        }
        if (r == 0)
            r = tr_json_expect(&name, TR_JSON_STRING, err);
        if (r == 0)
            r = tr_json_expect(&schema, TR_JSON_OBJECT, err);
        if (r == 0)
            srv_translate_tool(t, &tool, &name, &schema);
    }
    return r;
}

static int take_choice(struct srv_translation *t, struct srv_dialog *d, struct tr_err *err)
{
    const struct tr_json *v = &d->tool_choice;
    const char *type;
    size_t n;
    bool single = false;
    d->parallel_tool_calls = true;
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_string(v, "type", &type, &n, err);
    if (r == 0)
        r = tr_json_opt_bool(v, "disable_parallel_tool_use", &single, err);
    if (r < 0)
        return r;
    d->parallel_tool_calls = !single;
    if (strcmp(type, "any") == 0)
        type = "required";
    else if (strcmp(type, "tool") != 0 && strcmp(type, "auto") != 0 && strcmp(type, "none") != 0)
        return tr_json_fail(v, err, "the types are auto, any, tool and none");
    struct tr_json name = tr_json_get(v, "name");
    if (strcmp(type, "tool") == 0)
        t->tool_choice = json_pack("{s:s,s:O*}", "type", "function", "name", name.node);
    else
        t->tool_choice = json_string(type);
    t->oom |= !t->tool_choice;
    return 0;
}

static int take_thinking_mode(struct srv_translation *t, const struct srv_params *p,
                              struct tr_err *err)
{
    const char *type;
    size_t n;
    if (!tr_json_given(&p->thinking))
        return 0;
    int r = tr_json_string(&p->thinking, "type", &type, &n, err);
    if (r == 0 && tr_json_given(&p->dialog.kwargs))
        r = tr_json_expect(&p->dialog.kwargs, TR_JSON_OBJECT, err);
    if (r == 0)
        srv_translate_kwarg(t, &p->dialog.kwargs, "enable_thinking", strcmp(type, "disabled") != 0);
    return r;
}

int srv_messages_translate(struct srv_params *p, struct srv_translation *t, struct tr_err *err)
{
    int r = take_messages(t, p, err);
    if (r == 0)
        r = take_tools(t, &p->dialog.tools, err);
    if (r == 0)
        r = take_choice(t, &p->dialog, err);
    if (r == 0)
        r = take_thinking_mode(t, p, err);
    p->dialog.max_tools = MAX_TOOLS;
    p->dialog.max_tool_name = MAX_TOOL_NAME;
    return r < 0 ? r : srv_translation_use(t, &p->dialog, err);
}

int srv_messages_read(struct srv_call *c, struct tr_err *err)
{
    struct srv_translation t = {0};
    if (c->params.max_tokens < 0)
        return tr_err_set(err, TR_EINVAL, "max_tokens", "max_tokens: missing");
    c->params.include_reasoning = true;
    c->params.logprobs = -1;
    int r = srv_messages_translate(&c->params, &t, err);
    if (r == 0)
        r = srv_dialog_read(c, err);
    srv_translation_done(&t);
    return r;
}
