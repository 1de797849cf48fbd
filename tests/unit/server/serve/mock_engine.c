#include "mock_engine.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/clock.h"
#include "engine/text/tokenizer.h"
#include "engine/view.h"

struct mock mock;

struct running {
    struct running *next;
    struct tr_job *job;
    uint64_t id;
    bool admitted, paused, cancel;
    int n_done;
    int tokens[128]; /* given out, a choice */
    bool done[128], cancel_choice[128];
    struct tr_usage usage;
};

struct tr_engine {
    struct tr_engine_options options;
    struct tr_engine_info info;
    struct tr_tokenizer *tokenizer;
    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    struct running *jobs;
    uint64_t next_id;
    bool closing, draining;
    struct tr_engine_stats stats;
};

struct tr_job *tr_job_free(struct tr_job *job)
{
    if (job) {
        free(job->prompt);
        free(job->sampling.bias);
        free(job->sampling.allowed);
        free(job->sampling.bad_words);
        free(job->stop_ids);
        free(job);
    }
    return NULL;
}

static void emit(struct tr_engine *e, const struct running *r, struct tr_event ev)
{
    ev.id = r->id;
    ev.user = r->job->user;
    e->options.on_event(e->options.event_arg, &ev);
}

static void end_choice(struct tr_engine *e, struct running *r, int c, enum tr_finish finish,
                       int32_t id)
{
    static const struct tr_err fault = {.code = TR_EINTERNAL, .msg = "a fault was injected"};
    r->done[c] = true;
    r->n_done++;
    e->stats.finished[finish]++;
    emit(e, r,
         (struct tr_event){.kind = TR_EVENT_CHOICE_DONE,
                           .choice = c,
                           .finish = finish,
                           .stop_id = id,
                           .err = finish == TR_FINISH_ERROR ? &fault : NULL});
}

static void fill_top(struct tr_top *top, int n, int32_t token)
{
    for (int i = 0; i < n; i++)
        top[i] = (struct tr_top){.id = token + i, .logprob = -1.0f - (float)i};
}

static void admit(struct tr_engine *e, struct running *r)
{
    r->admitted = true;
    r->usage.prompt_tokens = r->job->n_prompt;
    emit(e, r, (struct tr_event){.kind = TR_EVENT_ADMITTED, .usage = &r->usage});
    for (int i = 0; r->job->prompt_logprobs >= 0 && i < r->job->n_prompt; i++) {
        struct tr_top top[32];
        fill_top(top, r->job->prompt_logprobs, r->job->prompt[i]);
        emit(e, r,
             (struct tr_event){.kind = TR_EVENT_PROMPT,
                               .position = i,
                               .token = r->job->prompt[i],
                               .logprob = i ? -1.0f : NAN,
                               .top = top,
                               .n_top = i ? r->job->prompt_logprobs : 0});
    }
}

static bool is_eog(const struct tr_engine *e, const struct running *r, int c, int32_t id)
{
    int n;
    const int32_t *eog = tr_tokenizer_eog(e->tokenizer, &n);
    if (r->job->ignore_eos || r->tokens[c] < r->job->min_tokens)
        return false;
    for (int i = 0; i < n; i++)
        if (eog[i] == id)
            return true;
    return false;
}

static void step_choice(struct tr_engine *e, struct running *r, int c)
{
    const struct tr_job *job = r->job;
    if (r->cancel || r->cancel_choice[c]) {
        end_choice(e, r, c, TR_FINISH_CANCELED, -1);
        return;
    }
    if (job->deadline_ns && tr_clock_ns() > job->deadline_ns) {
        end_choice(e, r, c, TR_FINISH_DEADLINE, -1);
        return;
    }
    if (!r->admitted || r->paused)
        return;
    if (mock.fail_after && r->tokens[c] == mock.fail_after) {
        end_choice(e, r, c, TR_FINISH_ERROR, -1);
        return;
    }
    int max = TR_MIN(job->max_tokens, e->info.context_length - job->n_prompt);
    if (r->tokens[c] < max) {
        int32_t id = job->prompt[(r->tokens[c] + c) % job->n_prompt];
        struct tr_top top[32];
        int n = TR_MAX(job->sampling.n_logprobs, 0);
        fill_top(top, n, id);
        bool end = is_eog(e, r, c, id);
        enum tr_finish last = r->tokens[c] + 1 == max ? TR_FINISH_LENGTH : TR_FINISH_NONE;
        emit(e, r,
             (struct tr_event){.kind = TR_EVENT_TOKEN,
                               .choice = c,
                               .position = r->tokens[c],
                               .token = id,
                               .logprob = -1.0f,
                               .top = top,
                               .n_top = n,
                               .finish = end ? TR_FINISH_EOS : last,
                               .stop_id = end ? id : -1});
        r->tokens[c]++;
        r->usage.completion_tokens++;
        e->stats.generated_tokens++;
        if (end) {
            end_choice(e, r, c, TR_FINISH_EOS, id);
            return;
        }
    }
    if (r->tokens[c] >= max)
        end_choice(e, r, c, TR_FINISH_LENGTH, -1);
}

static void step(struct tr_engine *e)
{
    int n_running = 0;
    e->stats.steps++;
    for (struct running **at = &e->jobs; *at;) {
        struct running *r = *at;
        n_running++;
        if (!r->admitted && !r->cancel && (!mock.hold_queue || n_running <= mock.hold_queue))
            admit(e, r);
        for (int c = 0; c < r->job->n; c++)
            if (!r->done[c])
                step_choice(e, r, c);
        if (r->n_done < r->job->n) {
            at = &r->next;
            continue;
        }
        emit(e, r, (struct tr_event){.kind = TR_EVENT_DONE, .usage = &r->usage});
        *at = r->next;
        tr_job_free(r->job);
        free(r);
    }
}

static void *run(void *arg)
{
    struct tr_engine *e = arg;
    for (bool over = false; !over;) {
        usleep((useconds_t)mock.step_us);
        pthread_mutex_lock(&e->lock);
        if (!mock.stuck)
            e->stats.heartbeat_ns = tr_clock_ns();
        for (struct running *r = e->jobs; r && e->closing; r = r->next)
            r->cancel = true;
        step(e);
        over = e->closing && !e->jobs;
        pthread_mutex_unlock(&e->lock);
    }
    return NULL;
}

int tr_engine_open(struct tr_engine **ret, const struct tr_engine_options *options,
                   struct tr_err *err)
{
    if (options->on_checked && !options->on_checked(options->on_checked_arg, 0, UINT64_MAX))
        return tr_err_set(err, TR_ECANCELED, NULL, "called off");
    if (options->progress)
        options->progress(options->progress_arg, 0, 1);
    usleep((useconds_t)mock.load_us);
    if (mock.load_fails)
        return tr_err_set(err, TR_ENOMEM, NULL, "a failure was injected");
    struct tr_engine *e = calloc(1, sizeof *e);
    if (!e)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int vocab = 4096;
    int r = tr_tokenizer_load(&e->tokenizer, options->model, vocab, err);
    if (r < 0) {
        free(e);
        return r;
    }
    e->options = *options;
    e->info = (struct tr_engine_info){.name = "mock",
                                      .sampling = {NAN, NAN, NAN, NAN, -1},
                                      .fingerprint = "0123456789abcdef0123456789abcdef",
                                      .isa = "none",
                                      .blas = "none",
                                      .weights = "none",
                                      .warnings = "",
                                      .context_length = mock.context ? mock.context : 1 << 20,
                                      .vocab_size = vocab,
                                      .page_tokens = 16};
    e->stats.heartbeat_ns = mock.stuck ? tr_clock_ns() - 3600 * 1000000000LL : tr_clock_ns();
    pthread_mutex_init(&e->lock, NULL);
    pthread_create(&e->thread, NULL, run, e);
    *ret = e;
    return 0;
}

struct tr_engine *tr_engine_close(struct tr_engine *e)
{
    if (!e)
        return NULL;
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->lock);
    tr_tokenizer_free(e->tokenizer);
    free(e);
    return NULL;
}

const struct tr_engine_info *tr_engine_info(const struct tr_engine *e)
{
    return &e->info;
}

const struct tr_tokenizer *tr_engine_tokenizer(const struct tr_engine *e)
{
    return e->tokenizer;
}

const char *tr_engine_chat_template(const struct tr_engine *e)
{
    (void)e;
    return NULL;
}

int tr_engine_submit(struct tr_engine *e, struct tr_job *job, uint64_t *ret_id, struct tr_err *err)
{
    struct running *r = calloc(1, sizeof *r);
    int code = r ? 0 : TR_ENOMEM;
    pthread_mutex_lock(&e->lock);
    struct running **at = &e->jobs;
    int n = 0;
    for (; *at; at = &(*at)->next)
        n++;
    if (code == 0 && e->draining)
        code = TR_EDRAIN;
    if (code == 0 && mock.max_queue && n >= mock.max_queue)
        code = TR_EQUEUE;
    if (code == 0) {
        r->job = job;
        r->id = *ret_id = ++e->next_id;
        *at = r;
    }
    pthread_mutex_unlock(&e->lock);
    if (code < 0)
        free(r);
    return code < 0 ? tr_err_set(err, code, NULL, "%s", tr_err_text(code)) : 0;
}

void tr_engine_cancel(struct tr_engine *e, uint64_t id, int choice)
{
    pthread_mutex_lock(&e->lock);
    for (struct running *r = e->jobs; r; r = r->next)
        if (r->id == id) {
            if (choice < 0)
                r->cancel = true;
            else
                r->cancel_choice[choice] = true;
        }
    pthread_mutex_unlock(&e->lock);
}

void tr_engine_pause(struct tr_engine *e, uint64_t id, bool paused)
{
    pthread_mutex_lock(&e->lock);
    for (struct running *r = e->jobs; r; r = r->next)
        if (r->id == id)
            r->paused = paused;
    pthread_mutex_unlock(&e->lock);
}

void tr_engine_drain(struct tr_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->draining = true;
    pthread_mutex_unlock(&e->lock);
}

void tr_engine_stats(struct tr_engine *e, struct tr_engine_stats *ret)
{
    pthread_mutex_lock(&e->lock);
    *ret = e->stats;
    for (struct running *r = e->jobs; r; r = r->next) {
        ret->running += r->admitted && !r->paused;
        ret->waiting += !r->admitted;
        ret->paused += r->paused;
    }
    pthread_mutex_unlock(&e->lock);
}

int tr_engine_retry_after(struct tr_engine *e)
{
    (void)e;
    return 7;
}

/* It has nothing to show. */

void tr_engine_look(struct tr_engine *e)
{
    (void)e;
}

const struct tr_engine_view *tr_engine_view(struct tr_engine *e)
{
    static const struct tr_engine_view nothing;
    (void)e;
    return &nothing;
}

bool tr_engine_layer_is_global(const struct tr_engine *e, int layer)
{
    (void)e;
    return layer % 4 == 3;
}

/* It keeps no cache. */

int64_t tr_engine_capacity(const struct tr_engine *e, int tokens)
{
    return e->info.context_length / TR_MAX(tokens, 1);
}

int tr_engine_snapshot_save(struct tr_engine *e, const char *name, const int32_t *ids, int n_ids,
                            const struct tr_snapshot_scope *scope, struct tr_snapshot *ret,
                            struct tr_err *err)
{
    (void)e, (void)name, (void)ids, (void)n_ids, (void)scope, (void)ret;
    return tr_err_set(err, TR_EUNSUPPORTED, NULL, "no snapshots");
}

int tr_engine_snapshot_restore(struct tr_engine *e, const char *name,
                               const struct tr_snapshot_scope *scope, struct tr_snapshot *ret,
                               struct tr_err *err)
{
    (void)e, (void)name, (void)scope, (void)ret;
    return tr_err_set(err, TR_EUNSUPPORTED, NULL, "no snapshots");
}

int tr_engine_snapshot_list(struct tr_engine *e, const uint64_t owner[2], struct tr_snapshot **ret,
                            int *ret_n, struct tr_err *err)
{
    (void)e, (void)owner, (void)ret, (void)ret_n;
    return tr_err_set(err, TR_EUNSUPPORTED, NULL, "no snapshots");
}

int tr_engine_snapshot_delete(struct tr_engine *e, const char *name, const uint64_t owner[2],
                              struct tr_err *err)
{
    (void)e, (void)name, (void)owner;
    return tr_err_set(err, TR_EUNSUPPORTED, NULL, "no snapshots");
}
