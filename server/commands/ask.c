#include "server/commands/ask.h"

#include <stdlib.h>

#include "engine/text/tokenizer.h"
#include "server/load.h"

static void on_event(void *arg, const struct tr_event *event)
{
    struct srv_ask *a = arg;
    pthread_mutex_lock(&a->mutex);
    if (a->on_event)
        a->on_event(a->arg, event);
    if (event->kind == TR_EVENT_CHOICE_DONE && event->err)
        a->err = *event->err;
    if (event->kind == TR_EVENT_DONE) {
        a->finish = event->finish;
        a->usage = *event->usage;
        if (--a->n_open == 0)
            pthread_cond_signal(&a->changed);
    }
    pthread_mutex_unlock(&a->mutex);
}

int srv_ask_open(struct tr_engine **ret, const struct tr_options *o, struct srv_ask *a,
                 struct tr_err *err)
{
    struct tr_engine_options options;
    srv_engine_options(&options, o);
    options.on_event = on_event;
    options.event_arg = a;
    return srv_engine_open(ret, &options, err);
}

int32_t *srv_ask_ids(const struct tr_engine *e, int n, int number)
{
    const struct tr_tokenizer *t = tr_engine_tokenizer(e);
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    uint64_t state = (uint64_t)number + 1;
    for (int i = 0; ids && i < n; i++)
        do {
            state = state * 6364136223846793005U + 1442695040888963407U;
            ids[i] = (int32_t)((state >> 33) % (uint64_t)tr_tokenizer_size(t));
        } while (!tr_tokenizer_has_id(t, ids[i]));
    return ids;
}

struct tr_job *srv_ask_job(int32_t *ids, int n)
{
    struct tr_job *job = ids ? calloc(1, sizeof *job) : NULL;
    if (!job) {
        free(ids);
        return NULL;
    }
    *job = (struct tr_job){
        .prompt = ids,
        .n_prompt = n,
        .n = 1,
        .prompt_logprobs = -1,
        .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .n_logprobs = -1},
    };
    return job;
}

static void count(struct srv_ask *a, int n)
{
    pthread_mutex_lock(&a->mutex);
    a->n_open += n;
    pthread_mutex_unlock(&a->mutex);
}

int srv_ask_submit(struct srv_ask *a, struct tr_engine *e, struct tr_job *job, struct tr_err *err)
{
    uint64_t id;
    if (!job)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    count(a, 1);
    int r = tr_engine_submit(e, job, &id, err);
    if (r < 0) {
        count(a, -1);
        tr_job_free(job);
    }
    return r;
}

int srv_ask_wait(struct srv_ask *a, struct tr_err *err)
{
    pthread_mutex_lock(&a->mutex);
    while (a->n_open > 0)
        pthread_cond_wait(&a->changed, &a->mutex);
    int r = a->err.code;
    if (r < 0)
        *err = a->err;
    pthread_mutex_unlock(&a->mutex);
    return r;
}
