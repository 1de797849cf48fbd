#include "server/api/tokenize.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/detokenizer.h"
#include "engine/text/unicode.h"
#include "server/api/chat.h"
#include "server/api/openai.h"
#include "server/api/schema.h"
#include "server/call/read.h"
#include "server/http/reply.h"
#include "server/http/task.h"
#include "server/server.h"

struct params {
    struct srv_params chat; /* first, for the rows of /apply-template point into it */
    struct tr_json prompt, content, tokens;
    bool add_special_tokens, add_special, parse_special, return_token_strs, with_pieces;
};
_Static_assert(offsetof(struct params, chat) == 0, "rows of srv_params are rows of params");

#define AT(member) offsetof(struct params, member)

static const struct srv_field tokenize_rows[] = {
    SRV_IGNORED_FIELD("model", "there is one"),
    SRV_VALUE_FIELD("prompt", AT(prompt), "\"type\":[\"string\",\"null\"]",
                    "the text; the answer has count, max_model_len, tokens and token_strs"),
    SRV_VALUE_FIELD("content", AT(content), "\"type\":[\"string\",\"null\"]",
                    "the text; the answer has tokens only"),
    SRV_BOOL_FIELD("add_special_tokens", AT(add_special_tokens), true,
                   "with prompt: begin with the start token, if the tokenizer has one"),
    SRV_BOOL_FIELD("add_special", AT(add_special), false, "the same with content"),
    SRV_BOOL_FIELD("parse_special", AT(parse_special), true,
                   "control tokens in the text become their ids"),
    SRV_BOOL_FIELD("return_token_strs", AT(return_token_strs), false,
                   "with prompt: fill token_strs"),
    SRV_BOOL_FIELD("with_pieces", AT(with_pieces), false,
                   "with content: {id, piece} objects in place of ids"),
};
static const struct srv_table tokenize_fields = {tokenize_rows, TR_ARRAY_LEN(tokenize_rows)};
static const struct srv_table *const tokenize_tables[] = {&tokenize_fields,
                                                          &srv_apply_template_fields};

static const struct srv_field detokenize_rows[] = {
    SRV_IGNORED_FIELD("model", "there is one"),
    SRV_VALUE_FIELD(
        "tokens", AT(tokens),
        "\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":@}",
        "token ids"),
};
static const struct srv_table detokenize_fields = {detokenize_rows, TR_ARRAY_LEN(detokenize_rows)};
static const struct srv_table *const detokenize_tables[] = {&detokenize_fields};

static void add_strings(struct tr_buf *out, const struct tr_tokenizer *t, const struct tr_ids *ids)
{
    tr_buf_addc(out, '[');
    for (size_t i = 0; i < ids->n; i++) {
        const char *raw = tr_tokenizer_raw(t, ids->ids[i]);
        if (i > 0)
            tr_buf_addc(out, ',');
        tr_json_quote(out, raw ? raw : "", raw ? strlen(raw) : 0);
    }
    tr_buf_addc(out, ']');
}

/* A piece is its text, or its bytes where they are no text. */
static void add_pieces(struct tr_buf *out, const struct tr_tokenizer *t, const struct tr_ids *ids)
{
    tr_buf_addc(out, '[');
    for (size_t i = 0; i < ids->n; i++) {
        size_t n = 0;
        bool special;
        const char *piece = tr_tokenizer_piece(t, ids->ids[i], &n, &special);
        tr_buf_addf(out, "%s{\"id\":%d,\"piece\":", i ? "," : "", (int)ids->ids[i]);
        if (!piece || tr_utf8_valid(piece, n)) {
            tr_json_quote(out, piece ? piece : "", n);
        } else {
            for (size_t k = 0; k < n; k++)
                tr_buf_addf(out, "%c%u", k ? ',' : '[', (unsigned)(unsigned char)piece[k]);
            tr_buf_addc(out, ']');
        }
        tr_buf_addc(out, '}');
    }
    tr_buf_addc(out, ']');
}

/* {"count":...}, as vLLM answers. */
static void add_answer(struct srv_req *req, const struct params *p, const struct tr_ids *ids)
{
    struct tr_buf *out = &req->out;
    tr_buf_addf(out, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":", ids->n,
                req->model->info->context_length);
    srv_openai_ids(out, ids->ids, ids->n);
    tr_buf_adds(out, ",\"token_strs\":");
    if (p->return_token_strs)
        add_strings(out, req->model->tokenizer, ids);
    else
        tr_buf_adds(out, "null");
    tr_buf_addc(out, '}');
}

static int tokenize_messages(struct srv_req *req, struct params *p, struct tr_err *err)
{
    struct tr_ids ids = {0};
    int r = srv_dialog_ids(req->model->chat, &p->chat.dialog, &ids, err);
    if (r == 0)
        add_answer(req, p, &ids);
    free(ids.ids);
    return r;
}

static int tokenize_text(struct srv_req *req, const struct params *p, struct tr_err *err)
{
    const struct tr_tokenizer *t = req->model->tokenizer;
    bool plain = tr_json_given(&p->content);
    const struct tr_json *v = plain ? &p->content : &p->prompt;
    const char *text;
    size_t n;
    int r = tr_json_as_string(v, &text, &n, err);
    if (r < 0)
        return r;
    struct tr_ids ids = {0};
    unsigned flags = (p->parse_special ? TR_ENCODE_SPECIAL : 0) |
                     ((plain ? p->add_special : p->add_special_tokens) ? TR_ENCODE_BOS : 0);
    r = tr_tokenizer_encode(t, text, n, flags, 0, &ids);
    if (r < 0)
        return tr_err_set(err, r, "prompt", "%s", tr_err_text(r));
    if (plain) {
        tr_buf_adds(&req->out, "{\"tokens\":");
        if (p->with_pieces)
            add_pieces(&req->out, t, &ids);
        else
            srv_openai_ids(&req->out, ids.ids, ids.n);
        tr_buf_addc(&req->out, '}');
    } else {
        add_answer(req, p, &ids);
    }
    free(ids.ids);
    return 0;
}

static int tokenize_any(struct srv_req *req, void *params, struct tr_err *err)
{
    struct params *p = params;
    bool messages = tr_json_given(&p->chat.dialog.messages);
    if (messages + tr_json_given(&p->content) + tr_json_given(&p->prompt) != 1)
        return tr_err_set(err, TR_EINVAL, "prompt", "give one of prompt, content and messages");
    return messages ? tokenize_messages(req, p, err) : tokenize_text(req, p, err);
}

static int tokenize(struct srv_req *req, struct tr_err *err)
{
    struct params p = {0};
    return srv_body_take(req, tokenize_tables, 2, false, &p, tokenize_any, err);
}

static int detokenize_ids(struct srv_req *req, void *params, struct tr_err *err)
{
    const struct tr_json *list = &((struct params *)params)->tokens;
    const struct tr_tokenizer *t = req->model->tokenizer;
    struct tr_detok d = {0};
    struct tr_buf text = {0};
    if (!tr_json_given(list))
        return tr_err_set(err, TR_EINVAL, "tokens", "tokens: missing");
    int r = tr_json_expect(list, TR_JSON_ARRAY, err);
    for (size_t i = 0; r == 0 && i < tr_json_size(list); i++) {
        struct tr_json item = tr_json_at(list, i);
        int64_t id;
        r = tr_json_as_int(&item, 0, tr_tokenizer_size(t) - 1, &id, err);
        if (r == 0 && !tr_tokenizer_has_id(t, (int32_t)id))
            r = tr_json_fail(&item, err, "no token has the id %lld", (long long)id);
        if (r == 0)
            tr_detok_token(&d, t, (int32_t)id, false, &text);
    }
    if (r == 0) {
        tr_detok_end(&d, false, &text);
        tr_buf_adds(&req->out, "{\"prompt\":");
        tr_json_quote(&req->out, text.data ? text.data : "", text.len);
        tr_buf_adds(&req->out, ",\"content\":");
        tr_json_quote(&req->out, text.data ? text.data : "", text.len);
        tr_buf_addc(&req->out, '}');
        req->out.oom |= text.oom;
    }
    tr_buf_done(&text);
    return r;
}

static int detokenize(struct srv_req *req, struct tr_err *err)
{
    struct params p = {0};
    return srv_body_take(req, detokenize_tables, 1, false, &p, detokenize_ids, err);
}

static void post_tokenize(struct srv_req *req)
{
    srv_task_run(req, tokenize);
}

#define ONE_OF(given, absent1, absent2)                                                            \
    "{\"required\":[\"" given "\"],\"properties\":{\"" given                                       \
    "\":{\"not\":{\"type\":\"null\"}},\"" absent1 "\":{\"type\":\"null\"},\"" absent2              \
    "\":{\"type\":\"null\"}}}"

const struct srv_route srv_tokenize_route = {
    .path = "/tokenize",
    .doc = "Text to token ids",
    .post = post_tokenize,
    .tables = tokenize_tables,
    .n_tables = TR_ARRAY_LEN(tokenize_tables),
    .rules = "\"oneOf\":[" ONE_OF("prompt", "content", "messages") "," ONE_OF(
        "content", "prompt", "messages") "," ONE_OF("messages", "prompt", "content") "]",
    .answer = SRV_OBJECT("\"tokens\"", "\"tokens\":{\"type\":\"array\"}"),
};

static void post_detokenize(struct srv_req *req)
{
    srv_task_run(req, detokenize);
}

const struct srv_route srv_detokenize_route = {
    .path = "/detokenize",
    .doc = "Token ids to text",
    .post = post_detokenize,
    .tables = detokenize_tables,
    .n_tables = TR_ARRAY_LEN(detokenize_tables),
    .rules = SRV_REQUIRED("\"tokens\""),
    .answer = SRV_OBJECT("\"prompt\",\"content\"",
                         "\"prompt\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"}"),
};

static void add_token(struct tr_buf *out, const struct tr_tokenizer *t, const char *name,
                      int32_t id)
{
    size_t n = 0;
    bool special;
    const char *piece = id >= 0 ? tr_tokenizer_piece(t, id, &n, &special) : NULL;
    tr_buf_addf(out, ",\"%s\":", name);
    if (piece)
        tr_json_quote(out, piece, n);
    else
        tr_buf_adds(out, "null");
}

static void get_info(struct srv_req *req)
{
    const struct srv *s = req->srv;
    const struct tr_tokenizer *t = s->model->tokenizer;
    const char *chat = tr_engine_chat_template(s->model->engine);
    struct tr_buf *out = &req->out;
    tr_buf_addf(out,
                "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"vocab_size\":%d,"
                "\"model_max_length\":%d,\"add_bos_token\":%s",
                tr_tokenizer_size(t), s->model->info->context_length,
                tr_tokenizer_adds_bos(t) ? "true" : "false");
    add_token(out, t, "bos_token", tr_tokenizer_bos(t));
    add_token(out, t, "eos_token", tr_tokenizer_eos(t));
    add_token(out, t, "pad_token", tr_tokenizer_pad(t));
    tr_buf_adds(out, ",\"chat_template\":");
    if (chat)
        tr_json_quote(out, chat, strlen(chat));
    else
        tr_buf_adds(out, "null");
    tr_buf_addc(out, '}');
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_tokenizer_info_route = {
    .path = "/tokenizer_info",
    .doc = "What the tokenizer is",
    .get = get_info,
};
