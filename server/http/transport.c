#include "server/http/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/conn.h"
#include "server/http/exchange.h"
#include "server/http/listen.h"
#include "server/http/pump.h"
#include "server/log.h"
#include "server/server.h"

enum {
    POOL_BYTES = 128 * 1024, /* of one connection: headers, and pieces of bodies and answers */
    SPARE_SLOTS = 128,       /* libmicrohttpd's limit is never the one that is met */
    PROBE_SLOTS = 16,        /* beyond max_connections, for those who ask how it goes */
    DEAD_PEER_MS = 60000,
    PEM_MAX = 1 << 20,
    SEND_BYTES = 128 * 1024 /* the kernel's part of an answer nobody reads; it may double it */
};

static void on_notify(void *cls, struct MHD_Connection *mhd, void **context,
                      enum MHD_ConnectionNotificationCode code)
{
    struct srv_mhd *m = cls;
    struct srv *s = m->srv;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = s->taking;
        if (s->taking)
            srv_conn_taken(s->taking, mhd);
        m->n_conns += *context != NULL;
    } else if (*context) {
        srv_conn_close(*context);
        *context = NULL;
        m->n_conns--;
    }
}

void srv_transport_accept(void *srv, int fd, const struct sockaddr *addr, socklen_t n)
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
    struct srv_conn *c = srv_conn_open(s, fd, addr, n);
    if (!c) {
        close(fd);
        s->metrics.refused_connections++;
        return;
    }
    if (s->n_conns > s->max_conns && !srv_conn_give_way(s, c) &&
        s->n_conns >= s->max_conns + PROBE_SLOTS)
        srv_listen_pause(s->listen, SRV_PAUSE_FULL);
    if (s->options->tls_cert)
        srv_transport_take_over(c);
}

void srv_transport_take_over(struct srv_conn *c)
{
    struct srv *s = c->srv;
    s->taking = c;
    /* It closes the socket if it fails. */
    if (MHD_add_connection(s->mhd->daemon, c->fd, (struct sockaddr *)&c->addr, c->addr_bytes) !=
            MHD_YES &&
        !c->mhd) {
        s->metrics.refused_connections++;
        srv_conn_close(c);
    }
    s->taking = NULL;
}

void srv_transport_exhausted(void *srv)
{
    struct srv *s = srv;
    if (srv_conn_give_way(s, NULL) || s->told_exhausted)
        return;
    s->told_exhausted = true;
    srv_log(SRV_LOG_WARN, NULL,
            "no descriptor is left for a new connection: raise the limit of open files");
}

static void on_prepare(uv_prepare_t *prepare)
{
    srv_pump_run(prepare->data);
}

static void on_mhd_ready(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events; /* as on_mhd_timer */
}

static char *read_file(const char *path)
{
    struct tr_buf b = {0};
    FILE *f = fopen(path, "rbe");
    if (!f)
        return NULL;
    char piece[4096];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0 && b.len < PEM_MAX)
        tr_buf_add(&b, piece, n);
    fclose(f);
    return b.data;
}

/* A missing Host is ours to refuse: 0.9.75 does it with two heads. */
#if MHD_VERSION < 0x00097701
#define STRICTNESS MHD_OPTION_STRICT_FOR_CLIENT, 0
#else
#define STRICTNESS MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1
#endif

static struct MHD_Daemon *start_daemon(struct srv_mhd *m, const char *cert, const char *key)
{
    struct srv *s = m->srv;
    const struct tr_options *o = s->options;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
    static char priorities[] = "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1";
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
                                   {MHD_OPTION_HTTPS_MEM_CERT, 0, NULL},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, NULL},
                                   {MHD_OPTION_END, 0, NULL}};
    tls[1].ptr_value = (void *)(uintptr_t)cert; /* libmicrohttpd only reads it */
    tls[2].ptr_value = (void *)(uintptr_t)key;
    return MHD_start_daemon(
        flags | (cert ? MHD_USE_TLS : 0), 0, NULL, NULL, srv_exchange_on_request, s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(o->max_connections + SPARE_SLOTS), MHD_OPTION_CONNECTION_TIMEOUT, 0U, STRICTNESS,
        MHD_OPTION_URI_LOG_CALLBACK, srv_exchange_on_uri, s, MHD_OPTION_NOTIFY_COMPLETED,
        srv_exchange_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_notify, m, MHD_OPTION_ARRAY,
        cert ? tls : tls + 3, MHD_OPTION_END);
}

int srv_transport_renew(struct srv *s, struct tr_err *err)
{
    const struct tr_options *o = s->options;
    char *cert = o->tls_cert ? read_file(o->tls_cert) : NULL;
    char *key = o->tls_cert ? read_file(o->tls_key) : NULL;
    const union MHD_DaemonInfo *info = NULL;
    struct srv_mhd *m = calloc(1, sizeof *m);
    if (m && !o->tls_cert == !cert && !o->tls_cert == !key) {
        m->srv = s;
        m->poll.data = m;
        m->daemon = start_daemon(m, cert, key);
    }
    free(cert);
    free(key);
    if (m && m->daemon)
        info = MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(&s->loop, &m->poll, info->epoll_fd) < 0) {
        if (m && m->daemon)
            MHD_stop_daemon(m->daemon);
        free(m);
        return tr_err_set(err, TR_ECONFIG, o->tls_cert ? "tls_cert" : NULL, "%s",
                          o->tls_cert ? "tls_cert, tls_key: cannot start HTTPS with these files"
                                      : "libmicrohttpd does not start");
    }
    uv_poll_start(&m->poll, UV_READABLE, on_mhd_ready);
    m->next = s->mhd;
    s->mhd = m;
    return 0;
}

int srv_transport_start(struct srv *s, struct tr_err *err)
{
    int r = srv_transport_renew(s, err);
    if (r < 0)
        return r;
    uv_timer_init(&s->loop, &s->mhd_timer);
    uv_prepare_init(&s->loop, &s->pump);
    s->pump.data = s;
    uv_prepare_start(&s->pump, on_prepare);
    return 0;
}

void srv_transport_stop(struct srv *s)
{
    for (struct srv_conn *next, *c = s->conns; c; c = next) {
        next = c->next;
        if (!c->mhd)
            srv_conn_drop(c);
    }
    uv_close((uv_handle_t *)&s->mhd_timer, NULL);
    uv_close((uv_handle_t *)&s->pump, NULL);
    while (s->mhd) {
        struct srv_mhd *m = s->mhd;
        s->mhd = m->next;
        srv_mhd_stop(m);
    }
}
