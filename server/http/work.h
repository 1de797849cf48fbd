/* Work for libuv's pool that can be called off, while it waits there and while it runs. */
#ifndef TR_SERVER_HTTP_WORK_H
#define TR_SERVER_HTTP_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

struct srv;

/* Part of whoever has the work to do; stays in place from the start to `done`. */
struct srv_work {
    struct srv *srv;
    struct srv_work *prev, *next;       /* srv.works */
    void (*run)(struct srv_work *work); /* on a worker; tr_cancel_asked tells it to end */
    /* On the loop thread. Also if `run` never was: cancelled is true then. */
    void (*done)(struct srv_work *work);
    size_t bytes; /* of the body: how much memory it may have taken */
    atomic_bool cancelled;
    uv_work_t uv;
};

/* false: it can't be started, and nothing will be called. run and done are set. */
bool srv_work_start(struct srv *s, struct srv_work *work);
/* Nobody needs it any more: it ends as soon as it can. */
void srv_work_cancel(struct srv_work *work);
void srv_work_cancel_all(struct srv *s);

#endif
