#include "server/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "config/clock.h"
#include "server/api/engine_view.h"
#include "server/batch/jobs.h"
#include "server/call/call.h"
#include "server/call/outbox.h"
#include "server/confine.h"
#include "server/http/conn.h"
#include "server/http/inbox.h"
#include "server/http/keys.h"
#include "server/http/listen.h"
#include "server/http/transport.h"
#include "server/http/work.h"
#include "server/load.h"
#include "server/log.h"
#include "server/notify.h"
#include "server/server.h"
#include "server/spans.h"
#include "server/swap.h"

enum {
    AT_ONCE_MS = 500,     /* after a second signal: the time an orderly end may take */
    LAST_WORDS_MS = 1000, /* when requests are cut: the time for saying so */
    SETTLE_MS = 20,       /* without a request, behind the last answer */
    MAX_SETTLES = 25,
    STOP_MS = 5000, /* beyond draining: what the end takes at most */
    WORK_MS = 2000, /* the time in which workers have to see that they are called off */
    SEATS_SHARE = 4,
    MAX_WIDTH = 16,
    SPARE_FILES = 96 /* descriptors beside connections */
};

/* The loop's own: the rest of the server sees srv only. */
struct daemon {
    struct srv srv;
    struct srv_listen listen;
    struct srv_outbox outbox;
    struct srv_inbox inbox;
    struct srv_swap swap;
};

/* ---- draining ---- */

static void end_now(struct srv *s);

static bool is_busy(const struct srv *s)
{
    if (s->n_calls > 0 || s->n_working > 0)
        return true;
    TR_LIST_EACH(const struct srv_conn, c, &s->conns)
        if (c->req && c->req->phase != SRV_PHASE_BODY)
            return true;
    return false;
}

static void on_settled(uv_timer_t *timer)
{
    struct srv *s = timer->data;
    bool heard = s->next_id != s->settle_id || is_busy(s);
    s->settle_id = s->next_id;
    if (heard && ++s->n_settles < MAX_SETTLES)
        uv_timer_start(timer, on_settled, SETTLE_MS, 0);
    else
        s->over = true;
}

/* Nothing runs any more. Who has connected or asked by now is still told to go elsewhere: a reset
 * tells nothing, least of all a proxy. */
static void settle(struct srv *s)
{
    if (s->settling)
        return;
    s->settling = true;
    s->settle_id = s->next_id;
    uv_timer_start(&s->drain, on_settled, SETTLE_MS, 0);
}

static void on_drain_end(uv_timer_t *timer)
{
    struct srv *s = timer->data;
    srv_log(SRV_LOG_WARN, NULL, "drain_timeout is over: %d requests are cut", s->n_calls);
    end_now(s);
}

static void begin_drain(uv_timer_t *timer)
{
    struct srv *s = timer->data;
    s->state = SRV_STATE_DRAINING;
    srv_jobs_end(s->jobs);
    if (s->model)
        tr_engine_drain(s->model->engine);
    srv_swap_call_off(s);
    srv_log(SRV_LOG_INFO, NULL, "draining: %d requests under way", s->n_calls);
    uv_timer_start(&s->drain, on_drain_end, (uint64_t)s->options->drain_timeout, 0);
}

static void abort_calls(struct srv *s)
{
    TR_LIST_EACH(struct srv_call, c, &s->calls)
        srv_call_abort(c, TR_EDRAIN, "the daemon is shutting down");
}

static void on_patience_end(uv_timer_t *timer)
{
    ((struct srv *)timer->data)->over = true;
}

/* Requests that still run are cancelled and their clients told. A client that does not listen is
 * not waited for. */
static void end_now(struct srv *s)
{
    s->closing = true;
    abort_calls(s);
    srv_work_cancel_all(s);
    uv_timer_start(&s->drain, on_patience_end, LAST_WORDS_MS, 0);
}

static void on_alarm(int signal)
{
    (void)signal;
    _exit(0);
}

/* An engine step cannot be interrupted and may take longer than somebody who asks twice will
 * wait. */
static void limit_end(void)
{
    struct itimerval t = {.it_value = {.tv_usec = AT_ONCE_MS * 1000}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &t, NULL);
}

static void on_terminate(uv_signal_t *handle, int number)
{
    struct srv *s = handle->data;
    if (s->state == SRV_STATE_LOADING) {
        srv_log(SRV_LOG_INFO, NULL, "%s while loading: bye", strsignal(number));
        srv_listen_stop(s->listen);
        _exit(0); /* the loader cannot be stopped, and nothing else has begun */
    }
    if (s->state == SRV_STATE_READY || s->state == SRV_STATE_SWAPPING) {
        s->state = SRV_STATE_LEAVING;
        srv_notify("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%lld",
                   1000LL * (s->options->drain_delay + s->options->drain_timeout + STOP_MS));
        srv_log(SRV_LOG_INFO, NULL, "%s: not ready any more", strsignal(number));
        if (s->options->drain_delay > 0 && s->model)
            uv_timer_start(&s->drain, begin_drain, (uint64_t)s->options->drain_delay, 0);
        else
            begin_drain(&s->drain);
        return;
    }
    srv_log(SRV_LOG_WARN, NULL, "%s again: ending at once", strsignal(number));
    limit_end();
    if (s->state == SRV_STATE_LEAVING)
        begin_drain(&s->drain);
    end_now(s);
}

/* ---- reloading ---- */

static void reload(struct srv *s)
{
    struct tr_options fresh;
    struct tr_buf refused = {0};
    struct tr_err err;
    if (s->state == SRV_STATE_LOADING || srv_swap_busy(s)) { /* who loads reads the options */
        srv_log(SRV_LOG_WARN, NULL, "reload: not while loading; the options stay");
        return;
    }
    if (tr_options_reload(&fresh, s->options, &refused, &err) < 0) {
        srv_log(SRV_LOG_ERROR, NULL, "reload: %s; the old options stay", err.msg);
        return;
    }
    struct srv_keys *keys;
    if (srv_keys_read(&keys, &fresh, s->routes, s->n_routes, s->keys, &err) < 0) {
        srv_log(SRV_LOG_ERROR, NULL, "reload: %s; the old options stay", err.msg);
        tr_options_done(&fresh);
        tr_buf_done(&refused);
        return;
    }
    srv_keys_free(s->keys);
    s->keys = keys;
    if (s->options == &s->reloaded)
        tr_options_done(&s->reloaded);
    s->reloaded = fresh;
    s->options = &s->reloaded;
    if (s->options->tls_cert && srv_transport_renew(s, &err) < 0)
        srv_log(SRV_LOG_ERROR, NULL, "reload: %s; the old certificate stays", err.msg);
    srv_log_setup((enum srv_log_level)s->options->log_level,
                  s->options->log_format == TR_LOG_FORMAT_JSON);
    srv_log(SRV_LOG_INFO, NULL, "options reloaded%s%s",
            refused.len ? "; only a restart changes " : "", refused.len ? refused.data : "");
    tr_buf_done(&refused);
}

static void on_reload(uv_signal_t *handle, int number)
{
    (void)number;
    struct srv *s = handle->data;
    srv_notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(tr_clock_ns() / 1000));
    reload(s);
    struct srv_swap_wish wish = {0};
    bool begun = srv_swap_is_due(s) && srv_swap_begin(s, &wish, NULL) == 0;
    if (s->state == SRV_STATE_READY && !begun) /* else when it has ended */
        srv_notify("READY=1");
}

/* ---- loading ---- */

/* On the loader's thread. */
static bool on_good_checkpoint(void *arg, uint64_t weight_bytes, uint64_t memory_left)
{
    (void)weight_bytes, (void)memory_left;
    struct srv *s = arg;
    uv_async_send(&s->checked);
    return true;
}

static void load(void *arg)
{
    struct srv *s = arg;
    struct tr_engine_options options;
    srv_engine_options(&options, s->options);
    options.on_event = srv_outbox_push;
    options.event_arg = s->outbox;
    options.on_checked = on_good_checkpoint;
    options.on_checked_arg = s;
    s->result = srv_model_open(&s->opened, s->options, &options, &s->error);
    uv_async_send(&s->loaded);
}

/* From now on clients are answered, if only by "loading". */
static int open_port(struct srv *s, struct tr_err *err)
{
    if (s->mhd)
        return 0;
    int r = srv_transport_start(s, err);
    return r < 0
               ? r
               : srv_listen_start(s->listen, &s->loop, srv_conn_accept, srv_conn_exhausted, s, err);
}

static void on_checked(uv_async_t *async)
{
    struct srv *s = async->data;
    struct tr_err err; /* whoever loads may be writing to s->error */
    if (s->state == SRV_STATE_LOADING && !s->listen->passed && open_port(s, &err) < 0)
        srv_log(SRV_LOG_ERROR, NULL, "%s", err.msg); /* tried once more when loaded */
}

/* Questions of a batch at a time: some of the seats. */
static int batch_width(const struct tr_options *o)
{
    return TR_MAX(1, TR_MIN(o->max_sequences / SEATS_SHARE, MAX_WIDTH));
}

static int begin_serving(struct srv *s)
{
    srv_model_log(s->opened, s->options);
    int r = open_port(s, &s->error);
    if (r == 0)
        r = srv_confine_ready(s->options, &s->error);
    if (r == 0 && s->store)
        r = srv_jobs_open(&s->jobs, s->store, s->inbox, batch_width(s->options), &s->error);
    if (r == 0) {
        srv_swap_place(s, s->opened);
        srv_notify("READY=1\nSTATUS=serving %.64s on %s", s->model->name, s->listen->url);
        if (s->listen->n > 0)
            srv_log(SRV_LOG_INFO, NULL, "listening on %s", s->listen->url);
        srv_inbox_open(s->inbox);
    }
    return r;
}

static void on_loaded(uv_async_t *async)
{
    struct srv *s = async->data;
    uv_thread_join(&s->loader);
    if (s->result == 0)
        s->result = begin_serving(s);
    if (s->result < 0) {
        srv_model_unref(s->opened);
        s->over = true;
    }
}

/* ---- the loop ---- */

static void on_events(uv_async_t *async)
{
    (void)srv_call_events(async->data); /* wakes the loop itself if there is more */
}

/* Tells the service manager that loop and engine still turn. */
static void on_watchdog(uv_timer_t *timer)
{
    struct srv *s = timer->data;
    if (!s->model || srv_engine_alive(s))
        srv_notify("WATCHDOG=1");
}

static int init_signal(struct srv *s, uv_signal_t *handle, int number, uv_signal_cb cb)
{
    handle->data = s;
    int r = uv_signal_init(&s->loop, handle);
    return r < 0 ? r : uv_signal_start(handle, cb, number);
}

static int init_loop(struct srv *s, struct tr_err *err)
{
    int r = uv_loop_init(&s->loop);
    if (r < 0)
        return tr_err_set(err, TR_EINTERNAL, NULL, "no event loop: %s", uv_strerror(r));
    uv_timer_init(&s->loop, &s->drain);
    uv_timer_init(&s->loop, &s->watchdog);
    s->drain.data = s->watchdog.data = s->checked.data = s->loaded.data = s;
    uint64_t watchdog_ms = srv_notify_watchdog_ms();
    if (watchdog_ms > 0)
        uv_timer_start(&s->watchdog, on_watchdog, watchdog_ms, watchdog_ms);
    r = srv_outbox_init(s->outbox, &s->loop, on_events, s);
    if (r == 0)
        r = srv_inbox_attach(s->inbox, s);
    if (r == 0)
        r = uv_async_init(&s->loop, &s->checked, on_checked);
    if (r == 0)
        r = uv_async_init(&s->loop, &s->loaded, on_loaded);
    if (r == 0)
        r = srv_swap_init(s);
    if (r == 0)
        r = init_signal(s, &s->sigterm, SIGTERM, on_terminate);
    if (r == 0)
        r = init_signal(s, &s->sigint, SIGINT, on_terminate);
    if (r == 0)
        r = init_signal(s, &s->sighup, SIGHUP, on_reload);
    return r < 0 ? tr_err_set(err, TR_EINTERNAL, NULL, "no event loop: %s", uv_strerror(r)) : 0;
}

/* How many connections the limit of open files leaves room for. */
static int fit_connections(int wanted)
{
    struct rlimit files;
    rlim_t want = (rlim_t)wanted + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return wanted;
    if (files.rlim_cur < want) {
        files.rlim_cur = TR_MIN(want, files.rlim_max);
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= want)
        return wanted;
    int fit = (int)(files.rlim_cur - TR_MIN(SPARE_FILES, files.rlim_cur / 2));
    srv_log(SRV_LOG_WARN, NULL,
            "max_connections is %d, not %d: no more than %llu files may be open", fit, wanted,
            (unsigned long long)files.rlim_cur);
    return fit;
}

static void prepare_process(void)
{
    signal(SIGPIPE, SIG_IGN);
    srv_notify_open();
    /* Parsing and tokenizing must not take the compute threads' cores. */
    setenv("UV_THREADPOOL_SIZE", "2", 0);
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* A connection that is still in a request is given up: whatever is suspended must not be when
 * libmicrohttpd stops. */
static void abandon_connections(struct srv *s)
{
    TR_LIST_EACH(struct srv_conn, c, &s->conns) {
        if (c->req && c->req->phase == SRV_PHASE_BODY)
            srv_conn_refuse(c, SRV_PROBLEM_DRAIN, "the daemon is shutting down");
        if (c->req)
            c->req->gone = true;
        srv_conn_resume(c);
    }
    srv_transport_run(s);
}

/* What workers do uses the tokenizer, and is called off; false: something does not listen. */
static bool end_work(struct srv *s)
{
    srv_work_cancel_all(s);
    uv_timer_start(&s->drain, on_patience_end, WORK_MS, 0);
    uv_update_time(&s->loop);
    uint64_t until = uv_now(&s->loop) + WORK_MS;
    while (s->n_working > 0 && uv_now(&s->loop) < until)
        uv_run(&s->loop, UV_RUN_ONCE);
    return s->n_working == 0;
}

static void leave(const struct srv *s)
{
    srv_log(SRV_LOG_WARN, NULL, "ended with %d requests in the hands of workers%s", s->n_working,
            srv_swap_busy(s) ? " and a checkpoint that was being loaded" : "");
    srv_log_stop(LAST_WORDS_MS);
    _exit(s->result < 0 ? 1 : 0);
}

/* The order of the end. */
static void close_all(struct srv *s)
{
    s->closing = true;
    srv_listen_stop(s->listen);
    srv_swap_call_off(s);
    abort_calls(s);
    if (!end_work(s))
        leave(s);
    TR_LIST_EACH(struct srv_model, m, &s->models)
        srv_model_stop(m); /* delivers the DONE events of everything that ran */
    while (srv_call_events(s))
        ;
    srv_inbox_close(s->inbox);
    srv_jobs_close(s->jobs);
    s->jobs = NULL;
    if (s->mhd) {
        srv_transport_run(s); /* last answers */
        abandon_connections(s);
        srv_transport_stop(s);
    }
    if (!srv_swap_done(s))
        leave(s);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT); /* close callbacks, work that was under way on the pool */
    if (uv_loop_close(&s->loop) != 0)
        srv_log(SRV_LOG_ERROR, NULL, "the event loop was left with open handles");
    srv_outbox_done(s->outbox);
    srv_watch_done(s);
    srv_model_unref(s->model);
    if (s->options == &s->reloaded)
        tr_options_done(&s->reloaded);
}

static struct daemon *new_daemon(const struct tr_options *options, struct srv_inbox *inbox)
{
    struct daemon *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    struct srv *s = &d->srv;
    s->options = options;
    s->listen = &d->listen;
    s->outbox = &d->outbox;
    s->inbox = inbox ? inbox : &d->inbox;
    s->swap = &d->swap;
    s->fixed = inbox != NULL;
    s->created = (int64_t)time(NULL);
    tr_list_init(&s->conns);
    tr_list_init(&s->idle);
    tr_list_init(&s->calls);
    tr_list_init(&s->works);
    tr_list_init(&s->models);
    tr_list_init(&s->held);
    if (getrandom(s->hash_key, sizeof s->hash_key, 0) != sizeof s->hash_key)
        s->hash_key[0] = (uint64_t)tr_clock_ns();
    srv_inbox_init(&d->inbox);
    return d;
}

/* What opens files, up to the confinement and what needs threads behind it. */
static int open_all(struct srv *s)
{
    int r = srv_keys_read(&s->keys, s->options, s->routes, s->n_routes, NULL, &s->error);
    if (r == 0)
        r = s->fixed ? 0 : srv_listen_bind(s->listen, s->options, &s->error);
    if (r == 0)
        r = srv_spans_open(&s->spans, s->options, &s->error);
    if (r == 0)
        r = srv_confine_start(s->options, &s->error);
    if (r == 0 && s->options->batch_dir)
        r = srv_store_open(&s->store, s->options->batch_dir, s->options->batch_quota, &s->error);
    if (r == 0 && s->spans)
        r = srv_spans_start(s->spans, &s->error);
    return r;
}

static int turn(struct srv *s)
{
    if (uv_thread_create(&s->loader, load, s) < 0)
        return tr_err_set(&s->error, TR_EINTERNAL, NULL, "cannot create a thread");
    while (!s->over) {
        uv_run(&s->loop, UV_RUN_ONCE);
        if (s->state == SRV_STATE_DRAINING && !s->closing && !is_busy(s))
            settle(s);
    }
    return s->result;
}

int srv_run(const struct tr_options *options, const struct srv_route *const *routes, int n_routes,
            struct srv_inbox *inbox)
{
    struct daemon *d = new_daemon(options, inbox);
    if (!d)
        return 1;
    struct srv *s = &d->srv;
    s->routes = routes;
    s->n_routes = n_routes;
    prepare_process();
    s->max_conns = fit_connections(options->max_connections);
    int r = open_all(s);
    if (r < 0)
        srv_listen_stop(s->listen);
    srv_log_start(); /* threads begin after the confinement */
    bool looping = r == 0;
    if (r == 0)
        r = init_loop(s, &s->error);
    if (r == 0)
        r = turn(s);
    if (looping)
        close_all(s);
    srv_spans_close(s->spans); /* requests have left */
    srv_inbox_close(s->inbox);
    if (r < 0)
        srv_log(SRV_LOG_ERROR, NULL, "%s", s->error.msg);
    else
        srv_log(SRV_LOG_INFO, NULL, "ended");
    srv_log_stop(LAST_WORDS_MS);
    int status = r == 0 ? 0 : s->keys ? 1 : 2;
    srv_store_close(s->store);
    srv_keys_free(s->keys);
    srv_inbox_done(&d->inbox);
    free(d);
    return status;
}
