#include "engine/text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/reasoning.h"

/* A template and what was found out about it. */
struct form {
    struct tr_template *template; /* owned; NULL: there is none */
    bool typed;                   /* walks through the parts of a content */
};

struct tr_chat {
    const struct tr_tokenizer *tokenizer; /* borrowed */
    struct form plain, tools;             /* tools: of chats with tools, if it is another one */
    enum tr_tool_format tool_format;
};

/* The text of a token; NULL if there is none. */
static const char *token_text(const struct tr_tokenizer *t, int32_t id)
{
    return id < 0 ? NULL : tr_tokenizer_raw(t, id);
}

static int render(const struct tr_chat *c, const struct form *form, const struct tr_chat_request *q,
                  struct tr_rendered *ret, struct tr_err *err)
{
    struct tr_template_input input = {
        .messages = q->messages,
        .tools = q->tools && tr_json_size(q->tools) > 0 ? q->tools : NULL,
        .documents = q->documents,
        .add_generation_prompt = q->add_generation_prompt,
        .typed_content = form->typed,
        .continue_final_message = q->continue_final_message,
        .bos_token = token_text(c->tokenizer, tr_tokenizer_bos(c->tokenizer)),
        .eos_token = token_text(c->tokenizer, tr_tokenizer_eos(c->tokenizer)),
        .pad_token = token_text(c->tokenizer, tr_tokenizer_pad(c->tokenizer)),
        .variables = q->kwargs,
        .now = q->now,
    };
    return tr_template_render(form->template, &input, ret, err);
}

/* ---- what a template can do ---- */

#define PARAMETERS "\"parameters\":{\"type\":\"object\",\"properties\":{}}"
static const char a_tool[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                             "\"description\":\"d\"," PARAMETERS "}}]";

/* Chats of the kinds that templates tell apart. */
static const char *const probes[] = {
    "[{\"role\": \"user\", \"content\": \"a\"}]",
    "[{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}]",
    "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]",
};

/* Renders a probe; ret (NULL: not wanted) gets the text. */
static int probe(const struct tr_chat *c, const struct form *form, const char *messages,
                 const char *tools, struct tr_rendered *ret, struct tr_err *err)
{
    struct json_t *doc = NULL, *tools_doc = NULL;
    int r = tr_json_parse(&doc, messages, strlen(messages), err);
    if (r == 0 && tools)
        r = tr_json_parse(&tools_doc, tools, strlen(tools), err);
    if (r == 0) {
        struct tr_json root = tr_json_root(doc, NULL), list = tr_json_root(tools_doc, NULL);
        struct tr_chat_request q = {
            .messages = &root, .tools = tools ? &list : NULL, .add_generation_prompt = true};
        struct tr_rendered out = {0};
        r = render(c, form, &q, &out, err);
        if (r == 0 && ret)
            *ret = out;
        else
            tr_rendered_done(&out);
    }
    tr_json_free(doc);
    tr_json_free(tools_doc);
    return r;
}

/* Whether the template renders some chat, or says itself why it does not want to. */
static int try_out(const struct tr_chat *c, const struct form *form, struct tr_err *err)
{
    bool works = false;
    for (size_t i = 0; i < 2 * TR_ARRAY_LEN(probes); i++) {
        struct tr_err why = {0};
        int r = probe(c, form, probes[i / 2], i % 2 ? a_tool : NULL, NULL, &why);
        if (r < 0 && (i == 0 || r != TR_EINVAL) && err)
            *err = why;
        if (r < 0 && r != TR_EINVAL)
            return r;
        works |= r == 0 || why.param[0]; /* only raise_exception names a parameter here */
    }
    return works ? 0 : TR_EINVAL;
}

/* A template that walks through parts shows the text of one, and not the list that holds it. */
static bool walks_parts(const struct tr_chat *c, const struct form *form)
{
    static const char messages[] =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"in a part\"}]}]";
    const struct form typed = {.template = form->template, .typed = true};
    struct tr_rendered out = {0};
    if (probe(c, &typed, messages, NULL, &out, NULL) < 0 &&
        probe(c, &typed, messages, a_tool, &out, NULL) < 0)
        return false;
    bool walks = strstr(out.text, "in a part") && !strstr(out.text, "'type'") &&
                 !strstr(out.text, "\"type\": \"text\"") && !strstr(out.text, "\"type\":\"text\"");
    tr_rendered_done(&out);
    return walks;
}

static int open_form(const struct tr_chat *c, struct form *form, const char *source,
                     struct tr_err *err)
{
    int r = tr_template_load(&form->template, source, strlen(source), err);
    if (r == 0)
        r = try_out(c, form, err);
    if (r == 0)
        form->typed = walks_parts(c, form);
    return r;
}

int tr_chat_open(struct tr_chat **ret, const struct tr_tokenizer *tokenizer, const char *source,
                 struct tr_err *err)
{
    const char *tools = source ? NULL : tr_tokenizer_tool_template(tokenizer);
    if (!source)
        source = tr_tokenizer_chat_template(tokenizer);
    if (!source && !tools)
        return tr_err_set(err, TR_ENOTFOUND, NULL, "the checkpoint has no chat template");
    struct tr_chat *c = calloc(1, sizeof *c);
    if (!c)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    c->tokenizer = tokenizer;
    const char *teaches = tools ? tools : source;
    c->tool_format = tr_tool_format_of(teaches, strlen(teaches));
    int r = source ? open_form(c, &c->plain, source, err) : 0;
    if (r == 0 && tools)
        r = open_form(c, &c->tools, tools, err);
    if (r < 0) {
        tr_chat_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct tr_chat *tr_chat_close(struct tr_chat *c)
{
    if (c) {
        tr_template_free(c->plain.template);
        tr_template_free(c->tools.template);
    }
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

/* The template's tag opens it, or that of the assistant's own message; a tag that a user says does
 * not. */
static bool opens_reasoning(const struct tr_rendered *prompt, bool continued)
{
    static const char tag[] = TR_REASONING_TAG;
    const size_t len = sizeof tag - 1;
    size_t n = prompt->n;
    while (n > 0 && prompt->text[n - 1] && strchr(" \t\r\n", prompt->text[n - 1]))
        n--;
    bool said = prompt->n_data > 0 && prompt->data[prompt->n_data - 1].end >= n;
    return (continued || !said) && n >= len && memcmp(prompt->text + n - len, tag, len) == 0;
}

static int encode(const struct tr_chat *c, const struct tr_chat_request *q,
                  const struct tr_rendered *prompt, struct tr_ids *ret, struct tr_err *err)
{
    unsigned flags = TR_ENCODE_SPECIAL | (q->bos ? TR_ENCODE_BOS : 0);
    int r = tr_tokenizer_encode_spans(c->tokenizer, prompt->text, prompt->n, prompt->data,
                                      prompt->n_data, flags, q->max_ids, ret);
    if (r < 0 && r != TR_ETOOLONG)
        tr_err_set(err, r, "messages", "messages: %s", tr_err_text(r));
    return r;
}

int tr_chat_render(const struct tr_chat *c, const struct tr_chat_request *request,
                   struct tr_rendered *ret, struct tr_ids *ret_ids, struct tr_err *err)
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
    bool with_tools = c->tools.template && q.tools && tr_json_size(q.tools) > 0;
    const struct form *form = with_tools ? &c->tools : &c->plain;
    if (r == 0 && !form->template)
        return tr_err_set(err, TR_EINVAL, "messages",
                          "messages: the checkpoint has a chat template for chats with tools only");
    if (r == 0)
        r = render(c, form, &q, ret, err);
    if (r < 0)
        return r;
    ret->opens_reasoning = opens_reasoning(ret, q.continue_final_message);
    r = ret_ids ? encode(c, &q, ret, ret_ids, err) : 0;
    if (r < 0 && r != TR_ETOOLONG)
        tr_rendered_done(ret);
    return r;
}
