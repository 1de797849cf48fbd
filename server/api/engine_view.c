#include "server/api/engine_view.h"

#include <stdlib.h>
#include <string.h>

#include "config/hash.h"
#include "config/json.h"
#include "config/list.h"
#include "engine/view.h"
#include "server/api/prometheus.h"
#include "server/http/reply.h"
#include "server/server.h"

enum {
    TICK_MS = 20,       /* how often it is seen whether a drawing is there */
    EVENT_MS = 230,     /* from an event to the asking for the next */
    PATIENCE_MS = 1000, /* with a step that does not end: then the last drawing is told */
    MAX_WATCHERS = 256
};

#define EVENT_BEGIN "data: "
#define EVENT_END   "\n\n"

struct watcher {
    struct tr_list link;
    struct srv_req *req; /* a reference */
    bool once;           /* an answer, no stream */
    bool follows;        /* it has had the last event; else the next one tells it everything */
    int64_t since;       /* loop time at which it came */
    uint64_t from;       /* number of the drawing that was there then: it gets a later one */
};

struct srv_watch {
    uv_timer_t timer;
    struct tr_list watchers;
    int n, streams;      /* all, and those that are not once */
    int64_t written;     /* loop time of the last event, which answers to others do not move */
    uint64_t model;      /* number of the checkpoint that is watched */
    uint64_t seen;       /* number of the last drawing */
    uint64_t step;       /* the last that was told in an event */
    size_t told;         /* hash of what was, but for its time */
    struct tr_buf event; /* with the steps since the one before */
    struct tr_buf whole; /* with all steps; written at most once a tick */
};

/* ---- what is told ---- */

static void add_number(void *arg, const char *own, const char *alias, const char *type,
                       const char *help, double x)
{
    (void)alias, (void)type, (void)help;
    struct tr_buf *out = arg;
    if (!out->oom)
        tr_buf_addf(out, "%s\"%s\":%.15g", out->data[out->len - 1] == '{' ? "" : ",", own, x);
}

static void add_facts(struct tr_buf *out, const struct srv *s)
{
    static const char *const types[] = {"f32", "bf16", "q8"};
    const struct tr_engine_info *info = s->model->info;
    tr_buf_adds(out, ",\"model\":");
    tr_json_quote(out, s->model->name, strlen(s->model->name));
    tr_buf_addf(out,
                ",\"weights\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"parameters\":%llu,"
                "\"window\":%d,\"context_length\":%d,\"max_batch_tokens\":%d,\"page_tokens\":%d,"
                "\"kv_type\":\"%s\",\"kv_cache_bytes\":%llu,\"layers\":[",
                info->weights, info->isa, info->threads, (unsigned long long)info->n_params,
                info->window, info->context_length, info->max_batch_tokens, info->page_tokens,
                types[info->kv_type], (unsigned long long)info->kv_cache_bytes);
    for (int i = 0; i < info->n_layers; i++)
        tr_buf_addf(out, "%s\"%s\"", i ? "," : "",
                    tr_engine_layer_is_global(s->model->engine, i) ? "global" : "local");
    tr_buf_adds(out, "]");
}

/* Runs of equal cells: how many, and what each holds. */
static void add_pool(struct tr_buf *out, const char *name, const struct tr_page_map *m, size_t cost)
{
    int n = (m->touched + (1 << m->shift) - 1) >> m->shift;
    tr_buf_addf(out, ",\"%s\":{\"page_bytes\":%zu,\"touched\":%d,\"cell_pages\":%d,\"cells\":[",
                name, cost, m->touched, 1 << m->shift);
    for (int i = 0, run; i < n; i += run) {
        const struct tr_page_cell *c = &m->cells[i];
        for (run = 1; i + run < n && c[run].used == c->used && c[run].cached == c->cached;)
            run++;
        tr_buf_addf(out, "%s[%d,%d,%d]", i ? "," : "", run, c->used, c->cached);
    }
    tr_buf_adds(out, "]}");
}

static void add_sequences(struct tr_buf *out, const struct tr_engine_view *v)
{
    static const char *const states[] = {"waiting", "prefill", "decode", "paused"};
    tr_buf_addf(out, ",\"sequences\":{\"total\":%d,\"rows\":[", v->n_open);
    for (int i = 0; i < v->n_sequences; i++) {
        const struct tr_view_sequence *q = &v->sequences[i];
        tr_buf_addf(out,
                    "%s{\"id\":%llu,\"choice\":%d,\"state\":\"%s\",\"prompt\":%d,\"cached\":%d,"
                    "\"computed\":%d,\"tokens\":%d,\"most\":%d,\"local\":[%d,%d],\"global\":%d}",
                    i ? "," : "", (unsigned long long)q->id, q->choice, states[q->state], q->prompt,
                    q->cached, q->computed, q->tokens, q->most, q->first_local, q->local_pages,
                    q->global_pages);
    }
    tr_buf_adds(out, "]}");
}

/* Steps later than `after`: number, end in seconds, seconds, rows of both kinds, sequences. */
static void add_steps(struct tr_buf *out, const struct tr_engine_view *v, uint64_t after)
{
    tr_buf_adds(out, ",\"steps\":[");
    const char *sep = "";
    for (int i = 0; i < v->n_steps; i++) {
        const struct tr_view_step *t = &v->steps[i];
        if (t->number <= after)
            continue;
        tr_buf_addf(out, "%s[%llu,%.6f,%.6f,%d,%d,%d]", sep, (unsigned long long)t->number,
                    (double)t->end_ns * 1e-9, (double)t->ns * 1e-9, t->prefill_rows, t->decode_rows,
                    t->sequences);
        sep = ",";
    }
    tr_buf_adds(out, "]");
}

/* All of it but the time, which stands before. */
static void add_view(struct tr_buf *out, const struct srv *s, const struct tr_engine_view *v,
                     uint64_t after)
{
    const struct tr_view_times *t = &v->times;
    add_facts(out, s);
    tr_buf_adds(out, ",\"metrics\":{");
    srv_engine_numbers(&v->stats, s->model->info, add_number, out);
    tr_buf_addf(
        out,
        "},\"seconds\":{\"steps\":%.6f,\"local\":%.6f,\"global\":%.6f,\"mlp\":%.6f,"
        "\"head\":%.6f,\"sample\":%.6f},\"read\":{\"bytes\":%llu,\"bytes_per_second\":%.0f}",
        (double)t->steps * 1e-9, (double)t->local * 1e-9, (double)t->global * 1e-9,
        (double)t->mlp * 1e-9, (double)t->head * 1e-9, (double)t->sample * 1e-9,
        (unsigned long long)v->read_bytes, v->stats.run.read_limit);
    add_pool(out, "local", &v->local, v->local_page_bytes);
    add_pool(out, "global", &v->global, v->global_page_bytes);
    add_sequences(out, v);
    add_steps(out, v, after);
    tr_buf_adds(out, "}");
}

static void add_time(struct tr_buf *out, const struct tr_engine_view *v)
{
    tr_buf_addf(out, "{\"object\":\"engine\",\"now\":%.6f", (double)v->now_ns * 1e-9);
}

/* ---- who is told ---- */

static void leave(struct srv_watch *w, struct watcher *x)
{
    tr_list_remove(&x->link);
    w->streams -= !x->once;
    if (--w->n == 0)
        uv_timer_stop(&w->timer);
    srv_req_unref(x->req);
    free(x);
}

static void on_proceed(struct srv_req *req)
{
    (void)req; /* a reader who stays behind misses some */
}

static void on_stop(struct srv_req *req)
{
    leave(req->srv->watch, req->owner);
}

static const struct srv_generator generator = {on_proceed, on_stop};

/* Begins an event; returns where what changes with the engine begins. */
static size_t add_event(struct tr_buf *out, const struct srv *s, const struct tr_engine_view *v,
                        uint64_t after)
{
    tr_buf_adds(out, EVENT_BEGIN);
    add_time(out, v);
    size_t begin = out->len;
    add_view(out, s, v, after);
    tr_buf_adds(out, EVENT_END);
    return begin;
}

/* An event that tells everything, written for the first who needs it in a tick. */
static const struct tr_buf *whole(struct srv_watch *w, const struct srv *s,
                                  const struct tr_engine_view *v)
{
    if (!w->whole.len)
        add_event(&w->whole, s, v, 0);
    return &w->whole;
}

/* The last thing a watcher hears. */
static void end(struct srv_watch *w, struct watcher *x, const struct tr_engine_view *v)
{
    struct srv_req *req = x->req;
    if (!x->once) {
        srv_stream_end(req, false);
    } else {
        const struct tr_buf *all = whole(w, req->srv, v);
        if (all->oom) {
            srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        } else {
            size_t begin = strlen(EVENT_BEGIN);
            tr_buf_add(&req->out, all->data + begin, all->len - begin - strlen(EVENT_END));
            srv_reply(req, 200, "application/json");
        }
    }
    leave(w, x);
}

/* fresh: there is something new for those who follow. */
static void send_event(struct srv_watch *w, struct watcher *x, const struct tr_engine_view *v,
                       bool fresh)
{
    struct srv_req *req = x->req;
    if (x->follows && !fresh)
        return;
    const struct tr_buf *event = x->follows ? &w->event : whole(w, req->srv, v);
    bool read = req->out.len == req->out_pos; /* the one before */
    x->follows = read && !event->oom;
    if (!x->follows)
        return;
    tr_buf_add(&req->out, event->data, event->len);
    srv_stream_flush(req);
}

/* Writes the event for all who follow; false: there is nothing new. */
static bool write_event(struct srv_watch *w, const struct srv *s, const struct tr_engine_view *v)
{
    struct tr_buf *out = &w->event;
    tr_buf_clear(out);
    size_t begin = add_event(out, s, v, w->step);
    size_t hash = out->oom ? 0 : (size_t)tr_hash(out->data + begin, out->len - begin).lo;
    bool fresh = hash != w->told;
    w->told = hash;
    w->step = v->n_steps ? v->steps[v->n_steps - 1].number : 0;
    return fresh;
}

/* Nothing will be drawn any more. */
static void dismiss(struct srv_watch *w)
{
    TR_LIST_EACH_SAFE(struct watcher, x, &w->watchers) {
        if (x->once)
            srv_refuse(x->req, SRV_PROBLEM_DRAIN, NULL, "the daemon is shutting down");
        else
            srv_stream_end(x->req, false);
        leave(w, x);
    }
}

/* Another checkpoint serves, whose drawings and steps have numbers of their own. */
static void turn_to(struct srv_watch *w, const struct srv_model *m, uint64_t number)
{
    w->model = m->number;
    w->seen = number;
    w->step = 0;
    TR_LIST_EACH(struct watcher, x, &w->watchers) {
        x->from = number;
        x->follows = false;
    }
    tr_engine_look(m->engine);
}

static void on_tick(uv_timer_t *timer)
{
    struct srv *s = timer->data;
    struct srv_watch *w = s->watch;
    if (!s->model) { /* between two: whoever watches waits */
        if (s->state == SRV_STATE_DRAINING)
            dismiss(w);
        return;
    }
    const struct tr_engine_view *v = tr_engine_view(s->model->engine);
    int64_t now = (int64_t)uv_now(&s->loop);
    if (w->model != s->model->number)
        turn_to(w, s->model, v->number);
    bool drawn = v->number != w->seen, over = s->state == SRV_STATE_DRAINING;
    bool due = w->streams && now - w->written >= EVENT_MS, beat = due && drawn;
    bool fresh = beat && write_event(w, s, v);
    w->seen = v->number;
    tr_buf_clear(&w->whole);
    TR_LIST_EACH_SAFE(struct watcher, x, &w->watchers) {
        if (over || (x->once && (v->number > x->from || now - x->since > PATIENCE_MS)))
            end(w, x, v);
        else if (beat && !x->once)
            send_event(w, x, v, fresh);
    }
    if (beat)
        w->written = now;
    else if (due)
        tr_engine_look(s->model->engine);
}

static struct srv_watch *watch_of(struct srv *s)
{
    if (s->watch)
        return s->watch;
    s->watch = calloc(1, sizeof *s->watch);
    if (!s->watch)
        return NULL;
    tr_list_init(&s->watch->watchers);
    uv_timer_init(&s->loop, &s->watch->timer);
    s->watch->timer.data = s;
    return s->watch;
}

void srv_watch_done(struct srv *s)
{
    if (s->watch) {
        tr_buf_done(&s->watch->event);
        tr_buf_done(&s->watch->whole);
    }
    free(s->watch);
    s->watch = NULL;
}

static void begin_watching(struct srv_req *req, bool once)
{
    struct srv *s = req->srv;
    struct srv_watch *w = watch_of(s);
    struct watcher *x = w ? calloc(1, sizeof *x) : NULL;
    if (!x) {
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        return;
    }
    if (w->n == MAX_WATCHERS) {
        free(x);
        srv_refuse(req, SRV_PROBLEM_WATCHERS, NULL, "%d are watching already", MAX_WATCHERS);
        return;
    }
    uint64_t number = tr_engine_view(s->model->engine)->number;
    if (w->n++ == 0) {
        w->model = s->model->number;
        w->seen = number; /* it may be old */
        uv_timer_start(&w->timer, on_tick, TICK_MS, TICK_MS);
    }
    *x = (struct watcher){
        .req = req, .once = once, .since = (int64_t)uv_now(&s->loop), .from = number};
    w->streams += !once;
    tr_list_append(&w->watchers, &x->link);
    srv_later(req, &generator, x);
    if (once)
        tr_engine_look(s->model->engine);
    else
        srv_stream_begin(req);
}

static void get_engine(struct srv_req *req)
{
    begin_watching(req, true);
}

static void get_events(struct srv_req *req)
{
    begin_watching(req, false);
}

const struct srv_route srv_engine_route = {
    .path = "/v1/engine",
    .doc = "The engine at work: layers, pages, sequences, steps",
    .get = get_engine,
};

const struct srv_route srv_engine_events_route = {
    .path = "/v1/engine/events",
    .doc = "The same, as events some times a second while something changes",
    .get = get_events,
    .media = "text/event-stream",
};
