/*
 * `trinityd generate`: one completion to standard output through the engine, without a server.
 *
 * Events come on the engine's thread, which must not wait for whoever reads our output: they go
 * into a queue that has room for every token of the answer, and the main thread takes them from
 * there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/text/detokenizer.h"
#include "server/commands/ask.h"
#include "server/commands/commands.h"
#include "server/load.h"
#include "server/log.h"

enum { MAX_TEXT = 32 << 20 };

/* Tokens on their way to the main thread. */
struct queue {
    struct srv_ask ask; /* its mutex guards the rest */
    int32_t *ids;       /* [max_tokens], owned */
    int n;
};

static void on_event(void *arg, const struct tr_event *event)
{
    struct queue *q = arg;
    if (event->kind == TR_EVENT_TOKEN) {
        q->ids[q->n++] = event->token;
        pthread_cond_signal(&q->ask.changed);
    }
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

static struct tr_job *make_job(const struct tr_options *o, const struct tr_engine *e,
                               const struct tr_buf *text, struct tr_err *err)
{
    struct tr_ids ids = {0};
    int r = tr_tokenizer_encode(tr_engine_tokenizer(e), text->data ? text->data : "", text->len,
                                TR_ENCODE_SPECIAL | TR_ENCODE_BOS,
                                (size_t)tr_engine_info(e)->context_length, &ids);
    if (r < 0)
        tr_err_set(err, r, NULL, "the text: %s", tr_err_text(r));
    else if (ids.n == 0)
        tr_err_set(err, TR_EINVAL, NULL, "the text is empty");
    if (err->code) {
        free(ids.ids);
        return NULL;
    }
    struct tr_job *job = srv_ask_job(ids.ids, (int)ids.n);
    if (!job) {
        tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        return NULL;
    }
    job->max_tokens = o->max_tokens;
    job->sampling.temperature = (float)o->temperature;
    job->sampling.top_k = o->top_k;
    job->sampling.top_p = (float)o->top_p;
    job->sampling.min_p = (float)o->min_p;
    job->sampling.seed = (uint64_t)o->seed;
    return job;
}

/* Prints tokens as they come, until the job is done. */
static int print_answer(struct queue *q, const struct tr_tokenizer *t, struct tr_err *err)
{
    struct srv_ask *a = &q->ask;
    struct tr_detok detok = {0};
    struct tr_buf out = {0};
    bool done = false, failed = false;
    for (int next = 0; !done;) {
        pthread_mutex_lock(&a->mutex);
        while (next == q->n && a->n_open > 0)
            pthread_cond_wait(&a->changed, &a->mutex);
        int n = q->n; /* what lies before is not written again */
        done = a->n_open == 0;
        pthread_mutex_unlock(&a->mutex);

        tr_buf_clear(&out);
        for (; next < n; next++)
            tr_detok_token(&detok, t, q->ids[next], true, &out);
        if (done) {
            tr_detok_end(&detok, a->finish == TR_FINISH_LENGTH, &out);
            tr_buf_addc(&out, '\n');
        }
        if (out.len)
            fwrite(out.data, 1, out.len, stdout);
        failed = failed || out.oom || fflush(stdout) != 0;
    }
    tr_buf_done(&out);
    int r = srv_ask_wait(a, err);
    if (r == 0 && failed)
        r = tr_err_set(err, TR_EIO, NULL, "standard output: %s", strerror(errno));
    return r;
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
    q->ids = calloc((size_t)TR_MIN(o->max_tokens, tr_engine_info(e)->context_length) + 1,
                    sizeof *q->ids);
    if (!q->ids)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct tr_job *job = make_job(o, e, text, err);
    if (!job)
        return err->code;
    int r = srv_ask_submit(&q->ask, e, job, err);
    return r < 0 ? r : print_answer(q, tr_engine_tokenizer(e), err);
}

int srv_generate(const struct tr_options *o)
{
    struct queue q = {.ask = SRV_ASK_INIT(on_event, &q)};
    struct tr_engine *e = NULL;
    struct tr_buf text = {0};
    struct tr_err err = {0};
    int r = read_text(o, &text, &err);
    if (r == 0)
        r = srv_ask_open(&e, o, &q.ask, &err);
    if (r == 0) {
        srv_log_engine(tr_engine_info(e));
        r = complete(o, e, &q, &text, &err);
    }
    if (r == 0)
        log_speed(&q.ask.usage);
    else
        fprintf(stderr, "trinityd: %s\n", err.msg);
    tr_engine_close(e);
    free(q.ids);
    tr_buf_done(&text);
    return r < 0 ? 1 : 0;
}
