#include "server/http/conn.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/http/exchange.h"
#include "server/http/problem.h"
#include "server/http/pump.h"
#include "server/server.h"

enum { MIN_BYTES_PER_MS = 1 }; /* a body or an answer slower than this runs into its deadline */

static void free_handle(uv_handle_t *handle)
{
    struct srv_conn *c = handle->data;
    if (--c->open_handles == 0)
        free(c);
}

/* The end of a request whose client left, or has to leave: its owner stops, and libmicrohttpd is
 * given the chance to close the connection. */
static void abandon(struct srv_conn *c)
{
    struct srv_req *req = c->req;
    if (req->gone)
        return;
    req->gone = true;
    const struct srv_generator *generator = req->generator;
    req->generator = NULL;
    if (generator)
        generator->stop(req);
    srv_conn_resume(c);
}

/* A client that sent its last byte will not hear an answer that has yet to be made. An answer that
 * is already with libmicrohttpd is its own affair. */
static void check_hangup(struct srv_conn *c)
{
    if (c->hangup && c->req && c->suspended)
        abandon(c);
}

static void on_disconnect(uv_poll_t *watch, int status, int events)
{
    struct srv_conn *c = watch->data;
    if (status >= 0 && !(events & UV_DISCONNECT))
        return;
    uv_poll_stop(watch);
    c->hangup = true;
    if (!c->suspended) {
        /* libmicrohttpd takes a short read for an empty socket and misses an end that came with the
         * last bytes. So it reads those now, and then its edge-triggered poll is woken once
         * more. */
        srv_pump_run(c->srv);
        if (!uv_is_closing((uv_handle_t *)watch))
            shutdown(c->fd, SHUT_RD);
        return;
    }
    check_hangup(c);
}

/* Says why and closes; libmicrohttpd cannot answer in the middle of a request. */
static void time_out(struct srv_conn *c)
{
    struct tr_buf body = {0}, answer = {0};
    srv_error_object.write(&body, c->req, SRV_PROBLEM_TIMEOUT, NULL,
                           "the request did not arrive in time");
    tr_buf_addf(&answer,
                "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
                "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                body.len, body.data);
    if (c->req && c->req->phase == SRV_PHASE_BODY && !c->srv->options->tls_cert)
        (void)!send(c->fd, answer.data, answer.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    tr_buf_done(&body);
    tr_buf_done(&answer);
    shutdown(c->fd, SHUT_RDWR);
}

static int64_t deadline(const struct srv_conn *c)
{
    const struct tr_options *o = c->srv->options;
    const struct srv_req *req = c->req;
    if (!req)
        return c->since + o->idle_timeout;
    if (req->phase == SRV_PHASE_BODY)
        return c->since + o->idle_timeout + (int64_t)(req->received / MIN_BYTES_PER_MS);
    if (req->phase == SRV_PHASE_SENDING && !req->streaming)
        return c->since + o->idle_timeout + (int64_t)(req->sent / MIN_BYTES_PER_MS);
    if (req->phase == SRV_PHASE_SENDING && req->out.len > req->out_pos)
        return c->since + o->stream_stall;
    if (req->phase == SRV_PHASE_SENDING && o->stream_ping > 0)
        return c->since + o->stream_ping;
    return INT64_MAX;
}

static void on_timer(uv_timer_t *timer)
{
    struct srv_conn *c = timer->data;
    struct srv_req *req = c->req;
    int64_t left = deadline(c) - srv_now(c->srv);
    if (left > 0) {
        if (left < INT64_MAX / 2)
            uv_timer_start(timer, on_timer, (uint64_t)left, 0);
        return;
    }
    if (req && req->phase == SRV_PHASE_SENDING && req->streaming && !req->ended) {
        if (req->out.len > req->out_pos) {
            c->srv->metrics.stalled_streams++;
            abandon(c);
            shutdown(c->fd, SHUT_RDWR);
            return;
        }
        tr_buf_adds(&req->out, ": ping\n\n");
        srv_conn_wake(c);
        return;
    }
    time_out(c);
}

void srv_conn_restart_timer(struct srv_conn *c)
{
    c->since = srv_now(c->srv);
    int64_t left = deadline(c);
    if (left == INT64_MAX)
        uv_timer_stop(&c->timer);
    else
        uv_timer_start(&c->timer, on_timer, (uint64_t)(left - c->since), 0);
}

struct srv_conn *srv_conn_open(struct srv *s, struct MHD_Connection *mhd, int fd)
{
    struct srv_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->srv = s;
    c->mhd = mhd;
    c->fd = fd;
    uv_timer_init(&s->loop, &c->timer);
    c->timer.data = c;
    c->open_handles = 1;
    if (uv_poll_init(&s->loop, &c->watch, fd) < 0) {
        uv_close((uv_handle_t *)&c->timer, free_handle);
        return NULL;
    }
    c->watch.data = c;
    c->open_handles = 2;
    uv_poll_start(&c->watch, UV_DISCONNECT, on_disconnect);
    c->next = s->conns;
    if (c->next)
        c->next->prev = c;
    s->conns = c;
    s->n_conns++;
    srv_conn_restart_timer(c);
    return c;
}

void srv_conn_close(struct srv_conn *c)
{
    struct srv *s = c->srv;
    if (c->req) /* libmicrohttpd gave up its head, and says nothing of the request */
        srv_exchange_leave(c->req, true);
    if (c->next)
        c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    s->n_conns--;
    uv_close((uv_handle_t *)&c->watch, free_handle);
    uv_close((uv_handle_t *)&c->timer, free_handle);
}

void srv_conn_suspend(struct srv_conn *c)
{
    c->suspended = true;
    MHD_suspend_connection(c->mhd);
    check_hangup(c);
}

void srv_conn_resume(struct srv_conn *c)
{
    if (!c->suspended)
        return;
    c->suspended = false;
    MHD_resume_connection(c->mhd);
}

void srv_conn_wake(struct srv_conn *c)
{
    if (!c->suspended)
        return;
    srv_conn_touch(c);
    srv_conn_resume(c);
}

void srv_conn_touch(struct srv_conn *c)
{
    c->since = srv_now(c->srv);
}
