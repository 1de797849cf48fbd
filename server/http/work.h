/* Work that a request asks for: at once, or on libuv's pool, where it can be called off while it
 * waits and while it runs. */
#ifndef TR_SERVER_HTTP_WORK_H
#define TR_SERVER_HTTP_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "config/list.h"
#include "server/http/request.h"

/* Part of whoever has the work to do; stays in place until `done`. */
struct srv_work {
    struct srv *srv;
    struct tr_list link;                /* srv.works */
    void (*run)(struct srv_work *work); /* tr_cancel_asked tells it to end */
    /* On the loop thread. Also if `run` never was. */
    void (*done)(struct srv_work *work);
    /* Words of a body that takes long, however short it is; n_words. */
    const char *const *words;
    size_t n_words;
    size_t bytes; /* of the body: how much memory it may have taken */
    bool aside;   /* a worker has it */
    atomic_bool cancelled;
    uv_work_t uv;
};

/* The reply comes later, by `done`: see srv_later. run, done and words are set. Runs on a worker
 * with `aside`, or if to read the body may take longer than the loop has patience for (a few
 * milliseconds); else at once. */
void srv_work_begin(struct srv_req *req, struct srv_work *work,
                    const struct srv_generator *generator, void *owner, bool aside);
/* After all of it: gives the request and its model back. */
void srv_work_leave(struct srv_req *req);
/* Once it was begun and done: more of it, for a worker. false: there is none, nothing happens. */
bool srv_work_again(struct srv_work *work);
/* Nobody needs it any more: it ends as soon as it can. */
void srv_work_cancel(struct srv_work *work);
void srv_work_cancel_all(struct srv *s);

#endif
