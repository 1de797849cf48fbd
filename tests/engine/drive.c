#include "tests/engine/drive.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
        a->told = event->finish;
        a->told_id = event->stop_id;
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
    struct tr_engine_options o = {.use_mmap = true, .isa = TR_ISA_AUTO, .prefix_cache = true};
    snprintf(path, sizeof paths[0], "%s%s", name[0] == '/' ? "" : "tests/golden/", name);
    o.model = path;
    o.weights = TR_WEIGHTS_F32;
    o.kv_type = TR_KV_F32;
    o.threads = 1; /* others where a test is about them: barriers are slow on a busy machine */
    o.page_tokens = 16;
    o.max_batch_tokens = 64;
    o.max_sequences = 16;
    o.max_queue = 1024;
    o.kv_cache_bytes = 64U << 20;
    o.poison_pages = true;
    return o;
}

/* Copies a text file, replacing the number behind `key` where it occurs. */
static void copy_config(const char *from, const char *to, const char *const keys[2],
                        const int values[2])
{
    static char text[1 << 16];
    FILE *f = fopen(from, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    f = fopen(to, "w");
    assert_non_null(f);
    const char *at = text;
    while (*at) {
        bool hit = false;
        for (int k = 0; k < 2 && !hit; k++) {
            size_t len = strlen(keys[k]);
            if (strncmp(at, keys[k], len) == 0) {
                fprintf(f, "%s%d", keys[k], values[k]);
                at += len;
                at += strspn(at, "0123456789");
                hit = true;
            }
        }
        if (!hit)
            fputc(*at++, f);
    }
    fclose(f);
}

static const char *const variant_files[] = {"model.safetensors", "tokenizer.json",
                                            "tokenizer_config.json"};

const char *drive_variant(int window)
{
    static char dir[64];
    static const char *const keys[2] = {"\"sliding_window\": ", "\"max_position_embeddings\": "};
    char to[256];
    char here[4096];
    char from[4352];
    strcpy(dir, "/tmp/trinity-engine-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_non_null(getcwd(here, sizeof here));
    for (size_t i = 0; i < TR_ARRAY_LEN(variant_files); i++) {
        snprintf(from, sizeof from, "%s/tests/golden/plain/%s", here, variant_files[i]);
        snprintf(to, sizeof to, "%s/%s", dir, variant_files[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    snprintf(to, sizeof to, "%s/config.json", dir);
    copy_config("tests/golden/plain/config.json", to, keys, (const int[2]){window, 4096});
    return dir;
}

void drive_remove(const char *path)
{
    char file[256];
    for (size_t i = 0; i < TR_ARRAY_LEN(variant_files); i++) {
        snprintf(file, sizeof file, "%s/%s", path, variant_files[i]);
        unlink(file);
    }
    snprintf(file, sizeof file, "%s/config.json", path);
    unlink(file);
    rmdir(path);
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

int drive_tokens(struct outcome *o)
{
    pthread_mutex_lock(&mutex);
    int n = o->choices[0].n;
    pthread_mutex_unlock(&mutex);
    return n;
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
    int64_t seen = 0;
    for (int turns = 0; turns < 3;) { /* numbers from before the last call may still stand there */
        tr_engine_cancel(e, 0, -1);
        nanosleep(&pause, NULL);
        tr_engine_stats(e, &s);
        bool turned = s.heartbeat_ns != seen && s.waiting + s.running + s.paused == 0;
        turns += turned;
        seen = s.heartbeat_ns;
    }
    return s;
}

void drive_ids(int32_t *ids, int n, uint32_t seed)
{
    uint32_t x = seed * 2654435761U + 12345U;
    for (int i = 0; i < n; i++) {
        x = x * 1664525U + 1013904223U;
        ids[i] = 13 + (int32_t)((x >> 8) % 256U);
    }
}
