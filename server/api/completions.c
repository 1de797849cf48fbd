#include "server/api/completions.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/openai.h"
#include "server/api/schema.h"
#include "server/call/logprobs.h"
#include "server/server.h"

enum { DEFAULT_MAX_TOKENS = 16 };
#define OBJECT "text_completion"

#define AT(member) offsetof(struct srv_params, member)

static const struct srv_field own_fields[] = {
    SRV_VALUE_FIELD(
        "prompt", AT(prompt),
        "\"anyOf\":[{\"type\":\"string\"},"
        "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\"}},"
        "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"integer\",\"minimum\":0,"
        "\"maximum\":@}},"
        "{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"array\",\"minItems\":1,"
        "\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":@}}}]",
        "text, token ids, or a list of either"),
    SRV_OPT_INT_FIELD(
        "max_tokens", AT(max_tokens), -1, INT64_MAX, SRV_ABSENT,
        "longest answer, 16 if absent, -1: no limit; 0 with echo or prompt_logprobs only"),
    SRV_OPT_INT_FIELD("logprobs", AT(logprobs), 0, SRV_MAX_LOGPROBS, -1,
                      "log probability of every token and so many alternatives"),
    SRV_BOOL_FIELD("echo", AT(echo), false, "the answer begins with the prompt"),
    SRV_OPT_INT_FIELD("best_of", AT(best_of), 1, 128, -1, "must equal n"),
    SRV_BOOL_FIELD("add_special_tokens", AT(add_special_tokens), true,
                   "a text prompt begins with the tokenizer's start token, if it has one"),
    SRV_REFUSED_FIELD("suffix", "fill in the middle"),
    SRV_REFUSED_FIELD("prompt_embeds", "embeddings as a prompt"),
    SRV_REFUSED_FIELD("n_predict", "use max_tokens"),
};
static const struct srv_table own = {own_fields, TR_ARRAY_LEN(own_fields)};
static const struct srv_table *const tables[] = {&own, &srv_common_fields};

/* ---- the request ---- */

static int check(const struct srv_params *p, struct tr_err *err)
{
    if (p->best_of >= 0 && p->best_of != p->n)
        return tr_err_set(err, TR_EINVAL, "best_of", "best_of: not supported unless it equals n");
    if (p->max_tokens == 0 && !p->echo && p->prompt_logprobs < 0)
        return tr_err_set(err, TR_EINVAL, "max_tokens",
                          "max_tokens: 0 is allowed with echo or prompt_logprobs only");
    return 0;
}

static int read_ids(const struct tr_json *list, const struct srv_call *c, struct tr_ids *out,
                    struct tr_err *err)
{
    size_t n = tr_json_size(list);
    if (n == 0)
        return tr_json_fail(list, err, "an empty prompt");
    out->ids = malloc(n * sizeof *out->ids);
    if (!out->ids)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    out->cap = n;
    for (size_t i = 0; i < n; i++) {
        struct tr_json item = tr_json_at(list, i);
        int64_t id;
        int r = tr_json_as_int(&item, 0, tr_tokenizer_size(c->context.tokenizer) - 1, &id, err);
        if (r < 0)
            return r;
        if (!tr_tokenizer_has_id(c->context.tokenizer, (int32_t)id))
            return tr_json_fail(&item, err, "no token has the id %lld", (long long)id);
        out->ids[out->n++] = (int32_t)id;
    }
    return 0;
}

/* *ret_bos: the first id is a start token that the text does not have. TR_ETOOLONG: for srv_job_add
 * to say. */
static int read_text(const struct tr_json *v, const struct srv_call *c, struct tr_ids *out,
                     bool *ret_bos, struct tr_err *err)
{
    const struct tr_tokenizer *t = c->context.tokenizer;
    const struct srv_params *p = &c->params;
    const char *text;
    size_t n;
    int r = tr_json_as_string(v, &text, &n, err);
    if (r < 0)
        return r;
    unsigned flags = TR_ENCODE_SPECIAL | (p->add_special_tokens ? TR_ENCODE_BOS : 0);
    r = tr_tokenizer_encode(t, text, n, flags, c->max_ids, out);
    if (r == TR_ETOOLONG)
        return r;
    if (r < 0)
        return tr_err_set(err, r, "prompt", "prompt: %s", tr_err_text(r));
    if (out->n == 0)
        return tr_json_fail(v, err, "an empty prompt");
    size_t bos_bytes = 0;
    bool special;
    const char *bos = tr_tokenizer_piece(t, tr_tokenizer_bos(t), &bos_bytes, &special);
    *ret_bos = p->add_special_tokens && tr_tokenizer_adds_bos(t) && bos &&
               out->ids[0] == tr_tokenizer_bos(t) &&
               (n < bos_bytes || memcmp(text, bos, bos_bytes) != 0);
    return 0;
}

/* The prompt's text as its tokens make it, every control token written out, and where each
 * begins. */
static int make_echo(struct srv_call *c, struct srv_job *j, bool added_bos)
{
    struct tr_detok d = {0};
    if (c->params.logprobs >= 0) {
        j->offsets = calloc((size_t)j->n_prompt, sizeof *j->offsets);
        if (!j->offsets)
            return TR_ENOMEM;
    }
    for (int i = 0; i < j->n_prompt; i++) {
        if (i == 0 && added_bos)
            continue;
        size_t at = tr_detok_token(&d, c->context.tokenizer, j->job->prompt[i], false, &j->echo);
        if (j->offsets)
            j->offsets[i] = at;
    }
    tr_detok_end(&d, false, &j->echo);
    j->echo_chars = d.n_chars;
    return j->echo.oom ? TR_ENOMEM : 0;
}

static int read_prompt(struct srv_call *c, const struct tr_json *v, struct tr_err *err)
{
    struct tr_ids ids = {0};
    bool added_bos = false;
    int r = tr_json_type(v) == TR_JSON_ARRAY ? read_ids(v, c, &ids, err)
                                             : read_text(v, c, &ids, &added_bos, err);
    if (r < 0 && r != TR_ETOOLONG) {
        free(ids.ids);
        return r;
    }
    struct srv_job *j = &c->jobs[c->n_jobs];
    size_t n = ids.n;
    r = srv_job_add(c, &ids, r == TR_ETOOLONG, err);
    if (r == 0 && c->params.echo)
        r = make_echo(c, j, added_bos && (size_t)j->n_prompt == n);
    return r;
}

static int read_request(struct srv_call *c, struct tr_err *err)
{
    const struct tr_json *v = &c->params.prompt;
    int r = check(&c->params, err);
    if (r < 0)
        return r;
    enum tr_json_type type = tr_json_type(v);
    struct tr_json first = tr_json_at(v, 0);
    bool list = type == TR_JSON_ARRAY && tr_json_type(&first) != TR_JSON_NUMBER;
    if (!tr_json_given(v))
        return tr_err_set(err, TR_EINVAL, "prompt", "prompt: missing");
    if (type != TR_JSON_STRING && type != TR_JSON_ARRAY)
        return tr_json_fail(v, err, "expected string or array");
    if (type == TR_JSON_ARRAY && tr_json_size(v) == 0)
        return tr_json_fail(v, err, "an empty list");
    r = srv_jobs_init(c, list ? tr_json_size(v) : 1, err);
    if (r < 0 || !list)
        return r < 0 ? r : read_prompt(c, v, err);
    for (size_t i = 0; i < tr_json_size(v) && r == 0; i++) {
        struct tr_json item = tr_json_at(v, i);
        if (tr_json_type(&item) != tr_json_type(&first))
            return tr_json_fail(&item, err, "texts and token ids in one list");
        r = read_prompt(c, &item, err);
    }
    return r;
}

/* ---- the answer ---- */

/* What the choice has gathered; its first part begins with the prompt if that is to be repeated. */
static void add_choice(struct tr_buf *out, struct srv_choice *ch)
{
    const struct srv_call *c = ch->call;
    const struct srv_job *j = ch->job;
    bool first = !ch->begun;
    tr_buf_addf(out, "{\"index\":%d,\"text\":", ch->index);
    if (first && c->params.echo) {
        struct tr_buf whole = {0};
        tr_buf_add(&whole, j->echo.data, j->echo.len);
        tr_buf_add(&whole, ch->text.data, ch->text.len);
        tr_json_quote(out, whole.data, whole.len);
        out->oom |= whole.oom;
        tr_buf_done(&whole);
    } else {
        tr_json_quote(out, ch->text.data ? ch->text.data : "", ch->text.len);
    }
    tr_buf_adds(out, ",\"logprobs\":");
    srv_legacy_logprobs(out, ch, first && c->params.echo);
    const char *reason = srv_choice_reason(ch);
    tr_buf_addf(out, reason ? ",\"finish_reason\":\"%s\"" : ",\"finish_reason\":null", reason);
    tr_buf_adds(out, ",\"stop_reason\":");
    srv_openai_stop_reason(out, ch);
    srv_openai_token_ids(out, ch);
    if (first)
        srv_openai_prompt(out, ch);
    tr_buf_addc(out, '}');
    out->oom |= ch->text.oom;
}

static void answer(struct srv_call *c)
{
    srv_openai_answer(c, OBJECT, add_choice);
}

static void chunk(struct srv_choice *ch)
{
    struct srv_call *c = ch->call;
    struct tr_buf *out = &c->req->out;
    tr_buf_adds(out, "data: ");
    srv_openai_head(c, OBJECT);
    add_choice(out, ch);
    srv_openai_chunk_end(out, c);
}

static void end(struct srv_call *c)
{
    srv_openai_end(c, OBJECT);
}

static const struct srv_api api = {
    .id_prefix = "cmpl-",
    .default_max_tokens = DEFAULT_MAX_TOKENS,
    .read = read_request,
    .logprob = srv_legacy_logprob,
    .chunk = chunk,
    .end = end,
    .fault = srv_openai_fault,
    .answer = answer,
};

#define USAGE                                                                                      \
    SRV_OBJECT(                                                                                    \
        "\"prompt_tokens\",\"completion_tokens\",\"total_tokens\"",                                \
        "\"prompt_tokens\":{\"type\":\"integer\"},\"completion_tokens\":{\"type\":\"integer\"},"   \
        "\"total_tokens\":{\"type\":\"integer\"}")

#define ANSWER                                                                                     \
    SRV_OBJECT("\"id\",\"object\",\"created\",\"model\",\"choices\",\"usage\"",                    \
               "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"text_completion\"},"          \
               "\"created\":{\"type\":\"integer\"},\"model\":{\"type\":\"string\"},"               \
               "\"system_fingerprint\":{\"type\":\"string\"},\"usage\":" USAGE                     \
               ",\"choices\":{\"type\":\"array\",\"items\":" SRV_OBJECT(                           \
                   "\"index\",\"text\",\"logprobs\",\"finish_reason\"",                            \
                   "\"index\":{\"type\":\"integer\"},\"text\":{\"type\":\"string\"},"              \
                   "\"logprobs\":{\"type\":[\"object\",\"null\"]},"                                \
                   "\"finish_reason\":{\"enum\":[\"stop\",\"length\"]},"                           \
                   "\"stop_reason\":{\"type\":[\"string\",\"integer\",\"null\"]}") "}")

const struct srv_route srv_completions_route = {
    .path = "/v1/completions",
    .doc = "Complete a prompt",
    .flags = SRV_ROUTE_STREAMS,
    .post = srv_call_start,
    .api = &api,
    .tables = tables,
    .n_tables = TR_ARRAY_LEN(tables),
    .rules = SRV_REQUIRED("\"prompt\""),
    .answer = ANSWER,
};
