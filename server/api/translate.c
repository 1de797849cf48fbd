#include "server/api/translate.h"

#include <jansson.h>
#include <string.h>

void srv_translation_done(struct srv_translation *t)
{
    json_decref(t->messages);
    json_decref(t->tools);
    json_decref(t->kwargs);
    json_decref(t->tool_choice);
    tr_buf_done(&t->thought);
    *t = (struct srv_translation){0};
}

static void set(struct srv_translation *t, json_t *object, const char *key, json_t *value)
{
    t->oom |= json_object_set_new(object, key, value) < 0;
}

/* A message's reasoning is put together once all of it is known: parts may be many. */
static void end_thought(struct srv_translation *t)
{
    if (!t->thinker)
        return;
    t->oom |= t->thought.oom;
    set(t, t->thinker, "reasoning_content",
        json_stringn(t->thought.data ? t->thought.data : "", t->thought.len));
    tr_buf_clear(&t->thought);
    t->thinker = NULL;
}

int srv_translation_use(struct srv_translation *t, struct srv_dialog *d, struct tr_err *err)
{
    static const struct tr_json top = {0};
    end_thought(t);
    if (t->oom)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    d->messages = tr_json_root(t->messages, NULL);
    d->tools = (struct tr_json){.node = t->tools, .up = &top, .key = "tools", .key_bytes = 5};
    if (t->kwargs)
        d->kwargs = tr_json_root(t->kwargs, NULL);
    if (t->tool_choice)
        d->tool_choice = tr_json_root(t->tool_choice, NULL);
    return 0;
}

/* ---- parts ---- */

static int translate_part(const struct tr_json *part, const char *const *types, json_t *to,
                          struct tr_err *err)
{
    const char *type, *text;
    size_t n;
    int r = tr_json_string(part, "type", &type, &n, err);
    if (r < 0)
        return r;
    while (*types && strcmp(*types, type) != 0)
        types++;
    if (!*types)
        return tr_json_fail(part, err, "parts of this type are not supported");
    r = tr_json_string(part, "text", &text, &n, err);
    if (r < 0)
        return r;
    struct tr_json v = tr_json_get(part, "text");
    return json_array_append_new(to, json_pack("{s:s,s:O}", "type", "text", "text", v.node)) < 0
               ? TR_ENOMEM
               : 0;
}

int srv_translate_parts(const struct tr_json *v, const char *const *types, struct json_t **ret,
                        struct tr_err *err)
{
    json_t *list = json_array();
    enum tr_json_type type = tr_json_type(v);
    int r = list ? 0 : TR_ENOMEM;
    if (r == 0 && type == TR_JSON_STRING) {
        if (json_array_append_new(list, json_pack("{s:s,s:O}", "type", "text", "text", v->node)) <
            0)
            r = TR_ENOMEM;
    } else if (r == 0 && type == TR_JSON_ARRAY) {
        for (size_t i = 0; r == 0 && i < tr_json_size(v); i++) {
            struct tr_json part = tr_json_at(v, i);
            r = translate_part(&part, types, list, err);
        }
    } else if (r == 0 && tr_json_given(v)) {
        r = tr_json_fail(v, err, "expected string or array");
    }
    if (r < 0) {
        json_decref(list);
        return r == TR_ENOMEM ? tr_err_set(err, r, NULL, "out of memory") : r;
    }
    *ret = list;
    return 0;
}

/* ---- messages ---- */

/* Appends to a list that is made when it is needed. */
static void append(struct srv_translation *t, json_t **list, json_t *item)
{
    if (!*list)
        *list = json_array();
    t->oom |= json_array_append_new(*list, item) < 0;
}

void srv_translate_message(struct srv_translation *t, const char *role, struct json_t *content)
{
    t->turn = NULL;
    append(t, &t->messages, json_pack("{s:s,s:o}", "role", role, "content", content));
}

int srv_translate_tool_result(struct srv_translation *t, const struct tr_json *object,
                              const char *id_name, const char *content_name,
                              const char *const *types, struct tr_err *err)
{
    struct tr_json id = tr_json_get(object, id_name), content = tr_json_get(object, content_name);
    struct json_t *parts = NULL;
    int r = tr_json_expect(&id, TR_JSON_STRING, err);
    if (r == 0)
        r = srv_translate_parts(&content, types, &parts, err);
    if (r < 0)
        return r;
    t->turn = NULL;
    append(t, &t->messages,
           json_pack("{s:s,s:O,s:o}", "role", "tool", "tool_call_id", id.node, "content", parts));
    return 0;
}

void srv_translate_foreign(struct srv_translation *t, const struct tr_json *item)
{
    struct tr_buf text = {0};
    tr_json_write(&text, item);
    t->oom |= text.oom;
    json_t *part = json_pack("{s:s,s:o}", "type", "text", "text",
                             json_stringn(text.data ? text.data : "", text.len));
    srv_translate_said(t, json_pack("[o]", part));
    tr_buf_done(&text);
}

/* The assistant's message; a new one if the open one has any of the keys already, for the order
 * matters. */
static json_t *turn(struct srv_translation *t, const char *has, const char *has_too)
{
    if (t->turn && (json_object_get(t->turn, has) || json_object_get(t->turn, has_too)))
        t->turn = NULL;
    if (!t->turn) {
        json_t *message = json_pack("{s:s}", "role", "assistant");
        append(t, &t->messages, message);
        t->turn = t->oom ? NULL : message;
    }
    return t->turn;
}

void srv_translate_said(struct srv_translation *t, struct json_t *content)
{
    set(t, turn(t, "content", "tool_calls"), "content", content);
}

void srv_translate_thought(struct srv_translation *t, const struct tr_json *text)
{
    json_t *message = turn(t, "content", "tool_calls");
    if (message != t->thinker) {
        end_thought(t);
        set(t, message, "reasoning_content", json_null()); /* its place among the members */
        t->thinker = message;
    }
    tr_buf_add(&t->thought, json_string_value(text->node), json_string_length(text->node));
}

static void add_call(struct srv_translation *t, const struct tr_json *id,
                     const struct tr_json *name, const struct tr_json *arguments)
{
    json_t *message = turn(t, "", "");
    json_t *calls = json_object_get(message, "tool_calls");
    if (!calls) {
        calls = json_array();
        set(t, message, "tool_calls", calls);
    }
    json_t *call = json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id->node, "type", "function",
                             "function", "name", name->node, "arguments", arguments->node);
    if (t->oom)
        json_decref(call);
    else
        t->oom = json_array_append_new(calls, call) < 0;
}

int srv_translate_use(struct srv_translation *t, const struct tr_json *object, const char *id_name,
                      const char *input_name, enum tr_json_type input_type, struct tr_err *err)
{
    struct tr_json id = tr_json_get(object, id_name), name = tr_json_get(object, "name");
    struct tr_json input = tr_json_get(object, input_name);
    int r = tr_json_expect(&id, TR_JSON_STRING, err);
    if (r == 0)
        r = tr_json_expect(&name, TR_JSON_STRING, err);
    if (r == 0)
        r = tr_json_expect(&input, input_type, err);
    if (r == 0)
        add_call(t, &id, &name, &input);
    return r;
}

void srv_translate_tool(struct srv_translation *t, const struct tr_json *tool,
                        const struct tr_json *name, const struct tr_json *parameters)
{
    struct tr_json description = tr_json_get(tool, "description");
    struct tr_json strict = tr_json_get(tool, "strict");
    bool value = false;
    json_t *function = json_pack("{s:O}", "name", name->node);
    if (tr_json_given(&description))
        set(t, function, "description", json_incref(description.node));
    if (tr_json_given(parameters))
        set(t, function, "parameters", json_incref(parameters->node));
    if (tr_json_as_bool(&strict, &value, NULL) < 0 ? tr_json_given(&strict) : value)
        set(t, function, "strict", json_incref(strict.node)); /* prompts show no needless "false" */
    append(t, &t->tools, json_pack("{s:s,s:o}", "type", "function", "function", function));
}

void srv_translate_kwarg(struct srv_translation *t, const struct tr_json *given, const char *name,
                         bool value)
{
    t->kwargs = given->node ? json_copy(given->node) : json_object();
    if (!t->kwargs || !json_object_get(t->kwargs, name))
        set(t, t->kwargs, name, json_boolean(value));
}
