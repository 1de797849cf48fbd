#include "server/call/params.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/hash.h"
#include "server/call/outbox.h"

#define MAX_STOPS      64
#define MAX_STOP_BYTES 4096 /* each */
#define MAX_STOP_IDS   1024
#define MAX_BAD_WORDS  1024
#define MAX_BAD_IDS    16384 /* all sequences together */
#define MAX_BAD_BYTES  1024  /* each */
#define GREEDY_BELOW   1e-4  /* a temperature this small is argmax in all but name */
#define MAX_LENGTH     INT64_MAX

#define AT(member) offsetof(struct srv_params, member)

static const struct srv_field common[] = {
    SRV_VALUE_FIELD("model", AT(model), "\"type\":[\"string\",\"null\"]",
                    "the served model's id; absent: that model"),
    SRV_OPT_INT_FIELD("max_completion_tokens", AT(max_completion_tokens), 0, MAX_LENGTH, -1,
                      "longest answer; wins over max_tokens"),
    SRV_INT_FIELD("min_tokens", AT(min_tokens), 0, INT_MAX, 0,
                  "no end and no stop before so many tokens"),
    SRV_NUMBER_FIELD("temperature", AT(temperature), 0, 2, 1, "0 takes the best token"),
    SRV_NUMBER_FIELD("top_p", AT(top_p), 0, 1, 1,
                     "keep the best tokens with this share of the probability; 0: the best only"),
    SRV_INT_FIELD("top_k", AT(top_k), -1, INT_MAX, 0, "keep the k best tokens; 0 and -1: all"),
    SRV_NUMBER_FIELD("min_p", AT(min_p), 0, 1, 0,
                     "keep tokens with this share of the best one's probability"),
    SRV_ABOVE_FIELD("typical_p", AT(typical_p), 0, 1, 1, "locally typical sampling; 1: off"),
    SRV_NUMBER_FIELD("presence_penalty", AT(presence_penalty), -2, 2, 0,
                     "subtracted from the logit of every token generated before"),
    SRV_NUMBER_FIELD("frequency_penalty", AT(frequency_penalty), -2, 2, 0,
                     "the same, times how often it was generated"),
    SRV_NUMBER_FIELD("repetition_penalty", AT(repetition_penalty), 0.01, 100, 1,
                     "divides positive and multiplies negative logits of tokens seen; 1: off"),
    SRV_INT_FIELD("n", AT(n), 1, 128, 1, "answers to each prompt"),
    SRV_VALUE_FIELD("seed", AT(seed),
                    "\"type\":[\"integer\",\"null\"],\"minimum\":-9223372036854775808,"
                    "\"maximum\":9223372036854775807",
                    "equal seeds give equal answers; absent: a random one"),
    SRV_VALUE_FIELD("stop", AT(stop),
                    "\"anyOf\":[{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096},"
                    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1,"
                    "\"maxLength\":4096},\"maxItems\":64},{\"type\":\"null\"}]",
                    "the answer ends before the first of these texts"),
    SRV_VALUE_FIELD("stop_token_ids", AT(stop_token_ids),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"integer\",\"minimum\":0,"
                    "\"maximum\":@},"
                    "\"maxItems\":1024",
                    "token ids that end the answer"),
    SRV_BOOL_FIELD("include_stop_str_in_output", AT(include_stop), false,
                   "the text that ended the answer belongs to it"),
    SRV_BOOL_FIELD("ignore_eos", AT(ignore_eos), false,
                   "the model's end tokens do not end the answer"),
    SRV_VALUE_FIELD("logit_bias", AT(logit_bias),
                    "\"type\":[\"object\",\"null\"],\"additionalProperties\":"
                    "{\"type\":\"number\",\"minimum\":-100,\"maximum\":100},"
                    "\"propertyNames\":{\"pattern\":\"^[0-9]+$\"}",
                    "token id to what is added to its logit"),
    SRV_VALUE_FIELD("allowed_token_ids", AT(allowed_token_ids),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"integer\",\"minimum\":0,"
                    "\"maximum\":@},"
                    "\"minItems\":1",
                    "only these tokens may be generated"),
    SRV_VALUE_FIELD("bad_words", AT(bad_words),
                    "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\",\"minLength\":1,"
                    "\"maxLength\":1024},\"maxItems\":1024",
                    "texts whose tokens are never generated"),
    SRV_BOOL_FIELD("skip_special_tokens", AT(skip_special_tokens), true,
                   "control tokens leave no text"),
    SRV_BOOL_FIELD("stream", AT(stream), false, "answer by server-sent events"),
    SRV_VALUE_FIELD("stream_options", AT(stream_options),
                    "\"type\":[\"object\",\"null\"],\"properties\":{"
                    "\"include_usage\":{\"type\":[\"boolean\",\"null\"]},"
                    "\"continuous_usage_stats\":{\"type\":[\"boolean\",\"null\"]},"
                    "\"include_obfuscation\":{\"type\":[\"boolean\",\"null\"]}}",
                    "usage in a last chunk, or in every chunk"),
    SRV_BOOL_FIELD("return_token_ids", AT(return_token_ids), false,
                   "add token_ids and prompt_token_ids"),
    SRV_BOOL_FIELD("return_tokens_as_token_ids", AT(tokens_as_ids), false,
                   "name tokens token_id:N in logprobs"),
    SRV_OPT_INT_FIELD("prompt_logprobs", AT(prompt_logprobs), 0, SRV_MAX_LOGPROBS, -1,
                      "log probabilities of the prompt's tokens and so many alternatives"),
    SRV_OPT_INT_FIELD("truncate_prompt_tokens", AT(truncate_prompt_tokens), 1, INT_MAX, 0,
                      "keep the last tokens of the prompt only"),
    SRV_INT_FIELD("priority", AT(priority), INT_MIN, INT_MAX, 0, "lower is served earlier"),
    SRV_VALUE_FIELD("request_id", AT(request_id),
                    "\"type\":[\"string\",\"null\"],\"maxLength\":128",
                    "becomes part of the answer's id"),
    SRV_VALUE_FIELD("cache_salt", AT(cache_salt), "\"type\":[\"string\",\"null\"]",
                    "prefixes are shared between equal salts only"),
    SRV_BOOL_FIELD("cache_prompt", AT(cache_prompt), true,
                   "reuse and keep the prompt's keys and values"),
    SRV_BOOL_FIELD("timings", AT(timings), false, "add what the request cost"),
    SRV_VALUE_FIELD(
        "response_format", AT(response_format),
        "\"anyOf\":[{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"text\"}},"
        "\"required\":[\"type\"]},{\"type\":\"null\"}]",
        "only plain text is supported"),
    SRV_REFUSED_FIELD("structured_outputs", "constrained answers"),
    SRV_REFUSED_FIELD("guided_json", "constrained answers"),
    SRV_REFUSED_FIELD("guided_regex", "constrained answers"),
    SRV_REFUSED_FIELD("guided_choice", "constrained answers"),
    SRV_REFUSED_FIELD("guided_grammar", "constrained answers"),
    SRV_REFUSED_FIELD("grammar", "constrained answers"),
    SRV_REFUSED_FIELD("json_schema", "constrained answers"),
    SRV_REFUSED_FIELD("use_beam_search", "beam search"),
    SRV_REFUSED_FIELD("mirostat", "mirostat sampling"),
    SRV_REFUSED_FIELD("dry_multiplier", "DRY sampling"),
    SRV_REFUSED_FIELD("xtc_probability", "XTC sampling"),
    SRV_REFUSED_FIELD("logits_processors", "code from the caller"),
    SRV_IGNORED_FIELD("user", "who asks"),
    SRV_IGNORED_FIELD("metadata", "notes of the caller"),
    SRV_IGNORED_FIELD("store", "nothing is stored"),
    SRV_IGNORED_FIELD("service_tier", "there is one"),
    SRV_IGNORED_FIELD("safety_identifier", "who asks"),
    SRV_IGNORED_FIELD("prompt_cache_key", "prefixes are found by content"),
    SRV_IGNORED_FIELD("prompt_cache_retention", "prefixes stay while there is room"),
    SRV_IGNORED_FIELD("spaces_between_special_tokens", "byte-level tokens bring their own blanks"),
    SRV_IGNORED_FIELD("detokenize", "text is always made"),
};
const struct srv_table srv_common_fields = {common, TR_ARRAY_LEN(common)};

const char *srv_excerpt(char buf[80], const char *s, size_t n)
{
    struct tr_buf b = {0};
    size_t cut = TR_MIN(n, 32);
    while (cut > 0 && cut < n && ((unsigned char)s[cut] & 0xC0) == 0x80)
        cut--;
    tr_json_quote(&b, s, cut);
    if (cut < n)
        tr_buf_adds(&b, "...");
    snprintf(buf, 80, "%s", b.len && b.len < 80 ? b.data : "(not printable)");
    tr_buf_done(&b);
    return buf;
}

static int check_model(const struct srv_params *p, const struct srv_limits *limits,
                       struct tr_err *err)
{
    if (!tr_json_given(&p->model))
        return 0;
    const char *name;
    size_t n;
    char text[80];
    int r = tr_json_as_string(&p->model, &name, &n, err);
    if (r < 0)
        return r;
    if (n == strlen(limits->model) && memcmp(name, limits->model, n) == 0)
        return 0;
    return tr_err_set(err, TR_ENOTFOUND, "model", "the model %s does not exist",
                      srv_excerpt(text, name, n));
}

static int check_stream_options(struct srv_params *p, struct tr_err *err)
{
    const struct tr_json *o = &p->stream_options;
    if (!tr_json_given(o))
        return 0;
    bool obfuscation = false;
    int r = tr_json_expect(o, TR_JSON_OBJECT, err);
    if (r == 0 && !p->stream)
        r = tr_json_fail(o, err, "only allowed with \"stream\": true");
    if (r == 0)
        r = tr_json_opt_bool(o, "include_usage", &p->include_usage, err);
    if (r == 0)
        r = tr_json_opt_bool(o, "continuous_usage_stats", &p->continuous_usage, err);
    if (r == 0)
        r = tr_json_opt_bool(o, "include_obfuscation", &obfuscation, err);
    return r;
}

static int check_response_format(const struct srv_params *p, struct tr_err *err)
{
    if (!tr_json_given(&p->response_format))
        return 0;
    const char *type;
    size_t n;
    int r = tr_json_expect(&p->response_format, TR_JSON_OBJECT, err);
    if (r == 0)
        r = tr_json_string(&p->response_format, "type", &type, &n, err);
    if (r == 0 && strcmp(type, "text") != 0)
        r = tr_json_fail(&p->response_format, err, "only the type \"text\" is supported");
    return r;
}

int srv_params_check(struct srv_params *p, const struct srv_limits *limits, struct tr_err *err)
{
    p->include_usage = p->continuous_usage = false;
    int r = check_model(p, limits, err);
    if (r == 0)
        r = check_stream_options(p, err);
    if (r == 0)
        r = check_response_format(p, err);
    if (r < 0)
        return r;
    if (p->max_completion_tokens >= 0)
        p->max_tokens = p->max_completion_tokens;
    if (p->max_tokens >= 0 && p->min_tokens > p->max_tokens)
        return tr_err_set(err, TR_EINVAL, "min_tokens",
                          "min_tokens: %lld is more than max_tokens %lld", (long long)p->min_tokens,
                          (long long)p->max_tokens);
    if (p->n > limits->max_choices)
        return tr_err_set(err, TR_EINVAL, "n", "n: at most %d answers a request (max_choices)",
                          limits->max_choices);
    return 0;
}

int srv_params_fit(const struct srv_params *p, const struct srv_limits *limits, size_t n_prompt,
                   bool at_least, struct tr_err *err)
{
    size_t room = (size_t)limits->context_length;
    if (n_prompt < room || (n_prompt == room && p->max_tokens == 0))
        return 0;
    return tr_err_set(err, TR_ETOOLONG, "prompt",
                      "This model's maximum context length is %d tokens. However, your prompt has "
                      "%s%zu tokens%s. Shorten the prompt.",
                      limits->context_length, at_least ? "at least " : "", n_prompt,
                      n_prompt == room ? ", which leaves no room for an answer" : "");
}

/* ---- stop strings ---- */

int srv_params_stops(struct tr_stops **ret, const struct srv_params *p, struct tr_buf **ret_quoted,
                     int *ret_n, struct tr_err *err)
{
    const char *strings[MAX_STOPS];
    size_t lengths[MAX_STOPS];
    const struct tr_json *v = &p->stop;
    bool one = tr_json_type(v) == TR_JSON_STRING;
    size_t n = one ? 1 : tr_json_size(v);
    if (!tr_json_given(v))
        return 0;
    if (!one && tr_json_type(v) != TR_JSON_ARRAY)
        return tr_json_fail(v, err, "expected string or array of strings");
    if (n > MAX_STOPS)
        return tr_json_fail(v, err, "more than %d strings", MAX_STOPS);
    for (size_t i = 0; i < n; i++) {
        struct tr_json item = one ? *v : tr_json_at(v, i);
        int r = tr_json_as_string(&item, &strings[i], &lengths[i], err);
        if (r < 0)
            return r;
        if (lengths[i] == 0)
            return tr_json_fail(&item, err, "an empty string");
        if (lengths[i] > MAX_STOP_BYTES)
            return tr_json_fail(&item, err, "longer than %d bytes", MAX_STOP_BYTES);
    }
    if (n == 0)
        return 0;
    struct tr_buf *quoted = calloc(n, sizeof *quoted);
    int r = quoted ? tr_stops_new(ret, strings, lengths, (int)n, p->include_stop) : TR_ENOMEM;
    if (r < 0) {
        free(quoted);
        return tr_err_set(err, r, "stop", "stop: %s", tr_err_text(r));
    }
    for (size_t i = 0; i < n; i++)
        tr_json_quote(&quoted[i], strings[i], lengths[i]);
    *ret_quoted = quoted;
    *ret_n = (int)n;
    return 0;
}

/* ---- lists of ids ---- */

static int compare_ids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int take_id(const struct tr_json *v, const struct tr_tokenizer *t, int32_t *ret,
                   struct tr_err *err)
{
    int64_t id;
    int r = tr_json_as_int(v, 0, tr_tokenizer_size(t) - 1, &id, err);
    if (r < 0)
        return r;
    if (!tr_tokenizer_has_id(t, (int32_t)id))
        return tr_json_fail(v, err, "no token has the id %lld", (long long)id);
    *ret = (int32_t)id;
    return 0;
}

/* An ascending list, owned by the caller; *ret stays NULL if the field was not given. */
static int take_ids(const struct tr_json *v, const struct tr_tokenizer *t, size_t max,
                    int32_t **ret, int *ret_n, struct tr_err *err)
{
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_expect(v, TR_JSON_ARRAY, err);
    if (r < 0)
        return r;
    size_t n = tr_json_size(v);
    if (n > max)
        return tr_json_fail(v, err, "more than %zu ids", max);
    int32_t *ids = malloc(TR_MAX(n, 1) * sizeof *ids);
    if (!ids)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (size_t i = 0; i < n; i++) {
        struct tr_json item = tr_json_at(v, i);
        r = take_id(&item, t, &ids[i], err);
        if (r < 0) {
            free(ids);
            return r;
        }
    }
    qsort(ids, n, sizeof *ids, compare_ids);
    *ret = ids;
    *ret_n = (int)n;
    return 0;
}

static int compare_bias(const void *a, const void *b)
{
    return compare_ids(&((const struct tr_bias *)a)->id, &((const struct tr_bias *)b)->id);
}

static int bias_id(const struct tr_json *v, const struct tr_tokenizer *t, int32_t *ret,
                   struct tr_err *err)
{
    int64_t id = 0;
    bool good = v->key_bytes > 0 && v->key_bytes < 10;
    for (size_t i = 0; good && i < v->key_bytes; i++) {
        good = v->key[i] >= '0' && v->key[i] <= '9';
        id = id * 10 + (v->key[i] - '0');
    }
    if (!good || id >= tr_tokenizer_size(t) || !tr_tokenizer_has_id(t, (int32_t)id))
        return tr_err_set(err, TR_EINVAL, "logit_bias",
                          "logit_bias: a key is not the id of a token (0 to %d)",
                          tr_tokenizer_size(t) - 1);
    *ret = (int32_t)id;
    return 0;
}

static int take_bias(struct tr_sampling *s, const struct tr_json *v, const struct tr_tokenizer *t,
                     struct tr_err *err)
{
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_expect(v, TR_JSON_OBJECT, err);
    if (r < 0)
        return r;
    size_t n = tr_json_size(v);
    if (n == 0)
        return 0;
    if (n > (size_t)tr_tokenizer_size(t))
        return tr_json_fail(v, err, "more keys than there are tokens");
    s->bias = malloc(n * sizeof *s->bias);
    if (!s->bias)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    void *iter = NULL;
    struct tr_json item;
    while (tr_json_next(v, &iter, &item)) {
        double value;
        struct tr_bias *b = &s->bias[s->n_bias];
        if ((r = bias_id(&item, t, &b->id, err)) < 0 ||
            (r = tr_json_as_double(&item, -100, 100, &value, err)) < 0) {
            /* the field is logit_bias, whatever its key is */
            snprintf(err->param, sizeof err->param, "logit_bias");
            return r;
        }
        b->value = (float)value;
        s->n_bias++;
    }
    qsort(s->bias, (size_t)s->n_bias, sizeof *s->bias, compare_bias);
    for (int i = 1; i < s->n_bias; i++)
        if (s->bias[i].id == s->bias[i - 1].id) /* "7" and "07" */
            return tr_json_fail(v, err, "the id %d stands there twice", s->bias[i].id);
    return 0;
}

/* ---- bad words ---- */

static int add_sequence(struct tr_sampling *s, struct tr_ids *ids)
{
    size_t n = (size_t)s->n_bad_words + 1 + ids->n;
    if (n > MAX_BAD_IDS)
        return TR_EINVAL;
    int32_t *grown = realloc(s->bad_words, n * sizeof *grown);
    if (!grown)
        return TR_ENOMEM;
    grown[s->n_bad_words] = (int32_t)ids->n;
    memcpy(grown + s->n_bad_words + 1, ids->ids, ids->n * sizeof *grown);
    s->bad_words = grown;
    s->n_bad_words = (int)n;
    return 0;
}

/* A word is forbidden as it stands and after a blank, where byte-level tokens look different. */
static int add_word(struct tr_sampling *s, const struct tr_tokenizer *t, const char *word, size_t n)
{
    struct tr_buf spaced = {0};
    struct tr_ids ids = {0};
    tr_buf_addc(&spaced, ' ');
    tr_buf_add(&spaced, word, n);
    int r = spaced.oom ? TR_ENOMEM : 0;
    for (int i = 0; i < 2 && r == 0; i++) {
        bool with_blank = i == 1;
        if (with_blank && word[0] == ' ')
            break;
        ids.n = 0;
        r = tr_tokenizer_encode(t, spaced.data + !with_blank, n + with_blank, 0, 0, &ids);
        if (r == 0 && ids.n > 0)
            r = add_sequence(s, &ids);
    }
    free(ids.ids);
    tr_buf_done(&spaced);
    return r;
}

static int take_bad_words(struct tr_sampling *s, const struct tr_json *v,
                          const struct tr_tokenizer *t, struct tr_err *err)
{
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_expect(v, TR_JSON_ARRAY, err);
    if (r < 0)
        return r;
    if (tr_json_size(v) > MAX_BAD_WORDS)
        return tr_json_fail(v, err, "more than %d words", MAX_BAD_WORDS);
    for (size_t i = 0; i < tr_json_size(v); i++) {
        struct tr_json item = tr_json_at(v, i);
        const char *word;
        size_t n;
        r = tr_json_as_string(&item, &word, &n, err);
        if (r < 0)
            return r;
        if (n == 0 || n > MAX_BAD_BYTES)
            return tr_json_fail(&item, err, "must have 1 to %d bytes", MAX_BAD_BYTES);
        r = add_word(s, t, word, n);
        if (r == TR_EINVAL)
            return tr_json_fail(v, err, "more than %d tokens together", MAX_BAD_IDS);
        if (r < 0)
            return tr_err_set(err, r, NULL, "%s", tr_err_text(r));
    }
    return 0;
}

/* ---- the job ---- */

static int fill_sampling(struct tr_job *job, const struct srv_params *p,
                         const struct srv_limits *limits, struct tr_err *err)
{
    struct tr_sampling *s = &job->sampling;
    s->temperature = p->temperature < GREEDY_BELOW ? 0.0f : (float)p->temperature;
    s->top_k = p->top_k > 0 ? (int)p->top_k : 0;
    s->top_p = (float)p->top_p;
    s->min_p = (float)p->min_p;
    s->typical_p = (float)p->typical_p;
    s->presence_penalty = (float)p->presence_penalty;
    s->frequency_penalty = (float)p->frequency_penalty;
    s->repetition_penalty = (float)p->repetition_penalty;
    s->n_logprobs = (int)p->logprobs;
    size_t vocab = (size_t)tr_tokenizer_size(limits->tokenizer);
    s->seed = limits->random;
    int r = tr_json_given(&p->seed) ? tr_json_as_word(&p->seed, &s->seed, err) : 0;
    if (r == 0)
        r = take_bias(s, &p->logit_bias, limits->tokenizer, err);
    if (r == 0)
        r = take_ids(&p->allowed_token_ids, limits->tokenizer, vocab, &s->allowed, &s->n_allowed,
                     err);
    if (r == 0 && s->allowed && s->n_allowed == 0)
        r = tr_json_fail(&p->allowed_token_ids, err, "an empty list allows nothing");
    if (r == 0)
        r = take_bad_words(s, &p->bad_words, limits->tokenizer, err);
    if (r == 0)
        r = take_ids(&p->stop_token_ids, limits->tokenizer, MAX_STOP_IDS, &job->stop_ids,
                     &job->n_stop_ids, err);
    return r;
}

int srv_params_salt(const struct tr_json *cache_salt, const struct srv_limits *limits,
                    uint64_t ret[2], struct tr_err *err)
{
    const char *salt = "";
    size_t n = 0;
    ret[0] = ret[1] = 0;
    if (tr_json_given(cache_salt)) {
        int r = tr_json_as_string(cache_salt, &salt, &n, err);
        if (r < 0)
            return r;
    }
    if (limits->tenant == 0 && n == 0)
        return 0;
    struct tr_hash h = {limits->hash_key[0] ^ limits->tenant, limits->hash_key[1]};
    h = tr_hash_link(h, salt, n);
    ret[0] = h.lo;
    ret[1] = h.hi;
    return 0;
}

int srv_params_job(struct tr_job **ret, const struct srv_params *p, const struct srv_limits *limits,
                   struct tr_ids *prompt, struct tr_err *err)
{
    struct tr_job *job = calloc(1, sizeof *job);
    if (!job) {
        free(prompt->ids);
        *prompt = (struct tr_ids){0};
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    job->prompt = prompt->ids;
    job->n_prompt = (int)prompt->n;
    *prompt = (struct tr_ids){0};
    int room = limits->context_length - job->n_prompt;
    job->max_tokens = p->max_tokens < 0 || p->max_tokens > room ? room : (int)p->max_tokens;
    job->min_tokens = (int)p->min_tokens;
    job->n = (int)p->n;
    job->ignore_eos = p->ignore_eos;
    job->prompt_logprobs = (int)TR_MAX(p->prompt_logprobs, p->echo ? p->logprobs : -1);
    job->priority = (int)p->priority;
    job->tenant = limits->tenant;
    job->cache_prompt = p->cache_prompt;
    if (limits->timeout_ms > 0)
        job->deadline_ns = limits->begun_ns + limits->timeout_ms * 1000000;
    int r = fill_sampling(job, p, limits, err);
    if (r == 0)
        r = srv_params_salt(&p->cache_salt, limits, job->cache_salt, err);
    if (r < 0) {
        tr_job_free(job);
        return r;
    }
    *ret = job;
    return 0;
}
