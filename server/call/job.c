#include "server/call/job.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config/hash.h"
#include "server/call/call.h"
#include "server/call/constraint.h"

enum {
    MAX_PROMPT_ENTRIES = 1 << 19, /* log probabilities of a prompt in one answer: about 32 MiB */
    MAX_STOP_IDS = 1024,
    MAX_BAD_WORDS = 1024,
    MAX_BAD_IDS = 16384, /* all sequences together */
    MAX_BAD_BYTES = 1024 /* each */
};
#define GREEDY_BELOW 1e-4 /* a temperature this small is argmax in all but name */

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

/* An ascending list, owned by the caller; *ret stays NULL if the field was not given. max 0: as
 * many as there are tokens. */
static int take_ids(const struct tr_json *v, const struct tr_tokenizer *t, size_t max,
                    int32_t **ret, int *ret_n, struct tr_err *err)
{
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_expect(v, TR_JSON_ARRAY, err);
    if (r < 0)
        return r;
    size_t n = tr_json_size(v);
    if (max == 0)
        max = (size_t)tr_tokenizer_size(t);
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

/* ---- what the engine is asked ---- */

static int fill_sampling(struct tr_job *job, const struct srv_params *p,
                         const struct srv_context *x, struct tr_err *err)
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
    int r = tr_json_given(&p->seed) ? tr_json_as_word(&p->seed, &s->seed, err) : 0;
    if (r == 0)
        r = take_bias(s, &p->logit_bias, x->tokenizer, err);
    if (r == 0)
        r = take_ids(&p->allowed_token_ids, x->tokenizer, 0, &s->allowed, &s->n_allowed, err);
    if (r == 0 && s->allowed && s->n_allowed == 0)
        r = tr_json_fail(&p->allowed_token_ids, err, "an empty list allows nothing");
    if (r == 0)
        r = take_bad_words(s, &p->bad_words, x->tokenizer, err);
    if (r == 0)
        r = take_ids(&p->stop_token_ids, x->tokenizer, MAX_STOP_IDS, &job->stop_ids,
                     &job->n_stop_ids, err);
    return r;
}

int srv_job_salt(const struct tr_json *cache_salt, uint64_t tenant, const uint64_t hash_key[2],
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
    if (tenant == 0 && n == 0)
        return 0;
    struct tr_hash h = {hash_key[0] ^ tenant, hash_key[1]};
    h = tr_hash_link(h, salt, n);
    ret[0] = h.lo;
    ret[1] = h.hi;
    return 0;
}

/* What every prompt is asked the same, read once. */
static int make_asked(struct srv_call *c, struct tr_err *err)
{
    const struct srv_params *p = &c->params;
    const struct srv_context *x = &c->context;
    struct tr_job *job = c->asked = calloc(1, sizeof *job);
    if (!job)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    job->open_ended = p->max_tokens < 0;
    job->min_tokens = (int)p->min_tokens;
    job->n = (int)p->n;
    job->ignore_eos = p->ignore_eos;
    job->prompt_logprobs = (int)TR_MAX(p->prompt_logprobs, p->echo ? p->logprobs : -1);
    job->priority = x->background ? INT_MAX : (int)TR_MAX(p->priority, x->best_priority);
    job->weight = x->weight;
    job->priority_across = x->across || x->background;
    job->tenant = x->tenant;
    job->cache_prompt = p->cache_prompt;
    if (x->timeout_ms > 0)
        job->deadline_ns = x->begun_ns + x->timeout_ms * 1000000;
    int r = fill_sampling(job, p, x, err);
    if (r == 0)
        r = srv_job_salt(&p->cache_salt, x->tenant, x->hash_key, job->cache_salt, err);
    if (r == 0)
        r = srv_constraint_read(&job->grammar, c, err);
    if (job->grammar && c->rules.reasoning_open)
        job->grammar_after = TR_REASONING_CLOSE;
    return r;
}

/* A job for the prompt, whose ids it takes over, also on failure. */
static int make(struct tr_job **ret, struct srv_call *c, struct tr_ids *prompt, struct tr_err *err)
{
    int r = c->asked ? 0 : make_asked(c, err);
    struct tr_job *job = r == 0 ? malloc(sizeof *job) : NULL;
    if (!job) {
        free(prompt->ids);
        *prompt = (struct tr_ids){0};
        return r < 0 ? r : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    *job = *c->asked;
    job->borrows = true;
    if (job->grammar)
        tr_grammar_ref(job->grammar);
    /* Without a seed each prompt draws its own: equal prompts get different answers. */
    if (!tr_json_given(&c->params.seed)) {
        struct tr_hash secret = {c->context.random, 0};
        job->sampling.seed = tr_hash_link(secret, &c->n_jobs, sizeof c->n_jobs).lo;
    }
    job->prompt = prompt->ids;
    job->n_prompt = (int)prompt->n;
    *prompt = (struct tr_ids){0};
    int64_t wanted = c->params.max_tokens, room = c->context.context_length - job->n_prompt;
    job->max_tokens = (int)(wanted < 0 ? room : TR_MIN(wanted, room));
    *ret = job;
    return 0;
}

/* ---- jobs and their choices ---- */

int srv_jobs_init(struct srv_call *c, size_t n, struct tr_err *err)
{
    const struct srv_context *x = &c->context;
    size_t n_choices = n * (size_t)c->params.n;
    if (n_choices > (size_t)x->max_choices || n > (size_t)x->max_queue)
        return tr_err_set(
            err, TR_EINVAL, n > 1 ? "prompt" : "n",
            "%zu prompts times n %lld: at most %d answers a request (max_choices) and "
            "%d prompts (max_queue)",
            n, (long long)c->params.n, x->max_choices, x->max_queue);
    c->jobs = calloc(n, sizeof *c->jobs);
    if (!c->jobs)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    c->n_prompts = (int)n;
    return 0;
}

/* The one place where a prompt's length is held against the context. */
static int fit(const struct srv_call *c, size_t n_prompt, bool more, struct tr_err *err)
{
    size_t room = (size_t)c->context.context_length;
    if (more)
        n_prompt = room + 1;
    if (n_prompt < room || (n_prompt == room && c->params.max_tokens == 0))
        return 0;
    return tr_err_set(err, TR_ETOOLONG, "prompt",
                      "This model's maximum context length is %d tokens. However, your prompt has "
                      "%s%zu tokens%s. Shorten the prompt.",
                      c->context.context_length, more ? "at least " : "", n_prompt,
                      n_prompt == room ? ", which leaves no room for an answer" : "");
}

/* Every choice repeats what is told of the prompt: together so much and no more. */
static int fit_answer(const struct srv_call *c, size_t n_prompt, struct tr_err *err)
{
    const struct srv_params *p = &c->params;
    int64_t tops = TR_MAX(p->prompt_logprobs, p->echo ? p->logprobs : -1);
    int64_t entries = (int64_t)n_prompt * (tops + 1) * p->n;
    if (tops < 0 || entries <= MAX_PROMPT_ENTRIES)
        return 0;
    return tr_err_set(err, TR_EINVAL, p->prompt_logprobs >= 0 ? "prompt_logprobs" : "logprobs",
                      "%zu prompt tokens with %lld log probabilities each in %lld answers: at most "
                      "%d are told in one",
                      n_prompt, (long long)tops + 1, (long long)p->n, MAX_PROMPT_ENTRIES);
}

static int keep_prompt(struct srv_job *j)
{
    if (!j->call->params.return_token_ids)
        return 0;
    size_t bytes = (size_t)j->n_prompt * sizeof *j->prompt;
    j->prompt = malloc(bytes);
    if (!j->prompt)
        return TR_ENOMEM;
    memcpy(j->prompt, j->job->prompt, bytes);
    return 0;
}

int srv_job_add(struct srv_call *c, struct tr_ids *ids, bool more, struct tr_err *err)
{
    struct srv_job *j = &c->jobs[c->n_jobs];
    size_t keep = (size_t)c->params.truncate_prompt_tokens;
    if (keep > 0 && ids->n > keep) {
        memmove(ids->ids, ids->ids + ids->n - keep, keep * sizeof *ids->ids);
        ids->n = keep;
    }
    int r = fit(c, ids->n, more, err);
    if (r == 0)
        r = fit_answer(c, ids->n, err);
    if (r < 0) {
        free(ids->ids);
        *ids = (struct tr_ids){0};
        return r;
    }
    r = make(&j->job, c, ids, err);
    if (r < 0)
        return r;
    j->call = c;
    j->n_prompt = j->job->n_prompt;
    j->job->user = j;
    c->n_jobs++;
    c->n_answers += (int)c->params.n;
    r = keep_prompt(j);
    return r < 0 ? tr_err_set(err, r, NULL, "%s", tr_err_text(r)) : 0;
}

void srv_job_done(struct srv_job *j)
{
    tr_job_free(j->job);
    free(j->prompt);
    tr_buf_done(&j->echo);
    free(j->offsets);
    srv_logprobs_done(&j->logprobs);
    tr_buf_done(&j->prompt_logprobs);
}
