#include "server/http/task.h"

#include <stdlib.h>

#include "server/http/reply.h"
#include "server/http/work.h"
#include "server/server.h"

struct task {
    struct srv_req *req; /* a reference */
    srv_task_fn fn;
    int result;
    bool dead; /* nobody listens any more */
    struct tr_err err;
    struct srv_work work;
};

static void on_proceed(struct srv_req *req)
{
    (void)req; /* no stream */
}

static void on_stop(struct srv_req *req)
{
    struct task *t = req->owner;
    t->dead = true;
    srv_work_cancel(&t->work);
}

static const struct srv_generator generator = {on_proceed, on_stop};

static void run(struct srv_work *work)
{
    struct task *t = TR_CONTAINER_OF(work, struct task, work);
    t->err = (struct tr_err){0};
    t->result = t->fn(t->req, &t->err);
    if (t->result == 0 && t->req->out.oom)
        t->result = tr_err_set(&t->err, TR_ENOMEM, NULL, "out of memory for the answer");
}

static void finish(struct srv_work *work)
{
    struct task *t = TR_CONTAINER_OF(work, struct task, work);
    if (!t->dead && t->result < 0)
        srv_refuse_err(t->req, &t->err);
    else if (!t->dead)
        srv_reply(t->req, 200, "application/json");
    srv_work_leave(t->req);
    free(t);
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
    t->work.run = run;
    t->work.done = finish;
    t->result = tr_err_set(&t->err, TR_ECANCELED, NULL, "the daemon is shutting down");
    srv_work_begin(req, &t->work, &generator, t, aside);
}

void srv_task_run(struct srv_req *req, srv_task_fn fn)
{
    start(req, fn, false);
}

void srv_task_run_aside(struct srv_req *req, srv_task_fn fn)
{
    start(req, fn, true);
}
