#include "server/http/conn.h"

#include <linux/sockios.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/clock.h"
#include "server/http/exchange.h"
#include "server/http/listen.h"
#include "server/http/peek.h"
#include "server/http/problem.h"
#include "server/http/transport.h"
#include "server/log.h"
#include "server/server.h"

enum {
    MIN_RATE = 1000,       /* bytes a second: a body or an answer that is slower ends */
    FAIR_RATE = 16 * 1024, /* bytes a second: a reader that takes so many is never cut */
    AHEAD_MAX_MS = 30000,  /* what it takes at once counts for so long, */
    AHEAD_TIMES = 8,       /* or for so many times what silence may last */
    SWALLOWS = 16,         /* pieces of a head that is refused */
    LOOKS = 4,             /* at its progress, in the time after which silence ends it */
    PROBE_SLOTS = 16,      /* beyond max_connections, for those who ask how it goes */
    DEAD_PEER_MS = 60000,
    SEND_BYTES = 128 * 1024 /* the kernel's part of an answer nobody reads; it may double it */
};

/* Milliseconds of the loop's clock. */
static int64_t now_of(const struct srv_conn *c)
{
    return (int64_t)uv_now(&c->srv->loop);
}

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

static void on_watch(uv_poll_t *watch, int status, int events);
static void take_over(struct srv_conn *c);

static char seen[SRV_PEEK_BYTES]; /* the loop thread's */

/* Waits for more of a first head than these n bytes; false: it need not, or there is no way. */
static bool wait_for_head(struct srv_conn *c, ssize_t n)
{
    int more = (int)n + 1, any = 1;
    if (c->unix_peer || n <= 0)
        return false;
    bool whole = srv_peek_whole(seen, (size_t)n);
    c->partial = true;
    return setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, whole ? &any : &more, sizeof more) == 0 &&
           !whole;
}

/* Before libmicrohttpd reads what the client has sent; false: refused. */
static bool look(struct srv_conn *c, ssize_t *ret_n)
{
    char *bytes = seen;
    enum srv_problem why;
    ssize_t n = recv(c->fd, bytes, sizeof seen, MSG_PEEK | MSG_DONTWAIT);
    const char *text = n > 0 ? srv_peek_fault(bytes, (size_t)n, !c->again, &why) : NULL;
    *ret_n = n;
    if (!text)
        return true;
    for (int i = 0; i < SWALLOWS && recv(c->fd, bytes, sizeof seen, MSG_DONTWAIT) > 0; i++)
        ; /* what is left unread would reset the connection before the answer is read */
    c->refused = true;
    srv_metrics_request(&c->srv->metrics, SRV_MAX_ROUTES, srv_problems[why].status);
    srv_log(SRV_LOG_INFO, NULL, "a head is refused: %d, %s", srv_problems[why].status, text);
    srv_conn_refuse(c, why, text);
    return false;
}

static void on_gone(struct srv_conn *c)
{
    uv_poll_stop(&c->watch);
    c->hangup = true;
    if (!c->suspended) {
        /* libmicrohttpd takes a short read for an empty socket and misses an end that came with the
         * last bytes. So it reads those now, and then its edge-triggered poll is woken once
         * more. */
        srv_transport_run(c->srv);
        if (!uv_is_closing((uv_handle_t *)&c->watch))
            shutdown(c->fd, SHUT_RD);
        return;
    }
    check_hangup(c);
}

static void on_watch(uv_poll_t *watch, int status, int events)
{
    struct srv_conn *c = watch->data;
    bool gone = status < 0 || events & UV_DISCONNECT;
    ssize_t n;
    if (!c->mhd) {
        if (!look(c, &n))
            srv_conn_drop(c);
        else if (gone || !wait_for_head(c, n))
            take_over(c);
        return;
    }
    if (events & UV_READABLE) {
        uv_poll_start(watch, UV_DISCONNECT, on_watch);
        if (!c->req)
            (void)look(c, &n);
    }
    if (gone)
        on_gone(c);
}

void srv_conn_refuse(struct srv_conn *c, enum srv_problem why, const char *text)
{
    struct tr_buf body = {0}, answer = {0};
    const struct srv_problem_info *info = &srv_problems[why];
    srv_error_object.write(&body, c->req, why, NULL, text);
    tr_buf_addf(&answer, "HTTP/1.1 %d %s\r\n", info->status,
                MHD_get_reason_phrase_for((unsigned)info->status));
    if (c->req && c->req->id[0])
        tr_buf_addf(&answer, "X-Request-Id: %s\r\n", c->req->id);
    else
        tr_buf_addf(&answer, "X-Request-Id: req-%016llx\r\n",
                    (unsigned long long)srv_new_number(c->srv));
    if (info->status == 503)
        tr_buf_addf(&answer, "Retry-After: %d\r\n", srv_retry_after(c->srv));
    tr_buf_addf(&answer,
                "Content-Type: application/json\r\nConnection: close\r\n"
                "Content-Length: %zu\r\n\r\n%s",
                body.len, body.data);
    if (!c->tls && !answer.oom && !body.oom)
        (void)!send(c->fd, answer.data, answer.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    tr_buf_done(&body);
    tr_buf_done(&answer);
    shutdown(c->fd, SHUT_RDWR);
}

static void time_out(struct srv_conn *c)
{
    if (c->req ? c->req->phase == SRV_PHASE_BODY : c->partial && !c->mhd)
        srv_conn_refuse(c, SRV_PROBLEM_TIMEOUT, "the request did not arrive in time");
    else if (c->mhd)
        shutdown(c->fd, SHUT_RDWR);
    if (!c->mhd)
        srv_conn_drop(c);
}

/* ---- deadlines ---- */

/* Bytes that the client has sent, or taken from the kernel; its head is the first. */
static int64_t moved(const struct srv_conn *c)
{
    const struct srv_req *req = c->req;
    int queued = 0;
    if (req->phase != SRV_PHASE_SENDING)
        return (int64_t)req->received + req->started;
    ioctl(c->fd, SIOCOUTQ, &queued);
    return (int64_t)req->sent - queued;
}

/* Milliseconds after which a client that moves no bytes is given up; 0 = it is not waited for. */
static int64_t patience(const struct srv_conn *c)
{
    const struct tr_options *o = c->srv->options;
    const struct srv_req *req = c->req;
    if (req->phase == SRV_PHASE_BODY || (req->phase == SRV_PHASE_SENDING && !req->streaming))
        return o->idle_timeout;
    if (req->phase == SRV_PHASE_SENDING && req->out.len > req->out_pos)
        return o->stream_stall;
    return 0;
}

/*
 * Silent for its patience, or in so long a time slower than MIN_RATE.
 *
 * A reader's kernel asks for more when a good part of its buffer is free: however steadily it
 * reads, bytes leave in bursts, some seconds apart. So a burst counts until it would be read at
 * FAIR_RATE.
 */
static bool is_slow(struct srv_conn *c, int64_t ms, int64_t now)
{
    int64_t bytes = moved(c);
    bool reads = c->req->phase == SRV_PHASE_SENDING;
    if (c->fresh) {
        c->base = bytes;
        c->window = now;
    }
    if (bytes != c->seen) {
        int64_t most = TR_MIN((int64_t)AHEAD_MAX_MS, ms * AHEAD_TIMES);
        c->since = now;
        if (reads)
            c->ahead =
                TR_MIN(TR_MAX(c->ahead, now) + (bytes - c->seen) * 1000 / FAIR_RATE, now + most);
    }
    c->fresh = false;
    c->seen = bytes;
    if (now - TR_MAX(c->since, c->ahead) >= ms)
        return true;
    if (now - c->window < ms || now < c->ahead)
        return false;
    bool slow = bytes - c->base < MIN_RATE * ms / 1000;
    c->base = bytes;
    c->window = now;
    return slow;
}

static void on_timer(uv_timer_t *timer);

/* Looks again in due time. */
static void wait_more(struct srv_conn *c)
{
    const struct tr_options *o = c->srv->options;
    const struct srv_req *req = c->req;
    int64_t at, now = now_of(c), ms = req ? patience(c) : 0;
    if (!req)
        at = c->since + o->idle_timeout;
    else if (ms > 0 || req->phase == SRV_PHASE_SENDING)
        at = now + TR_MAX((ms ? ms : o->stream_stall) / LOOKS, 1);
    else
        return;
    if (req && ms == 0 && o->stream_ping > 0)
        at = TR_MIN(at, c->since + o->stream_ping);
    uv_timer_start(&c->timer, on_timer, (uint64_t)TR_MAX(at - now, 0), 0);
}

static void end_stalled(struct srv_conn *c)
{
    if (c->req->phase == SRV_PHASE_SENDING && c->req->streaming) {
        c->srv->metrics.stalled_streams++;
        abandon(c);
        shutdown(c->fd, SHUT_RDWR);
    } else {
        time_out(c);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct srv_conn *c = timer->data;
    struct srv_req *req = c->req;
    const struct tr_options *o = c->srv->options;
    int64_t now = now_of(c), ms = req ? patience(c) : 0;
    if (!req && now - c->since >= o->idle_timeout) {
        time_out(c);
        return;
    }
    if (ms > 0 && is_slow(c, ms, now)) {
        end_stalled(c);
        return;
    }
    bool silent = req && ms == 0 && !req->sized && req->phase == SRV_PHASE_SENDING && !req->ended;
    if (silent && o->stream_ping > 0 && now - c->since >= o->stream_ping) {
        tr_buf_adds(&req->out, ": ping\n\n");
        srv_conn_wake(c);
    }
    wait_more(c);
}

static void begin_window(struct srv_conn *c)
{
    c->since = now_of(c);
    c->fresh = true;
}

/* ---- between requests ---- */

static void leave_idle(struct srv_conn *c)
{
    if (c->idle.next)
        tr_list_remove(&c->idle);
}

/* Ends the connection that has been between requests for the longest time; false: there is none but
 * `newest` (NULL = none). */
static bool give_way(struct srv *s, const struct srv_conn *newest)
{
    struct srv_conn *c = TR_CONTAINER_OF(s->idle.next, struct srv_conn, idle);
    if (tr_list_empty(&s->idle) || c == newest)
        return false;
    leave_idle(c);
    if (c->mhd)
        shutdown(c->fd, SHUT_RDWR);
    else
        srv_conn_drop(c);
    return true;
}

void srv_conn_restart_timer(struct srv_conn *c)
{
    begin_window(c);
    c->seen = c->ahead = 0;
    leave_idle(c);
    if (!c->req)
        tr_list_append(&c->srv->idle, &c->idle);
    if (!c->req && c->mhd && !c->tls && !c->hangup)
        uv_poll_start(&c->watch, UV_DISCONNECT | UV_READABLE, on_watch);
    uv_timer_stop(&c->timer);
    wait_more(c);
}

/* ---- life ---- */

/* NULL without memory. */
static struct srv_conn *open_conn(struct srv *s, int fd, const struct sockaddr *addr, socklen_t n)
{
    struct srv_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->srv = s;
    c->fd = fd;
    memcpy(&c->addr, addr, TR_MIN(n, sizeof c->addr));
    c->addr_bytes = n;
    c->unix_peer = addr->sa_family == AF_UNIX;
    uv_timer_init(&s->loop, &c->timer);
    c->timer.data = c;
    c->open_handles = 1;
    if (uv_poll_init(&s->loop, &c->watch, fd) < 0) {
        uv_close((uv_handle_t *)&c->timer, free_handle);
        return NULL;
    }
    c->watch.data = c;
    c->open_handles = 2;
    uv_poll_start(&c->watch, UV_DISCONNECT | UV_READABLE, on_watch);
    tr_list_insert(&s->conns, &c->link);
    s->n_conns++;
    srv_conn_restart_timer(c);
    return c;
}

void srv_conn_close(struct srv_conn *c)
{
    struct srv *s = c->srv;
    if (c->req) /* libmicrohttpd gave up its head, and says nothing of the request */
        srv_exchange_leave(c->req, true);
    tr_list_remove(&c->link);
    s->n_conns--;
    srv_listen_resume(s->listen, SRV_PAUSE_FULL);
    leave_idle(c);
    uv_close((uv_handle_t *)&c->watch, free_handle);
    uv_close((uv_handle_t *)&c->timer, free_handle);
}

void srv_conn_drop(struct srv_conn *c)
{
    int fd = c->fd;
    srv_conn_close(c);
    close(fd);
}

void srv_conn_accept(void *srv, int fd, const struct sockaddr *addr, socklen_t n)
{
    struct srv *s = srv;
    if (addr->sa_family == AF_INET || addr->sa_family == AF_INET6) {
        /* A peer that vanished without a word must not hold its request for ever. */
        int on = 1;
        unsigned ms = DEAD_PEER_MS;
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    int bytes = SEND_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    struct srv_conn *c = open_conn(s, fd, addr, n);
    if (!c) {
        close(fd);
        s->metrics.refused_connections++;
        return;
    }
    if (s->n_conns > s->max_conns && !give_way(s, c) && s->n_conns >= s->max_conns + PROBE_SLOTS)
        srv_listen_pause(s->listen, SRV_PAUSE_FULL);
    if (s->options->tls_cert)
        take_over(c);
}

void srv_conn_exhausted(void *srv)
{
    struct srv *s = srv;
    if (give_way(s, NULL) || s->told_exhausted)
        return;
    s->told_exhausted = true;
    srv_log(SRV_LOG_WARN, NULL,
            "no descriptor is left for a new connection: raise the limit of open files");
}

/* ---- libmicrohttpd takes it ---- */

static void take_over(struct srv_conn *c)
{
    struct srv *s = c->srv;
    s->taking = c;
    /* It closes the socket if it fails. */
    if (MHD_add_connection(s->mhd->daemon, c->fd, (struct sockaddr *)&c->addr, c->addr_bytes) ==
        MHD_YES) {
        uv_poll_start(&c->watch, UV_DISCONNECT, on_watch);
    } else if (!c->mhd) {
        s->metrics.refused_connections++;
        srv_conn_close(c);
    }
    s->taking = NULL;
}

void *srv_conn_on_uri(void *srv, const char *uri, struct MHD_Connection *mhd)
{
    struct srv *s = srv;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct srv_conn *c = info ? info->socket_context : NULL;
    struct srv_req *req = c && !c->refused ? calloc(1, sizeof *req) : NULL;
    if (!req)
        return NULL;
    req->uri = strdup(uri);
    if (!req->uri) {
        free(req);
        return NULL;
    }
    req->srv = s;
    req->conn = c;
    req->refs = 1;
    req->begun_ns = tr_clock_ns();
    req->number = srv_new_number(s);
    s->n_requests++;
    if (c->req)
        srv_exchange_leave(c->req, true);
    c->again = true;
    c->req = req;
    srv_conn_restart_timer(c);
    return req;
}

/* ---- waiting for the engine, or the client ---- */

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
    begin_window(c);
    srv_conn_resume(c);
}

void srv_conn_touch(struct srv_conn *c)
{
    c->since = now_of(c);
}
