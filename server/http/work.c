#include "server/http/work.h"

#include <malloc.h>
#include <string.h>

#include "config/cancel.h"
#include "server/http/reply.h"
#include "server/server.h"

enum {
    INLINE_BYTES = 8 * 1024, /* of text can be tokenized twice meanwhile */
    VALUE_BYTES = 16,        /* the text that takes as long as one more value, however short */
    TRIM_BYTES = 1 << 20     /* of bodies that were read since the last time */
};

static void on_work(uv_work_t *uv)
{
    struct srv_work *w = uv->data;
    tr_cancel_watch(&w->cancelled);
    if (!tr_cancel_asked())
        w->run(w);
    tr_cancel_watch(NULL);
}

static void trim(uv_work_t *uv)
{
    (void)uv;
    malloc_trim(0);
}

static void on_trimmed(uv_work_t *uv, int status)
{
    (void)status;
    struct srv *s = uv->data;
    s->trimming = false;
}

/* A large request's memory lies in many small pieces: the allocator gives it back when asked. */
static void give_back(struct srv *s)
{
    if (s->released < TRIM_BYTES || s->n_working > 0 || s->trimming)
        return;
    s->released = 0;
    s->trim.data = s;
    s->trimming = uv_queue_work(&s->loop, &s->trim, trim, on_trimmed) == 0;
}

static void on_worked(uv_work_t *uv, int status)
{
    (void)status; /* of uv_cancel: told by `cancelled` */
    struct srv_work *w = uv->data;
    struct srv *s = w->srv;
    s->n_working--;
    tr_list_remove(&w->link);
    w->aside = false;
    s->released += w->bytes;
    w->done(w);
    give_back(s);
}

static bool is_long(const struct srv_work *w, const struct tr_buf *body)
{
    size_t cost = body->len;
    for (size_t i = 0; i < body->len && cost <= INLINE_BYTES; i++)
        if (body->data[i] == ',')
            cost += VALUE_BYTES;
    bool found = cost > INLINE_BYTES;
    for (size_t i = 0; !found && body->len > 0 && i < w->n_words; i++)
        found = memmem(body->data, body->len, w->words[i], strlen(w->words[i])) != NULL;
    return found;
}

static bool start(struct srv_work *w)
{
    struct srv *s = w->srv;
    w->uv.data = w;
    atomic_init(&w->cancelled, false);
    if (uv_queue_work(&s->loop, &w->uv, on_work, on_worked) < 0)
        return false;
    s->n_working++;
    tr_list_insert(&s->works, &w->link);
    return true;
}

void srv_work_begin(struct srv_req *req, struct srv_work *w, const struct srv_generator *generator,
                    void *owner, bool aside)
{
    srv_later(req, generator, owner);
    req->model = srv_model_use(req->srv->model);
    w->srv = req->srv;
    w->bytes = req->body.len;
    w->aside = (aside || is_long(w, &req->body)) && start(w);
    if (w->aside)
        return;
    w->run(w);
    w->done(w);
}

void srv_work_leave(struct srv_req *req)
{
    srv_model_unref(req->model);
    req->model = NULL;
    srv_req_unref(req);
}

bool srv_work_again(struct srv_work *w)
{
    w->aside = start(w);
    return w->aside;
}

void srv_work_cancel(struct srv_work *w)
{
    if (!w->aside)
        return;
    atomic_store_explicit(&w->cancelled, true, memory_order_relaxed);
    (void)uv_cancel((uv_req_t *)&w->uv); /* fails when it runs: then it looks at the flag */
}

void srv_work_cancel_all(struct srv *s)
{
    TR_LIST_EACH(struct srv_work, w, &s->works)
        srv_work_cancel(w);
}
