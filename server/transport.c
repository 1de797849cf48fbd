#include "server/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/conn.h"
#include "server/server.h"

#define POOL_BYTES   (64 * 1024) /* of one connection: headers, and pieces of bodies and answers */
#define SPARE_SLOTS  64          /* libmicrohttpd's limit is never the one that is met */
#define PUMP_TURNS   32
#define DEAD_PEER_MS 60000
#define PEM_MAX      (1 << 20)
#define SEND_BYTES   (128 * 1024) /* the kernel's part of an answer nobody reads; it may double it */

static void on_notify(void *cls, struct MHD_Connection *mhd, void **context,
                      enum MHD_ConnectionNotificationCode code)
{
    struct srv *s = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info ? srv_conn_open(s, mhd, info->connect_fd) : NULL;
        if (s->n_conns >= s->options->max_connections)
            srv_listen_pause(&s->listen, true);
    } else if (*context) {
        srv_conn_close(*context);
        *context = NULL;
        if (s->n_conns < s->options->max_connections)
            srv_listen_pause(&s->listen, false);
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
    if (MHD_add_connection(s->mhd, fd, addr, n) != MHD_YES)
        s->metrics.refused_connections++;
}

static void on_mhd_timer(uv_timer_t *timer)
{
    (void)timer; /* only wakes the loop: the pump runs before it sleeps */
}

void srv_transport_pump(struct srv *s)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    enum MHD_Result wanted = MHD_YES;
    for (int i = 0; i < PUMP_TURNS && wanted == MHD_YES && ms == 0; i++) {
        MHD_run(s->mhd);
        wanted = MHD_get_timeout(s->mhd, &ms);
    }
    if (wanted == MHD_YES)
        uv_timer_start(&s->mhd_timer, on_mhd_timer, ms, 0);
    else
        uv_timer_stop(&s->mhd_timer);
}

static void on_prepare(uv_prepare_t *prepare)
{
    srv_transport_pump(prepare->data);
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

static int start_mhd(struct srv *s, struct tr_err *err)
{
    const struct tr_options *o = s->options;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    char *cert = NULL, *key = NULL;
    if (o->tls_cert) {
        cert = read_file(o->tls_cert);
        key = o->tls_key ? read_file(o->tls_key) : NULL;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key};
        flags |= MHD_USE_TLS;
    }
    if (!o->tls_cert || (cert && key))
        s->mhd = MHD_start_daemon(
            flags, 0, NULL, NULL, srv_http_on_request, s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)(o->max_connections + SPARE_SLOTS), MHD_OPTION_CONNECTION_TIMEOUT, 0U,
            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, srv_http_on_uri, s,
            MHD_OPTION_NOTIFY_COMPLETED, srv_http_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
            on_notify, s, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    free(cert);
    free(key);
    if (!s->mhd)
        return tr_err_set(err, TR_ECONFIG, o->tls_cert ? "tls_cert" : NULL, "%s",
                          o->tls_cert ? "tls_cert, tls_key: cannot start HTTPS with these files"
                                      : "libmicrohttpd does not start");
    return 0;
}

int srv_transport_start(struct srv *s, struct tr_err *err)
{
    int r = start_mhd(s, err);
    if (r < 0)
        return r;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(&s->loop, &s->mhd_poll, info->epoll_fd) < 0) {
        MHD_stop_daemon(s->mhd);
        s->mhd = NULL;
        return tr_err_set(err, TR_EINTERNAL, NULL, "libmicrohttpd has no epoll descriptor");
    }
    uv_poll_start(&s->mhd_poll, UV_READABLE, on_mhd_ready);
    uv_timer_init(&s->loop, &s->mhd_timer);
    uv_prepare_init(&s->loop, &s->pump);
    s->pump.data = s;
    uv_prepare_start(&s->pump, on_prepare);
    return 0;
}

void srv_transport_stop(struct srv *s)
{
    if (!s->mhd)
        return;
    uv_close((uv_handle_t *)&s->mhd_poll, NULL);
    uv_close((uv_handle_t *)&s->mhd_timer, NULL);
    uv_close((uv_handle_t *)&s->pump, NULL);
    MHD_stop_daemon(s->mhd);
    s->mhd = NULL;
}
