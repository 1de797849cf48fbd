#include "server/http/hold.h"

#include <stdlib.h>

#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/server.h"

struct held {
    struct tr_list link; /* srv.held */
    struct srv_req *req; /* a reference */
};

static void let_go(struct held *h)
{
    tr_list_remove(&h->link);
    h->req->srv->n_held--;
    srv_req_unref(h->req);
    free(h);
}

static void on_proceed(struct srv_req *req)
{
    (void)req; /* no stream yet */
}

static void on_stop(struct srv_req *req)
{
    let_go(req->owner);
}

static const struct srv_generator generator = {on_proceed, on_stop};

void srv_hold(struct srv_req *req)
{
    struct srv *s = req->srv;
    if (s->n_held >= s->options->max_queue) {
        srv_refuse(req, SRV_PROBLEM_LOADING, NULL, "the next checkpoint is loading");
        return;
    }
    struct held *h = calloc(1, sizeof *h);
    if (!h) {
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        return;
    }
    h->req = req;
    tr_list_append(&s->held, &h->link);
    s->n_held++;
    srv_later(req, &generator, h);
}

void srv_hold_release(struct srv *s)
{
    TR_LIST_EACH_SAFE(struct held, h, &s->held) {
        h->req->generator = NULL;
        srv_route_answer(h->req);
        let_go(h);
    }
}

void srv_hold_refuse(struct srv *s)
{
    TR_LIST_EACH_SAFE(struct held, h, &s->held) {
        srv_refuse(h->req, SRV_PROBLEM_DRAIN, NULL, "the daemon is shutting down");
        let_go(h);
    }
}
