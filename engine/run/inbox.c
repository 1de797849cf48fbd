/* What other threads ask of the engine thread. Wishes are flags in the request itself, so that
 * cancelling allocates nothing and can't fail. */
#include <errno.h>
#include <time.h>

#include "config/clock.h"
#include "engine/run/run.h"

int tr__inbox_init(struct inbox *in)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr))
        return TR_ENOMEM;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int r = pthread_cond_init(&in->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (r)
        return TR_ENOMEM;
    pthread_mutex_init(&in->mutex, NULL);
    pthread_cond_init(&in->called, NULL);
    tr_list_init(&in->arrived);
    tr_list_init(&in->live);
    in->next_id = 1;
    return 0;
}

void tr__inbox_done(struct inbox *in)
{
    pthread_mutex_destroy(&in->mutex);
    pthread_cond_destroy(&in->wake);
    pthread_cond_destroy(&in->called);
}

/* ---- any thread ---- */

static void changed(struct inbox *in)
{
    in->changed = true;
    pthread_cond_signal(&in->wake);
}

static int enqueue(struct tr_engine *e, struct request *r, struct tr_err *err)
{
    struct inbox *in = &e->inbox;
    if (in->draining)
        return tr_err_set(err, TR_EDRAIN, NULL, "the server is shutting down");
    if (in->waiting >= e->options.max_queue + in->seats)
        return tr_err_set(err, TR_EQUEUE, NULL, "%d requests are waiting already", in->waiting);
    r->id = in->next_id++;
    r->submit_ns = tr_clock_ns();
    r->waiting = true;
    in->waiting++;
    tr_list_append(&in->arrived, &r->link);
    changed(in);
    return 0;
}

int tr_engine_submit(struct tr_engine *e, struct tr_job *job, uint64_t *ret_id, struct tr_err *err)
{
    struct request *r;
    int status = tr__request_make(&r, e, job, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&e->inbox.mutex);
    status = enqueue(e, r, err);
    uint64_t id = r->id; /* r belongs to the engine thread once the lock is gone */
    pthread_mutex_unlock(&e->inbox.mutex);
    if (status < 0) {
        r->job = NULL; /* stays the caller's */
        tr__request_free(r);
        return status;
    }
    *ret_id = id;
    return 0;
}

static struct request *find(struct tr_list *head, uint64_t id)
{
    TR_LIST_EACH(struct request, r, head)
        if (r->id == id)
            return r;
    return NULL;
}

static struct request *find_any(struct inbox *in, uint64_t id)
{
    struct request *r = find(&in->live, id);
    return r ? r : find(&in->arrived, id);
}

void tr_engine_cancel(struct tr_engine *e, uint64_t id, int choice)
{
    pthread_mutex_lock(&e->inbox.mutex);
    struct request *r = find_any(&e->inbox, id);
    for (int i = 0; r && i < r->n; i++)
        if (choice < 0 || choice == i)
            r->choices[i].canceled = true;
    changed(&e->inbox);
    pthread_mutex_unlock(&e->inbox.mutex);
}

void tr_engine_pause(struct tr_engine *e, uint64_t id, bool paused)
{
    pthread_mutex_lock(&e->inbox.mutex);
    struct request *r = find_any(&e->inbox, id);
    if (r)
        r->paused = paused;
    changed(&e->inbox);
    pthread_mutex_unlock(&e->inbox.mutex);
}

void tr_engine_drain(struct tr_engine *e)
{
    pthread_mutex_lock(&e->inbox.mutex);
    e->inbox.draining = true;
    pthread_mutex_unlock(&e->inbox.mutex);
}

void tr__inbox_close(struct inbox *in)
{
    pthread_mutex_lock(&in->mutex);
    in->draining = in->closing = true;
    changed(in);
    pthread_mutex_unlock(&in->mutex);
}

void tr__inbox_look(struct inbox *in)
{
    pthread_mutex_lock(&in->mutex);
    in->look = true;
    changed(in);
    pthread_mutex_unlock(&in->mutex);
}

bool tr__inbox_call(struct inbox *in, void (*run)(struct tr_engine *e, void *arg), void *arg)
{
    struct call call = {.run = run, .arg = arg};
    pthread_mutex_lock(&in->mutex);
    bool open = !in->closing;
    if (open) {
        call.next = in->calls;
        in->calls = &call;
        changed(in);
        while (!call.done)
            pthread_cond_wait(&in->called, &in->mutex);
    }
    pthread_mutex_unlock(&in->mutex);
    return open;
}

/* ---- the engine thread ---- */

static void run_calls(struct tr_engine *e, struct call *calls)
{
    for (struct call *c = calls; c; c = c->next)
        c->run(e, c->arg);
    pthread_mutex_lock(&e->inbox.mutex);
    while (calls) {
        struct call *next = calls->next; /* the caller's stack may go once it is done */
        calls->done = true;
        calls = next;
    }
    pthread_cond_broadcast(&e->inbox.called);
    pthread_mutex_unlock(&e->inbox.mutex);
}

bool tr__inbox_apply(struct tr_engine *e)
{
    struct inbox *in = &e->inbox;
    pthread_mutex_lock(&in->mutex);
    bool closing = in->closing;
    if (!in->changed) {
        pthread_mutex_unlock(&in->mutex);
        return !closing;
    }
    in->changed = false;
    TR_LIST_EACH_SAFE(struct request, r, &in->arrived) {
        tr_list_remove(&r->link);
        tr_list_append(&in->live, &r->link);
        tr_schedule_add(e->schedule, &r->choices[0].seq, r->job->cache_salt);
        r->choices[0].entered = true;
    }
    TR_LIST_EACH(struct request, r, &in->live)
        for (int i = 0; i < r->n; i++) {
            r->choices[i].seq.paused = r->paused;
            r->choices[i].stop = closing || r->choices[i].canceled;
        }
    struct call *calls = in->calls;
    in->calls = NULL;
    bool look = in->look;
    in->look = false;
    pthread_mutex_unlock(&in->mutex);
    if (calls)
        run_calls(e, calls);
    if (look)
        tr__view_draw(e);
    return !closing;
}

bool tr__inbox_wait(struct inbox *in, int64_t until)
{
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_mutex_lock(&in->mutex);
    while (!in->changed && pthread_cond_timedwait(&in->wake, &in->mutex, &t) != ETIMEDOUT) {
    }
    bool work = !tr_list_empty(&in->arrived) || in->calls;
    pthread_mutex_unlock(&in->mutex);
    return work;
}

static void not_waiting(struct inbox *in, struct request *r)
{
    if (r->waiting)
        in->waiting--;
    r->waiting = false;
}

void tr__inbox_admitted(struct inbox *in, struct request *r)
{
    pthread_mutex_lock(&in->mutex);
    not_waiting(in, r);
    pthread_mutex_unlock(&in->mutex);
}

void tr__inbox_set_seats(struct inbox *in, int seats)
{
    pthread_mutex_lock(&in->mutex);
    in->seats = seats;
    pthread_mutex_unlock(&in->mutex);
}

void tr__inbox_remove(struct inbox *in, struct request *r)
{
    pthread_mutex_lock(&in->mutex);
    not_waiting(in, r);
    tr_list_remove(&r->link);
    pthread_mutex_unlock(&in->mutex);
}
