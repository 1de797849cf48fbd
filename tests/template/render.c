/*
 * The template interpreter as a program, for the tests that compare it with jinja2.
 *
 * Each line of stdin is an object: `template`, then either `context` (an object whose members are the
 * variables) or `messages` and what belongs to them (`tools`, `documents`, `variables`,
 * `add_generation_prompt`, `continue_final_message`, `bos_token`, `eos_token`, `pad_token`), and `now`.
 * With `checkpoint` (a folder with a tokenizer) and `vocab_size` the messages go through a chat, which
 * adds `ids`. Each answer is an object on one line: `text` and `data` (byte ranges that came with the
 * request), or `error`, `param` and `stage` ("load" or "render").
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "engine/text/chat.h"

/* The tokenizer of the checkpoint that was asked for last. */
static struct {
    struct tr_tokenizer *tokenizer;
    char folder[512];
} kept;

static void answer_error(struct tr_buf *out, const char *stage, const struct tr_err *err)
{
    tr_buf_adds(out, "{\"stage\": ");
    tr_json_quote(out, stage, strlen(stage));
    tr_buf_adds(out, ", \"param\": ");
    tr_json_quote(out, err->param, strlen(err->param));
    tr_buf_adds(out, ", \"error\": ");
    tr_json_quote(out, err->msg, strlen(err->msg));
    tr_buf_adds(out, "}");
}

static void answer_text(struct tr_buf *out, const struct tr_rendered *r, const struct tr_ids *ids)
{
    tr_buf_adds(out, "{\"text\": ");
    tr_json_quote(out, r->text, r->n);
    tr_buf_adds(out, ", \"data\": [");
    for (size_t i = 0; i < r->n_data; i++)
        tr_buf_addf(out, "%s[%zu, %zu]", i ? ", " : "", r->data[i].begin, r->data[i].end);
    tr_buf_adds(out, ids ? "], \"ids\": [" : "]");
    for (size_t i = 0; ids && i < ids->n; i++)
        tr_buf_addf(out, "%s%d", i ? ", " : "", (int)ids->ids[i]);
    tr_buf_adds(out, ids ? "]}" : "}");
}

static const char *token(const struct tr_json *line, const char *name)
{
    const char *s = NULL;
    return tr_json_opt_string(line, name, &s, NULL, NULL) < 0 ? NULL : s;
}

static int read_input(const struct tr_json *line, struct tr_template_input *in, struct tr_err *err)
{
    in->bos_token = token(line, "bos_token");
    in->eos_token = token(line, "eos_token");
    in->pad_token = token(line, "pad_token");
    int r = tr_json_opt_int(line, "now", 0, INT64_MAX, &in->now, err);
    if (r == 0)
        r = tr_json_opt_bool(line, "add_generation_prompt", &in->add_generation_prompt, err);
    if (r == 0)
        r = tr_json_opt_bool(line, "continue_final_message", &in->continue_final_message, err);
    return r;
}

/* Renders the template by itself. */
static void answer_render(const struct tr_json *source_of, const struct tr_template_input *in,
                          struct tr_buf *out)
{
    const char *source;
    size_t n;
    struct tr_err err = {0};
    struct tr_template *t = NULL;
    struct tr_rendered text = {0};
    const char *stage = "load";
    int r = tr_json_as_string(source_of, &source, &n, &err);
    if (r == 0)
        r = tr_template_load(&t, source, n, &err);
    if (r == 0) {
        stage = "render";
        r = tr_template_render(t, in, &text, &err);
    }
    if (r < 0)
        answer_error(out, stage, &err);
    else
        answer_text(out, &text, NULL);
    tr_rendered_done(&text);
    tr_template_free(t);
}

static int keep_tokenizer(const char *folder, int vocab_size, struct tr_err *err)
{
    if (kept.tokenizer && strcmp(kept.folder, folder) == 0)
        return 0;
    kept.tokenizer = tr_tokenizer_free(kept.tokenizer);
    snprintf(kept.folder, sizeof kept.folder, "%s", folder);
    return tr_tokenizer_load(&kept.tokenizer, folder, vocab_size, err);
}

/* Sends the messages through a chat. */
static void answer_chat(const struct tr_json *line, const struct tr_template_input *in,
                        struct tr_buf *out)
{
    struct tr_err err = {0};
    struct tr_chat *chat = NULL;
    struct tr_rendered text = {0};
    struct tr_ids ids = {0};
    const char *folder = NULL, *source = NULL, *stage = "load";
    int64_t vocab_size = 0;
    struct tr_chat_request q = {.messages = in->messages,
                                .tools = in->tools,
                                .documents = in->documents,
                                .kwargs = in->variables,
                                .add_generation_prompt = in->add_generation_prompt,
                                .continue_final_message = in->continue_final_message,
                                .now = in->now};
    int r = tr_json_string(line, "checkpoint", &folder, NULL, &err);
    if (r == 0)
        r = tr_json_int(line, "vocab_size", 1, 1 << 30, &vocab_size, &err);
    if (r == 0)
        r = tr_json_opt_string(line, "template", &source, NULL, &err);
    if (r == 0)
        r = keep_tokenizer(folder, (int)vocab_size, &err);
    if (r == 0)
        r = tr_chat_open(&chat, kept.tokenizer, source, &err);
    if (r == 0) {
        stage = "render";
        r = tr_chat_render(chat, &q, &text, &ids, &err);
    }
    if (r < 0)
        answer_error(out, stage, &err);
    else
        answer_text(out, &text, &ids);
    free(ids.ids);
    tr_rendered_done(&text);
    tr_chat_close(chat);
}

static int answer(const struct tr_json *line, struct tr_buf *out)
{
    struct tr_template_input in = {0};
    struct tr_err err = {0};
    struct tr_json messages = tr_json_get(line, "messages"), tools = tr_json_get(line, "tools");
    struct tr_json documents = tr_json_get(line, "documents");
    struct tr_json variables = tr_json_get(line, "variables");
    struct tr_json context = tr_json_get(line, "context"), source = tr_json_get(line, "template");
    struct tr_json checkpoint = tr_json_get(line, "checkpoint");
    if (read_input(line, &in, &err) < 0)
        return -1;
    in.messages = messages.node ? &messages : NULL;
    in.tools = &tools;
    in.documents = &documents;
    in.variables = context.node ? &context : &variables;
    if (checkpoint.node)
        answer_chat(line, &in, out);
    else
        answer_render(&source, &in, out);
    return 0;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int status = 0;
    while (status == 0 && (n = getline(&line, &cap, stdin)) > 0) {
        struct json_t *doc;
        struct tr_err err = {0};
        struct tr_buf out = {0};
        if (tr_json_parse(&doc, line, (size_t)n, &err) < 0) {
            answer_error(&out, "input", &err);
        } else {
            struct tr_json root = tr_json_root(doc, NULL);
            status = answer(&root, &out) < 0 ? 2 : 0;
            tr_json_free(doc);
        }
        tr_buf_addc(&out, '\n');
        status = out.oom || fwrite(out.data, 1, out.len, stdout) != out.len ? 1 : status;
        fflush(stdout);
        tr_buf_done(&out);
    }
    free(line);
    tr_tokenizer_free(kept.tokenizer);
    return status;
}
