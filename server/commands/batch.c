/*
 * `trinityd batch IN OUT`: the questions of a file, answered as over HTTP: a daemon is started in
 * this process, without a socket, and asked by threads beside it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "server/batch/batch.h"
#include "server/commands/commands.h"
#include "server/log.h"
#include "server/loop.h"

enum { MAX_WIDTH = 256, TELL_SECONDS = 10 };

struct batch {
    struct srv_batch_input in;
    struct srv_batch_output out;
    struct srv_batch run;
    struct srv_batch_progress progress;
    struct tr_err err;
    struct srv_inbox inbox;
    atomic_bool stop;
    bool bar;    /* standard error is a terminal */
    double told; /* seconds at the last line about progress */
    /* Never turns: a handler of SIGTERM that is there when the daemon's own is gone, so that a
     * late one does not kill. */
    uv_loop_t loop;
    uv_signal_t told_to_end;
};

static void draw(const struct srv_batch_progress *p, double rate, long long left)
{
    char bar[31], text[192];
    size_t filled = p->n ? (sizeof bar - 1) * p->done / p->n : 0;
    memset(bar, '.', sizeof bar - 1);
    memset(bar, '#', filled);
    bar[sizeof bar - 1] = '\0';
    snprintf(text, sizeof text, "\r\033[K[%s] %zu/%zu  %.1f tokens/s  %lld:%02lld:%02lld left%s",
             bar, p->done, p->n, rate, left / 3600, left / 60 % 60, left % 60,
             p->refused ? "  some refused" : "");
    srv_log_draw(text);
}

static void show(void *arg, const struct srv_batch_progress *p)
{
    struct batch *b = arg;
    double rate = p->seconds > 0 ? (double)p->tokens / p->seconds : 0.0;
    double left = p->answered ? p->seconds / (double)p->answered * (double)(p->n - p->done) : 0.0;
    if (b->bar) {
        draw(p, rate, (long long)left);
    } else if (p->seconds >= b->told + TELL_SECONDS) {
        b->told = p->seconds;
        srv_log(SRV_LOG_WARN, NULL, "batch: %zu of %zu, %.1f tokens/s, %.0f s left", p->done, p->n,
                rate, left);
    }
}

static void *run(void *arg)
{
    struct batch *b = arg;
    (void)!srv_batch_run(&b->run, &b->progress, &b->err);
    if (b->bar)
        srv_log_draw("\r\033[K");
    kill(getpid(), SIGTERM); /* the daemon's end */
    return NULL;
}

static void clean_up(struct batch *b)
{
    srv_inbox_done(&b->inbox);
    srv_batch_output_done(&b->out);
    srv_batch_input_done(&b->in);
}

static void ignore(uv_signal_t *handle, int number)
{
    (void)handle, (void)number;
}

/* The daemon's life is the batch's; the process's own thread is its loop. */
static int serve(struct batch *b, const struct tr_options *o, const struct srv_route *const *routes,
                 int n_routes)
{
    pthread_t thread;
    if (uv_loop_init(&b->loop) < 0)
        return tr_err_set(&b->err, TR_EINTERNAL, NULL, "no event loop");
    uv_signal_init(&b->loop, &b->told_to_end);
    uv_signal_start(&b->told_to_end, ignore, SIGTERM);
    if (pthread_create(&thread, NULL, run, b) != 0)
        return tr_err_set(&b->err, TR_EINTERNAL, NULL, "cannot create a thread");
    int status = srv_run(o, routes, n_routes, &b->inbox);
    b->stop = true;
    pthread_join(thread, NULL);
    uv_close((uv_handle_t *)&b->told_to_end, NULL);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    uv_loop_close(&b->loop);
    return status != 0 ? TR_EIO : b->err.code;
}

int srv_batch(const struct tr_options *o, const struct srv_route *const *routes, int n_routes)
{
    struct batch b = {.in.fd = -1, .out.fd = -1, .bar = isatty(STDERR_FILENO)};
    srv_inbox_init(&b.inbox);
    if (o->log_level == SRV_LOG_INFO) /* no line for each request */
        srv_log_setup(SRV_LOG_WARN, o->log_format == TR_LOG_FORMAT_JSON);
    int r = o->text && o->second_text ? srv_batch_input_open(&b.in, o->text, NULL, &b.err)
                                      : tr_err_set(&b.err, TR_ECONFIG, NULL,
                                                   "batch: a file of questions and one for "
                                                   "answers: trinityd batch IN OUT");
    if (r == 0)
        r = srv_batch_output_open(&b.out, &b.in, o->second_text, o->ordered, &b.err);
    size_t before = b.out.n_done;
    if (r == 0 && before < b.in.n) {
        b.run = (struct srv_batch){.in = &b.in,
                                   .out = &b.out,
                                   .inbox = &b.inbox,
                                   .width = o->width ? o->width
                                                     : TR_MIN(2 * o->max_sequences, MAX_WIDTH),
                                   .ordered = o->ordered,
                                   .progress = show,
                                   .arg = &b,
                                   .stop = &b.stop};
        r = serve(&b, o, routes, n_routes);
    }
    if (b.err.code)
        fprintf(stderr, "trinityd: %s\n", b.err.msg);
    if (b.out.fd >= 0)
        fprintf(stderr,
                "%zu of %zu lines are answered, %zu of them now (%zu refused), %llu tokens\n",
                b.out.n_done, b.in.n, b.progress.answered, b.progress.refused,
                (unsigned long long)b.progress.tokens);
    clean_up(&b);
    return r == 0 ? 0 : b.err.code == TR_ECONFIG ? 2 : 1;
}
