#include "engine/text/chat.h"

#include <stdlib.h>
#include <string.h>

struct tr_chat {
    const struct tr_tokenizer *tokenizer; /* borrowed */
    struct tr_template *template;         /* owned */
    enum tr_tool_format tool_format;
};

/* The text of a token; NULL if there is none. */
static const char *token_text(const struct tr_tokenizer *t, int32_t id)
{
    return id < 0 ? NULL : tr_tokenizer_raw(t, id);
}

static int render(const struct tr_chat *c, const struct tr_chat_request *q, struct tr_rendered *ret,
                  struct tr_err *err)
{
    struct tr_template_input input = {
        .messages = q->messages,
        .tools = q->tools && tr_json_size(q->tools) > 0 ? q->tools : NULL,
        .documents = q->documents,
        .add_generation_prompt = q->add_generation_prompt,
        .continue_final_message = q->continue_final_message,
        .bos_token = token_text(c->tokenizer, tr_tokenizer_bos(c->tokenizer)),
        .eos_token = token_text(c->tokenizer, tr_tokenizer_eos(c->tokenizer)),
        .pad_token = token_text(c->tokenizer, tr_tokenizer_pad(c->tokenizer)),
        .variables = q->kwargs,
        .now = q->now,
    };
    return tr_template_render(c->template, &input, ret, err);
}

/* Chats of the kinds that templates tell apart. */
static const char *const probes[] = {
    "[{\"role\": \"user\", \"content\": \"a\"}]",
    "[{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}]",
    "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]",
};

/* Whether the template renders, or says itself why it does not want to. */
static int try_one(const struct tr_chat *c, const char *messages, struct tr_err *err)
{
    struct json_t *doc;
    int r = tr_json_parse(&doc, messages, strlen(messages), err);
    if (r < 0)
        return r;
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_chat_request q = {.messages = &root, .add_generation_prompt = true};
    struct tr_rendered out = {0};
    struct tr_err why = {0};
    r = render(c, &q, &out, &why);
    if (r < 0 && err)
        *err = why;
    tr_rendered_done(&out);
    tr_json_free(doc);
    return r == TR_EINVAL && why.param[0] ? 0 : r; /* only raise_exception names a parameter here */
}

int tr_chat_open(struct tr_chat **ret, const struct tr_tokenizer *tokenizer, const char *source,
                 struct tr_err *err)
{
    if (!source)
        source = tr_tokenizer_chat_template(tokenizer);
    if (!source)
        return tr_err_set(err, TR_ENOTFOUND, NULL, "the checkpoint has no chat template");
    struct tr_chat *c = calloc(1, sizeof *c);
    if (!c)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    c->tokenizer = tokenizer;
    c->tool_format = tr_tool_format_of(source, strlen(source));
    int r = tr_template_load(&c->template, source, strlen(source), err);
    bool works = false;
    for (size_t i = 0; r == 0 && i < TR_ARRAY_LEN(probes); i++) {
        int tried = try_one(c, probes[i], err);
        works |= tried == 0;
        if (tried < 0 && tried != TR_EINVAL)
            r = tried;
    }
    if (r == 0 && !works)
        r = TR_EINVAL;
    if (r < 0) {
        tr_chat_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct tr_chat *tr_chat_close(struct tr_chat *c)
{
    if (c)
        tr_template_free(c->template);
    free(c);
    return NULL;
}

enum tr_tool_format tr_chat_tool_format(const struct tr_chat *c)
{
    return c->tool_format;
}

/* Variables that the request sets by fields of their own. */
static int check_kwargs(const struct tr_json *kwargs, struct tr_err *err)
{
    static const char *const fixed[] = {"messages", "tools", "documents", "add_generation_prompt"};
    const char *const param = "chat_template_kwargs";
    if (tr_json_type(kwargs) != TR_JSON_OBJECT)
        return tr_err_set(err, TR_EINVAL, param, "%s: expected an object", param);
    for (size_t i = 0; i < TR_ARRAY_LEN(fixed); i++) {
        if (tr_json_get(kwargs, fixed[i]).node)
            return tr_err_set(err, TR_EINVAL, param, "%s: %s has a field of its own", param,
                              fixed[i]);
    }
    return 0;
}

int tr_chat_render(const struct tr_chat *c, const struct tr_chat_request *request,
                   struct tr_rendered *ret, struct tr_err *err)
{
    struct tr_chat_request q = *request;
    if (!q.messages || !tr_json_given(q.messages))
        return tr_err_set(err, TR_EINVAL, "messages", "messages: missing");
    if (q.tools && tr_json_given(q.tools) && tr_json_type(q.tools) != TR_JSON_ARRAY)
        return tr_err_set(err, TR_EINVAL, "tools", "tools: expected a list");
    if (q.continue_final_message && q.add_generation_prompt)
        return tr_err_set(err, TR_EINVAL, "continue_final_message",
                          "continue_final_message and add_generation_prompt exclude each other");
    if (q.kwargs && !tr_json_given(q.kwargs))
        q.kwargs = NULL;
    int r = q.kwargs ? check_kwargs(q.kwargs, err) : 0;
    return r < 0 ? r : render(c, &q, ret, err);
}

int tr_chat_encode(const struct tr_chat *c, const struct tr_rendered *prompt, size_t max_ids,
                   struct tr_ids *ret)
{
    return tr_tokenizer_encode_spans(c->tokenizer, prompt->text, prompt->n, prompt->data,
                                     prompt->n_data, TR_ENCODE_SPECIAL, max_ids, ret);
}
