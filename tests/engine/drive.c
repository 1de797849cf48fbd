#include "tests/engine/drive.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void on_event(void *arg, const struct tr_event *event)
{
    (void)arg;
    struct outcome *o = event->user;
    struct answer *a = &o->choices[event->choice];
    pthread_mutex_lock(&mutex);
    switch (event->kind) {
    case TR_EVENT_ADMITTED:
        o->admitted = true;
        break;
    case TR_EVENT_PROMPT:
        o->prompt_logprobs[o->n_prompt_logprobs++] = event->logprob;
        break;
    case TR_EVENT_TOKEN:
        a->ids[a->n] = event->token;
        a->logprobs[a->n++] = event->logprob;
        break;
    case TR_EVENT_CHOICE_DONE:
        a->finish = event->finish;
        a->stop_id = event->stop_id;
        a->done = true;
        if (event->err)
            memcpy(o->error, event->err->msg, sizeof o->error);
        break;
    case TR_EVENT_DONE:
        o->usage = *event->usage;
        o->done = true;
        break;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

struct tr_engine_options drive_options(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    struct tr_engine_options o;
    tr_engine_default_options(&o);
    snprintf(path, sizeof paths[0], "tests/golden/%s", name);
    o.model = path;
    o.weights = TR_WEIGHTS_F32;
    o.kv_type = TR_KV_F32;
    o.threads = 2;
    o.page_tokens = 16;
    o.max_batch_tokens = 64;
    o.max_sequences = 16;
    o.kv_cache_bytes = 64U << 20;
    o.poison_pages = true;
    return o;
}

struct tr_engine *drive_open(struct tr_engine_options o)
{
    struct tr_engine *e = NULL;
    struct tr_err err = {0};
    o.on_event = on_event;
    if (tr_engine_open(&e, &o, &err) < 0)
        fail_msg("open: %s", err.msg);
    return e;
}

struct tr_job *drive_job(const int32_t *prompt, int n, int max_tokens)
{
    struct tr_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->prompt = malloc((size_t)n * sizeof *prompt);
    assert_non_null(job->prompt);
    memcpy(job->prompt, prompt, (size_t)n * sizeof *prompt);
    job->n_prompt = n;
    job->max_tokens = max_tokens;
    job->n = 1;
    job->sampling = (struct tr_sampling){
        .top_p = 1.0F, .typical_p = 1.0F, .repetition_penalty = 1.0F, .n_logprobs = 0};
    job->ignore_eos = true;
    job->prompt_logprobs = -1;
    job->cache_prompt = true;
    return job;
}

void drive_submit(struct tr_engine *e, struct tr_job *job, struct outcome *o)
{
    struct tr_err err = {0};
    memset(o, 0, sizeof *o);
    job->user = o;
    if (tr_engine_submit(e, job, &o->id, &err) < 0)
        fail_msg("submit: %s", err.msg);
}

void drive_wait(struct outcome *o)
{
    pthread_mutex_lock(&mutex);
    while (!o->done)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void drive_wait_tokens(struct outcome *o, int n)
{
    pthread_mutex_lock(&mutex);
    while (!o->done && o->choices[0].n < n)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void drive(struct tr_engine *e, struct tr_job *job, struct outcome *o)
{
    drive_submit(e, job, o);
    drive_wait(o);
}

void assert_same(const struct outcome *a, const struct outcome *b, const char *what)
{
    for (int c = 0; c < DRIVE_MAX_CHOICES; c++) {
        const struct answer *x = &a->choices[c];
        const struct answer *y = &b->choices[c];
        if (x->n != y->n || x->finish != y->finish)
            fail_msg("%s: choice %d has %d tokens and end %d, not %d and %d", what, c, x->n,
                     x->finish, y->n, y->finish);
        for (int i = 0; i < x->n; i++)
            if (x->ids[i] != y->ids[i] ||
                memcmp(&x->logprobs[i], &y->logprobs[i], sizeof x->logprobs[i]) != 0)
                fail_msg("%s: choice %d token %d is %d (%.9g), not %d (%.9g)", what, c, i,
                         x->ids[i], (double)x->logprobs[i], y->ids[i], (double)y->logprobs[i]);
    }
}

struct tr_engine_stats drive_idle(struct tr_engine *e)
{
    struct tr_engine_stats s;
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        tr_engine_stats(e, &s);
        if (s.waiting + s.running + s.paused == 0)
            return s;
        nanosleep(&pause, NULL);
    }
}

void drive_ids(int32_t *ids, int n, uint32_t seed)
{
    uint32_t x = seed * 2654435761U + 12345U;
    for (int i = 0; i < n; i++) {
        x = x * 1664525U + 1013904223U;
        ids[i] = 13 + (int32_t)((x >> 8) % 256U);
    }
}
