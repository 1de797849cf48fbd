#include "server/http/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "server/http/access.h"
#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/server.h"

/* ---- who asks ---- */

void srv_inbox_init(struct srv_inbox *in)
{
    *in = (struct srv_inbox){0};
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->told, NULL);
    tr_list_init(&in->waiting);
    tr_list_init(&in->replied);
}

void srv_inbox_done(struct srv_inbox *in)
{
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->told);
}

bool srv_inbox_ask(struct srv_inbox *in, struct srv_inquiry *ask)
{
    ask->over = false;
    ask->status = 0;
    pthread_mutex_lock(&in->lock);
    if (!in->closed) {
        tr_list_append(&in->waiting, &ask->link);
        if (in->open)
            uv_async_send(&in->async);
        while (!ask->over)
            pthread_cond_wait(&in->told, &in->lock);
    }
    pthread_mutex_unlock(&in->lock);
    tr_buf_done(&ask->body);
    return ask->status != 0;
}

/* ---- the loop ---- */

static void tell(struct srv_inbox *in, struct srv_inquiry *ask)
{
    pthread_mutex_lock(&in->lock);
    ask->over = true;
    pthread_cond_broadcast(&in->told);
    pthread_mutex_unlock(&in->lock);
}

void srv_inbox_replied(struct srv_req *req)
{
    struct srv_inbox *in = req->srv->inbox;
    if (req->replied.next)
        return;
    tr_list_append(&in->replied, &req->replied);
    uv_async_send(&in->async); /* whoever replies may not have done with the request */
}

static void hand_over(struct srv_inbox *in, struct srv_req *req)
{
    struct srv_inquiry *ask = req->ask;
    ask->status = req->status;
    ask->retry_after = req->retry_after;
    snprintf(ask->request_id, sizeof ask->request_id, "%.*s", SRV_ASK_ID - 1, req->id);
    ask->reply = req->out;
    req->sent = req->out.len;
    req->out = (struct tr_buf){0};
    srv_metrics_request(&req->srv->metrics, req->route ? req->route_index : SRV_MAX_ROUTES,
                        req->status);
    srv_access_log(req);
    srv_req_unref(req);
    tell(in, ask);
}

static void begin(struct srv *s, struct srv_inquiry *ask)
{
    struct srv_req *req = calloc(1, sizeof *req);
    if (!req || !(req->path = strdup(ask->path))) {
        free(req);
        ask->status = srv_problems[SRV_PROBLEM_MEMORY].status;
        tell(s->inbox, ask);
        return;
    }
    req->srv = s;
    req->ask = ask;
    req->refs = 1;
    req->begun_ns = tr_clock_ns();
    req->number = srv_new_number(s);
    req->method = SRV_METHOD_POST;
    req->strict = s->options->strict;
    req->background = ask->background;
    snprintf(req->id, sizeof req->id, "req-%016llx", (unsigned long long)req->number);
    req->body = ask->body;
    ask->body = (struct tr_buf){0};
    req->held = req->received = req->body.len;
    s->body_bytes += req->held;
    s->n_requests++;
    if (srv_route_admit_key(req, ask->sha))
        srv_route_run(req);
}

static struct srv_inquiry *take(struct srv_inbox *in)
{
    struct srv_inquiry *ask = NULL;
    pthread_mutex_lock(&in->lock);
    if (!tr_list_empty(&in->waiting)) {
        ask = TR_LIST_AT(struct srv_inquiry, in->waiting.next);
        tr_list_remove(&ask->link);
    }
    pthread_mutex_unlock(&in->lock);
    return ask;
}

static void on_async(uv_async_t *async)
{
    struct srv_inbox *in = async->data;
    struct srv_inquiry *ask;
    while (in->open && (ask = take(in)))
        begin(in->srv, ask);
    while (!tr_list_empty(&in->replied)) {
        struct srv_req *req = TR_CONTAINER_OF(in->replied.next, struct srv_req, replied);
        tr_list_remove(&req->replied);
        hand_over(in, req);
    }
}

int srv_inbox_attach(struct srv_inbox *in, struct srv *s)
{
    in->srv = s;
    in->async.data = in;
    return uv_async_init(&s->loop, &in->async, on_async);
}

void srv_inbox_open(struct srv_inbox *in)
{
    pthread_mutex_lock(&in->lock);
    in->open = true;
    pthread_mutex_unlock(&in->lock);
    uv_async_send(&in->async);
}

void srv_inbox_close(struct srv_inbox *in)
{
    pthread_mutex_lock(&in->lock);
    in->open = false;
    in->closed = true;
    pthread_mutex_unlock(&in->lock);
    if (in->srv)
        on_async(&in->async);
    for (struct srv_inquiry *ask; (ask = take(in));)
        tell(in, ask);
}
