/*
 * `trinityd generate`: one completion to standard output through the engine, without a server.
 *
 * Events come on the engine's thread, which must not wait for whoever reads our output: they go
 * into a queue that has room for every token of the answer, and the main thread takes them from
 * there.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/text/detokenizer.h"
#include "server/commands/commands.h"
#include "server/load.h"
#include "server/log.h"

#define MAX_TEXT (32U << 20)

/* Engine thread to main thread. */
struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    int32_t *ids; /* [max_tokens], owned */
    int n;
    bool done; /* the fields below are final */
    enum tr_finish finish;
    struct tr_usage usage;
    struct tr_err err;
};

static void on_event(void *arg, const struct tr_event *event)
{
    struct queue *q = arg;
    pthread_mutex_lock(&q->mutex);
    if (event->kind == TR_EVENT_TOKEN)
        q->ids[q->n++] = event->token;
    if (event->kind == TR_EVENT_CHOICE_DONE && event->err)
        q->err = *event->err;
    if (event->kind == TR_EVENT_DONE) {
        q->finish = event->finish;
        q->usage = *event->usage;
        q->done = true;
    }
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->mutex);
}

/* The prompt: the argument, or all of standard input. */
static int read_text(const struct tr_options *o, struct tr_buf *text, struct tr_err *err)
{
    if (o->text) {
        tr_buf_adds(text, o->text);
    } else {
        for (;;) {
            char *p = tr_buf_reserve(text, 1 << 16);
            ssize_t got = p ? read(STDIN_FILENO, p, 1 << 16) : 0;
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return tr_err_set(err, TR_EIO, NULL, "standard input: %s", strerror(errno));
            if (got == 0)
                break;
            text->len += (size_t)got;
            if (text->len > MAX_TEXT)
                return tr_err_set(err, TR_EINVAL, NULL, "standard input: more than %u bytes",
                                  MAX_TEXT);
        }
    }
    return text->oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
}

/* The job's prompt from the text. */
static int encode(struct tr_job *job, const struct tr_engine *e, const struct tr_buf *text,
                  struct tr_err *err)
{
    struct tr_ids ids = {0};
    int r = tr_tokenizer_encode(tr_engine_tokenizer(e), text->data ? text->data : "", text->len,
                                TR_ENCODE_SPECIAL | TR_ENCODE_BOS,
                                (size_t)tr_engine_info(e)->context_length, &ids);
    job->prompt = ids.ids;
    job->n_prompt = (int)ids.n;
    if (r < 0)
        return tr_err_set(err, r, NULL, "the text: %s", tr_err_text(r));
    return ids.n ? 0 : tr_err_set(err, TR_EINVAL, NULL, "the text is empty");
}

static struct tr_job *make_job(const struct tr_options *o, const struct tr_engine *e,
                               const struct tr_buf *text, struct tr_err *err)
{
    struct tr_job *job = calloc(1, sizeof *job);
    if (!job) {
        tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        return NULL;
    }
    if (encode(job, e, text, err) < 0)
        return tr_job_free(job);
    job->n = 1;
    job->max_tokens = o->max_tokens;
    job->prompt_logprobs = -1;
    job->sampling = (struct tr_sampling){
        .temperature = (float)o->temperature,
        .top_k = o->top_k,
        .top_p = (float)o->top_p,
        .min_p = (float)o->min_p,
        .typical_p = 1,
        .repetition_penalty = 1,
        .seed = (uint64_t)o->seed,
        .n_logprobs = -1,
    };
    return job;
}

/* Prints tokens as they come, until the job is done. */
static int print_answer(struct queue *q, const struct tr_tokenizer *t, struct tr_err *err)
{
    struct tr_detok detok = {0};
    struct tr_buf out = {0};
    bool done = false, failed = false;
    for (int next = 0; !done;) {
        pthread_mutex_lock(&q->mutex);
        while (next == q->n && !q->done)
            pthread_cond_wait(&q->filled, &q->mutex);
        int n = q->n; /* what lies before is not written again */
        done = q->done;
        pthread_mutex_unlock(&q->mutex);

        tr_buf_clear(&out);
        for (; next < n; next++)
            tr_detok_token(&detok, t, q->ids[next], true, &out);
        if (done) {
            tr_detok_end(&detok, q->finish == TR_FINISH_LENGTH, &out);
            tr_buf_addc(&out, '\n');
        }
        if (out.len)
            fwrite(out.data, 1, out.len, stdout);
        failed = failed || out.oom || fflush(stdout) != 0;
    }
    tr_buf_done(&out);
    if (q->finish == TR_FINISH_ERROR) {
        *err = q->err;
        return err->code;
    }
    return failed ? tr_err_set(err, TR_EIO, NULL, "standard output: %s", strerror(errno)) : 0;
}

static void log_speed(const struct tr_usage *u)
{
    double prefill = (double)u->prefill_ns * 1e-9, decode = (double)u->decode_ns * 1e-9;
    srv_log(SRV_LOG_INFO, NULL, "prompt %d tokens in %.2f s; answer %d tokens, %.1f a second",
            u->prompt_tokens, prefill, u->completion_tokens,
            decode > 0 ? (double)(u->completion_tokens - 1) / decode : 0.0);
}

/* Asks the engine and prints what it says. */
static int complete(const struct tr_options *o, struct tr_engine *e, struct queue *q,
                    const struct tr_buf *text, struct tr_err *err)
{
    uint64_t id;
    q->ids = calloc((size_t)TR_MIN(o->max_tokens, tr_engine_info(e)->context_length) + 1,
                    sizeof *q->ids);
    if (!q->ids)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct tr_job *job = make_job(o, e, text, err);
    if (!job)
        return err->code;
    int r = tr_engine_submit(e, job, &id, err);
    if (r < 0) {
        tr_job_free(job);
        return r;
    }
    return print_answer(q, tr_engine_tokenizer(e), err);
}

int srv_generate(const struct tr_options *o)
{
    struct queue q = {.mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
    struct tr_engine *e = NULL;
    struct tr_buf text = {0};
    struct tr_err err = {0};
    int r = read_text(o, &text, &err);
    if (r == 0)
        r = srv_engine_open(&e, o, on_event, NULL, &q, &err);
    if (r == 0) {
        srv_log_engine(tr_engine_info(e));
        r = complete(o, e, &q, &text, &err);
    }
    if (r == 0)
        log_speed(&q.usage);
    else
        fprintf(stderr, "trinityd: %s\n", err.msg);
    tr_engine_close(e);
    free(q.ids);
    tr_buf_done(&text);
    return r < 0 ? 1 : 0;
}
