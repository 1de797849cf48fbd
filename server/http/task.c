#include "server/http/task.h"

#include <stddef.h>
#include <stdlib.h>

#include "server/http/reply.h"
#include "server/http/work.h"
#include "server/server.h"

enum {
    INLINE_BYTES = 8 * 1024, /* of text can be tokenized twice meanwhile */
    VALUE_BYTES = 16         /* the text that takes as long as one more value, however short */
};

struct task {
    struct srv_req *req; /* a reference */
    srv_task_fn fn;
    int result;
    bool aside; /* a worker has it */
    bool dead;  /* nobody listens any more */
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
    if (t->aside)
        srv_work_cancel(&t->work);
}

static const struct srv_generator generator = {on_proceed, on_stop};

static void run(struct task *t)
{
    t->err = (struct tr_err){0};
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

static struct task *task_of(struct srv_work *work)
{
    return (struct task *)((char *)work - offsetof(struct task, work));
}

static void on_work(struct srv_work *work)
{
    run(task_of(work));
}

static void on_worked(struct srv_work *work)
{
    finish(task_of(work));
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
    t->work.bytes = req->body.len;
    t->work.run = on_work;
    t->work.done = on_worked;
    t->result = tr_err_set(&t->err, TR_ECANCELED, NULL, "the daemon is shutting down");
    t->aside = aside;
    srv_later(req, &generator, t);
    if (aside && srv_work_start(req->srv, &t->work))
        return;
    t->aside = false;
    run(t);
    finish(t);
}

bool srv_task_is_long(const struct srv_req *req)
{
    size_t cost = req->body.len;
    for (size_t i = 0; i < req->body.len && cost <= INLINE_BYTES; i++)
        if (req->body.data[i] == ',')
            cost += VALUE_BYTES;
    return cost > INLINE_BYTES;
}

void srv_task_run(struct srv_req *req, srv_task_fn fn)
{
    start(req, fn, srv_task_is_long(req));
}

void srv_task_run_aside(struct srv_req *req, srv_task_fn fn)
{
    start(req, fn, true);
}
