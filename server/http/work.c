#include "server/http/work.h"

#include <malloc.h>

#include "config/cancel.h"
#include "server/server.h"

enum { TRIM_BYTES = 1 << 20 }; /* of bodies that were read since the last time */

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
    *(w->prev ? &w->prev->next : &s->works) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    s->released += w->bytes;
    w->done(w);
    give_back(s);
}

bool srv_work_start(struct srv *s, struct srv_work *w)
{
    w->srv = s;
    w->uv.data = w;
    atomic_init(&w->cancelled, false);
    if (uv_queue_work(&s->loop, &w->uv, on_work, on_worked) < 0)
        return false;
    s->n_working++;
    w->prev = NULL;
    w->next = s->works;
    if (w->next)
        w->next->prev = w;
    s->works = w;
    return true;
}

void srv_work_cancel(struct srv_work *w)
{
    atomic_store_explicit(&w->cancelled, true, memory_order_relaxed);
    (void)uv_cancel((uv_req_t *)&w->uv); /* fails when it runs: then it looks at the flag */
}

void srv_work_cancel_all(struct srv *s)
{
    for (struct srv_work *w = s->works; w; w = w->next)
        srv_work_cancel(w);
}
