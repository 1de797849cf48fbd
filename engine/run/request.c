/* One accepted job: its limits are checked here, on the caller's thread. While it waits it holds
 * the job and a few words for each choice; the rest is made when it is admitted. */
#include <stdlib.h>
#include <string.h>

#include "engine/run/run.h"

enum { MAX_CHOICES = 4096 };

struct tr_job *tr_job_free(struct tr_job *job)
{
    if (!job)
        return NULL;
    free(job->prompt);
    tr_grammar_unref(job->grammar);
    if (!job->borrows) {
        free(job->sampling.bias);
        free(job->sampling.allowed);
        free(job->sampling.bad_words);
        free(job->stop_ids);
    }
    free(job);
    return NULL;
}

static int check_ids(const struct tr_engine *e, const char *param, const int32_t *ids, int n,
                     struct tr_err *err)
{
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= e->info.vocab_size || !tr_idset_has(e->valid, ids[i]))
            return tr_err_set(err, TR_EINVAL, param, "%s: there is no token %d", param, ids[i]);
    return 0;
}

/* An answer whose end is not known gets what its prompt leaves of the context, or of the cache; its
 * samples need not fit all at once. */
static int fit_open(const struct tr_engine *e, const struct tr_job *job, int *ret_max_ids,
                    struct tr_err *err)
{
    int most = job->n_prompt + TR_MIN(job->max_tokens, e->info.context_length - job->n_prompt);
    *ret_max_ids = tr_schedule_longest(&e->limits, job->n_prompt, most);
    if (*ret_max_ids > job->n_prompt)
        return 0;
    return tr_err_set(err, TR_ENOFIT, "prompt",
                      "the KV cache of %llu bytes has room for %d tokens; the prompt has %d",
                      (unsigned long long)e->info.kv_cache_bytes, *ret_max_ids, job->n_prompt);
}

static int fit(const struct tr_engine *e, const struct tr_job *job, int *ret_max_ids,
               struct tr_err *err)
{
    if (job->open_ended && job->max_tokens)
        return fit_open(e, job, ret_max_ids, err);
    int room = e->info.context_length - job->n_prompt;
    *ret_max_ids = job->n_prompt + TR_MIN(job->max_tokens, room);
    if (tr_schedule_need(&e->limits, job->n_prompt, *ret_max_ids, job->n) <= e->info.kv_cache_bytes)
        return 0;
    return tr_err_set(err, TR_ENOFIT, "max_tokens",
                      "%d samples of %d tokens do not fit the KV cache of %llu bytes", job->n,
                      *ret_max_ids, (unsigned long long)e->info.kv_cache_bytes);
}

/* On success *ret_max_ids is the longest that prompt and answer can get. */
static int check(const struct tr_engine *e, const struct tr_job *job, int *ret_max_ids,
                 struct tr_err *err)
{
    int context = e->info.context_length;
    if (job->n_prompt < 1)
        return tr_err_set(err, TR_EINVAL, "prompt", "the prompt is empty");
    if (job->n < 1 || job->n > MAX_CHOICES)
        return tr_err_set(err, TR_EINVAL, "n", "n must be from 1 to %d", MAX_CHOICES);
    if (job->max_tokens < 0 || job->min_tokens < 0)
        return tr_err_set(err, TR_EINVAL, "max_tokens",
                          "max_tokens and min_tokens must be 0 or more");
    if (job->prompt_logprobs > TR_MAX_LOGPROBS)
        return tr_err_set(err, TR_EINVAL, "prompt_logprobs", "prompt_logprobs must be at most %d",
                          TR_MAX_LOGPROBS);
    if (job->n_prompt >= context + (job->max_tokens == 0))
        return tr_err_set(err, TR_ETOOLONG, "prompt",
                          "the prompt has %d tokens, the context has room for %d with an answer",
                          job->n_prompt, context);
    int r = check_ids(e, "prompt", job->prompt, job->n_prompt, err);
    if (r == 0)
        r = check_ids(e, "stop_token_ids", job->stop_ids, job->n_stop_ids, err);
    if (r == 0)
        r = tr_sampling_check(&job->sampling, e->info.vocab_size, e->valid, err);
    if (r < 0)
        return r;
    return fit(e, job, ret_max_ids, err);
}

static void init_choice(struct choice *c, struct request *r, int index, int max_ids)
{
    const struct tr_job *job = r->job;
    c->request = r;
    c->index = index;
    c->open = true;
    tr_seq_init(&c->seq, job->prompt, job->n_prompt, max_ids);
    c->seq.open_ended = job->open_ended && max_ids > job->n_prompt;
    c->seq.priority = job->priority;
    c->seq.across = job->priority_across;
    c->seq.tenant = job->tenant;
    c->seq.weight = TR_MAX(job->weight, 1);
    c->seq.group = &r->group;
    c->seq.share = job->cache_prompt;
    c->seq.recompute = index == 0 && job->prompt_logprobs >= 0;
}

int tr__request_make(struct request **ret, struct tr_engine *e, struct tr_job *job,
                     struct tr_err *err)
{
    int max_ids = 0;
    int status = check(e, job, &max_ids, err);
    if (status < 0)
        return status;
    struct request *r = calloc(1, sizeof *r);
    struct choice *choices = calloc((size_t)job->n, sizeof *choices);
    if (!r || !choices) {
        free(r);
        free(choices);
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    r->job = job;
    r->choices = choices;
    r->n = r->n_open = job->n;
    r->usage.prompt_tokens = job->n_prompt;
    for (int i = 0; i < job->n; i++)
        init_choice(&choices[i], r, i, max_ids);
    r->choices[0].seq.n_forks = job->n - 1;
    *ret = r;
    return 0;
}

struct request *tr__request_free(struct request *r)
{
    if (!r)
        return NULL;
    free(r->choices);
    tr_job_free(r->job);
    free(r);
    return NULL;
}
