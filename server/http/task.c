#include "server/http/task.h"

#include <stdlib.h>

#include "server/http/reply.h"
#include "server/server.h"

struct task {
    struct srv_req *req; /* a reference */
    srv_task_fn fn;
    int result;
    bool dead; /* nobody listens any more */
    struct tr_err err;
    uv_work_t work;
};

static void on_proceed(struct srv_req *req)
{
    (void)req; /* no stream */
}

static void on_stop(struct srv_req *req)
{
    ((struct task *)req->owner)->dead = true;
}

static const struct srv_generator generator = {on_proceed, on_stop};

static void run(struct task *t)
{
    t->result = t->fn(t->req, &t->err);
    if (t->result == 0 && t->req->out.oom)
        t->result = tr_err_set(&t->err, TR_ENOMEM, NULL, "out of memory for the answer");
}

static void finish(struct task *t)
{
    if (!t->dead && t->result < 0)
        srv_refuse_err(t->req, &t->err);
    else if (!t->dead)
        srv_reply(t->req, 200, "application/json");
    srv_req_unref(t->req);
    free(t);
}

static void on_work(uv_work_t *work)
{
    run(work->data);
}

static void on_worked(uv_work_t *work, int status)
{
    (void)status;
    struct task *t = work->data;
    t->req->srv->n_working--;
    finish(t);
}

static void start(struct srv_req *req, srv_task_fn fn, bool aside)
{
    struct task *t = calloc(1, sizeof *t);
    if (!t) {
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        return;
    }
    t->req = req;
    t->fn = fn;
    t->work.data = t;
    srv_later(req, &generator, t);
    if (aside && uv_queue_work(&req->srv->loop, &t->work, on_work, on_worked) == 0) {
        req->srv->n_working++;
        return;
    }
    run(t);
    finish(t);
}

void srv_task_run(struct srv_req *req, srv_task_fn fn)
{
    start(req, fn, req->body.len > SRV_INLINE_BYTES);
}

void srv_task_run_aside(struct srv_req *req, srv_task_fn fn)
{
    start(req, fn, true);
}
