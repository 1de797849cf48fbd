#include "server/swap.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "server/call/outbox.h"
#include "server/http/hold.h"
#include "server/load.h"
#include "server/log.h"
#include "server/notify.h"
#include "server/server.h"

#define PATIENCE_NS (2000ULL * 1000 * 1000) /* at the end, with a thread that loads */

static enum srv_swap_phase phase_of(struct srv_swap *w)
{
    uv_mutex_lock(&w->lock);
    enum srv_swap_phase phase = w->phase;
    uv_mutex_unlock(&w->lock);
    return phase;
}

static void set_phase(struct srv_swap *w, enum srv_swap_phase phase)
{
    uv_mutex_lock(&w->lock);
    w->phase = phase;
    uv_cond_broadcast(&w->turned);
    uv_mutex_unlock(&w->lock);
}

/* ---- on the thread ---- */

static bool is_off(struct srv_swap *w)
{
    uv_mutex_lock(&w->lock);
    bool off = w->off;
    uv_mutex_unlock(&w->lock);
    return off;
}

/* A tr_checked_fn. */
static bool on_checked(void *arg, uint64_t weight_bytes, uint64_t memory_left)
{
    struct srv_swap *w = arg;
    w->crowded =
        w->aside > 0 && (!w->may_share || weight_bytes + w->beside_kv + w->aside > memory_left);
    return !w->crowded && !is_off(w);
}

static int open_once(struct srv_swap *w)
{
    struct tr_engine_options eo;
    srv_engine_options(&eo, w->options);
    eo.model = w->path;
    if (w->aside > 0)
        eo.kv_cache_bytes = w->beside_kv;
    eo.on_event = srv_outbox_push;
    eo.event_arg = w->outbox;
    eo.on_checked = on_checked;
    eo.on_checked_arg = w;
    return srv_model_open(&w->opened, w->options, &eo, &w->err);
}

/* Waits until nothing else is loaded; false: called off. */
static bool wait_alone(struct srv_swap *w)
{
    set_phase(w, SRV_SWAP_CROWDED);
    uv_async_send(&w->turn);
    uv_mutex_lock(&w->lock);
    while (w->phase != SRV_SWAP_ALONE && !w->off)
        uv_cond_wait(&w->turned, &w->lock);
    bool alone = !w->off;
    uv_mutex_unlock(&w->lock);
    return alone;
}

static void run(void *arg)
{
    struct srv_swap *w = arg;
    w->result = open_once(w);
    if (w->result < 0 && w->crowded && wait_alone(w)) {
        w->aside = 0;
        w->result = open_once(w);
    }
    set_phase(w, SRV_SWAP_OPENED);
    uv_async_send(&w->turn);
}

/* ---- the former one ---- */

struct closing {
    uv_work_t uv;
    struct srv *srv;
    struct srv_model *model;
};

static void close_model(uv_work_t *uv)
{
    struct closing *c = uv->data;
    srv_model_free(c->model);
    malloc_trim(0);
}

static void after_closing(struct srv *s)
{
    s->n_models--;
    if (phase_of(s->swap) == SRV_SWAP_CROWDED && s->n_models == 0)
        set_phase(s->swap, SRV_SWAP_ALONE);
}

static void on_closed(uv_work_t *uv, int status)
{
    (void)status;
    struct closing *c = uv->data;
    struct srv *s = c->srv;
    free(c);
    srv_log(SRV_LOG_INFO, NULL, "the former checkpoint is closed");
    after_closing(s);
}

/* srv_model.unused: engines join threads and give memory back, which takes a while. */
static void close_aside(struct srv_model *m)
{
    struct srv *s = m->srv;
    tr_list_remove(&m->link);
    struct closing *c = s->closing ? NULL : calloc(1, sizeof *c);
    if (c) {
        *c = (struct closing){.uv.data = c, .srv = s, .model = m};
        if (uv_queue_work(&s->loop, &c->uv, close_model, on_closed) == 0)
            return;
        free(c);
    }
    srv_model_free(m);
    after_closing(s);
}

static void retire(struct srv_model *m)
{
    m->unused = close_aside;
    srv_model_unref(m);
}

static void join(struct srv *s, struct srv_model *m)
{
    m->srv = s;
    m->number = ++s->n_served;
    s->n_models++;
    tr_list_append(&s->models, &m->link);
}

/* ---- turns ---- */

static void tell(struct srv *s, int result, const struct tr_err *err)
{
    struct srv_swap *w = s->swap;
    struct srv_swap_news news = {.result = result,
                                 .err = err,
                                 .former = w->former,
                                 .beside = w->aside > 0,
                                 .seconds = (double)(tr_clock_ns() - w->begun_ns) * 1e-9};
    void (*told)(void *, const struct srv_swap_news *) = w->wish.told;
    w->wish.told = NULL;
    if (told)
        told(w->wish.arg, &news);
}

void srv_swap_place(struct srv *s, struct srv_model *m)
{
    struct srv_model *former = s->model;
    join(s, m);
    s->model = m;
    s->state = SRV_STATE_READY;
    if (former)
        retire(former);
    srv_hold_release(s);
}

/* Bytes that an engine may still take for its cache. */
static uint64_t unspent(const struct srv_model *m)
{
    const struct tr_engine_info *i = m->info;
    struct tr_engine_stats st;
    tr_engine_stats(m->engine, &st);
    uint64_t local = (uint64_t)(st.local_pages_used + st.local_pages_cached);
    uint64_t global = (uint64_t)(st.global_pages_used + st.global_pages_cached);
    uint64_t spent = (uint64_t)i->page_tokens *
                     (local * i->local_bytes_per_token + global * i->global_bytes_per_token);
    return i->kv_cache_bytes - TR_MIN(spent, i->kv_cache_bytes);
}

static int start(struct srv *s, const char *path, struct tr_err *err)
{
    struct srv_swap *w = s->swap;
    char *real = realpath(path, NULL);
    if (!real)
        return tr_err_set(err, TR_EIO, "model", "%s: %s", path, strerror(errno));
    free(w->path);
    w->path = real;
    w->options = s->options;
    w->outbox = s->outbox;
    w->crowded = false;
    w->opened = NULL;
    w->err = (struct tr_err){0};
    w->aside = 0;
    TR_LIST_EACH(const struct srv_model, m, &s->models)
        w->aside += unspent(m) + m->info->buffer_bytes + 1;
    if (s->model) /* a cache of auto keeps its size */
        w->beside_kv = s->model->info->kv_cache_bytes;
    w->phase = SRV_SWAP_OPENING;
    if (uv_thread_create(&w->thread, run, w) == 0)
        return 0;
    w->phase = SRV_SWAP_REST;
    return tr_err_set(err, TR_EINTERNAL, NULL, "cannot create a thread");
}

static void make_room(struct srv *s)
{
    if (s->state != SRV_STATE_READY) {
        srv_swap_call_off(s);
        return;
    }
    struct srv_model *former = s->model;
    srv_log(SRV_LOG_INFO, NULL, "reload: %d calls end before the next checkpoint is loaded",
            s->n_calls);
    srv_notify("STATUS=draining for the next checkpoint");
    s->swap->way_back = strdup(former->path ? former->path : s->options->model);
    s->model = NULL;
    s->state = SRV_STATE_SWAPPING;
    retire(former);
}

static void log_place(const struct srv *s)
{
    srv_model_log(s->model, s->options);
    srv_notify("READY=1\nSTATUS=serving %.64s", s->model->name);
    srv_log(SRV_LOG_INFO, NULL, "reload: %s serves in place of %s", s->model->fingerprint,
            s->swap->former);
}

/* The former one was closed for one that cannot be loaded. */
static void go_back(struct srv *s)
{
    struct srv_swap *w = s->swap;
    char *path = w->way_back;
    w->way_back = NULL;
    struct tr_err err = w->err;
    if (path && start(s, path, &err) == 0) {
        srv_log(SRV_LOG_WARN, NULL, "reload: the former checkpoint is loaded again");
        free(path);
        return;
    }
    free(path);
    s->error = err;
    s->result = err.code;
    s->over = true;
}

static void fail(struct srv *s)
{
    struct srv_swap *w = s->swap;
    s->metrics.failed_reloads++;
    srv_log(SRV_LOG_ERROR, NULL, "reload: %s", w->err.msg);
    tell(s, w->result, &w->err);
    if (s->state == SRV_STATE_SWAPPING)
        go_back(s);
    else
        srv_notify("READY=1\nSTATUS=serving %.64s; a reload has failed", s->model->name);
}

static void on_opened(struct srv *s)
{
    struct srv_swap *w = s->swap;
    uv_thread_join(&w->thread);
    w->phase = SRV_SWAP_REST;
    bool wanted = s->state == SRV_STATE_READY || s->state == SRV_STATE_SWAPPING;
    if (!wanted) {
        struct tr_err err;
        tell(s, tr_err_set(&err, TR_EDRAIN, NULL, "the daemon is shutting down"), &err);
        if (w->result == 0)
            srv_model_free(w->opened);
    } else if (w->result < 0) {
        fail(s);
    } else {
        s->metrics.reloads++;
        free(w->way_back);
        w->way_back = NULL;
        srv_swap_place(s, w->opened);
        log_place(s);
        tell(s, 0, NULL);
    }
}

static void on_turn(uv_async_t *async)
{
    struct srv *s = async->data;
    enum srv_swap_phase phase = phase_of(s->swap);
    if (phase == SRV_SWAP_CROWDED && s->model)
        make_room(s);
    else if (phase == SRV_SWAP_OPENED)
        on_opened(s);
}

/* ---- from outside ---- */

int srv_swap_init(struct srv *s)
{
    struct srv_swap *w = s->swap;
    int r = uv_async_init(&s->loop, &w->turn, on_turn);
    w->turn.data = s;
    if (r == 0)
        r = uv_mutex_init(&w->lock);
    return r == 0 ? uv_cond_init(&w->turned) : r;
}

bool srv_swap_is_due(const struct srv *s)
{
    return s->state == SRV_STATE_READY && !s->fixed &&
           s->model->stamp != srv_model_stamp(s->options->model, s->options->chat_template);
}

bool srv_swap_busy(const struct srv *s)
{
    return phase_of(s->swap) != SRV_SWAP_REST;
}

int srv_swap_begin(struct srv *s, const struct srv_swap_wish *wish, struct tr_err *err)
{
    struct srv_swap *w = s->swap;
    if (srv_swap_busy(s))
        return tr_err_set(err, TR_EQUEUE, NULL, "a reload is under way");
    if (s->state == SRV_STATE_LOADING)
        return tr_err_set(err, TR_ELOADING, NULL, "the checkpoint is loading");
    if (s->state != SRV_STATE_READY)
        return tr_err_set(err, TR_EDRAIN, NULL, "the daemon is shutting down");
    w->off = false;
    w->begun_ns = tr_clock_ns();
    w->may_share = !wish->drain;
    memcpy(w->former, s->model->fingerprint, sizeof w->former);
    struct tr_err why;
    int r = start(s, s->options->model, &why);
    if (r < 0) {
        s->metrics.failed_reloads++;
        srv_log(SRV_LOG_ERROR, NULL, "reload: %s", why.msg);
        return tr_err_set(err, r, why.param, "%s", why.msg);
    }
    w->wish = *wish;
    srv_log(SRV_LOG_INFO, NULL, "reload: %s", w->path);
    return 0;
}

void srv_swap_call_off(struct srv *s)
{
    struct srv_swap *w = s->swap;
    uv_mutex_lock(&w->lock);
    w->off = true;
    uv_cond_broadcast(&w->turned);
    uv_mutex_unlock(&w->lock);
    struct tr_err err;
    tell(s, tr_err_set(&err, TR_EDRAIN, NULL, "the daemon is shutting down"), &err);
    srv_hold_refuse(s);
}

bool srv_swap_done(struct srv *s)
{
    struct srv_swap *w = s->swap;
    uv_mutex_lock(&w->lock);
    int r = 0;
    while (w->phase != SRV_SWAP_REST && w->phase != SRV_SWAP_OPENED && r == 0)
        r = uv_cond_timedwait(&w->turned, &w->lock, PATIENCE_NS);
    enum srv_swap_phase phase = w->phase;
    uv_mutex_unlock(&w->lock);
    if (phase != SRV_SWAP_REST && phase != SRV_SWAP_OPENED)
        return false;
    if (phase == SRV_SWAP_OPENED) {
        uv_thread_join(&w->thread);
        if (w->result == 0)
            srv_model_free(w->opened);
        w->phase = SRV_SWAP_REST;
    }
    free(w->path);
    free(w->way_back);
    w->path = w->way_back = NULL; /* asked twice, it is done */
    return true;
}
