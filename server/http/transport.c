#include "server/http/transport.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/http/conn.h"
#include "server/http/exchange.h"
#include "server/server.h"

enum {
    POOL_BYTES = 128 * 1024, /* of one connection: headers, and pieces of bodies and answers */
    SPARE_SLOTS = 128,       /* libmicrohttpd's limit is never the one that is met */
    PEM_MAX = 1 << 20,
    TURNS = 32 /* of libmicrohttpd, in one of the loop */
};

/* ---- running ---- */

static void on_notify(void *cls, struct MHD_Connection *mhd, void **context,
                      enum MHD_ConnectionNotificationCode code)
{
    struct srv_mhd *m = cls;
    struct srv_conn *c = code == MHD_CONNECTION_NOTIFY_STARTED ? m->srv->taking : *context;
    *context = NULL;
    if (c && code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = c;
        m->n_conns++;
        c->mhd = mhd;
        c->tls = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION) != NULL;
    } else if (c) {
        srv_conn_close(c);
        m->n_conns--;
    }
}

static void on_mhd_timer(uv_timer_t *timer)
{
    (void)timer; /* only wakes the loop: libmicrohttpd runs before it sleeps */
}

static void free_poll(uv_handle_t *handle)
{
    free(handle->data);
}

static void stop_daemon(struct srv_mhd *m)
{
    uv_close((uv_handle_t *)&m->poll, free_poll);
    MHD_stop_daemon(m->daemon);
}

/* Milliseconds until it wants to run again, UINT64_MAX = when its epoll says so. */
static uint64_t run_mhd(struct srv_mhd *m)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    for (int i = 0; i < TURNS && ms == 0; i++) {
        MHD_run(m->daemon);
        if (MHD_get_timeout(m->daemon, &ms) != MHD_YES)
            return UINT64_MAX;
    }
    return ms;
}

void srv_transport_run(struct srv *s)
{
    uint64_t ms = UINT64_MAX;
    for (struct srv_mhd **at = &s->mhd; *at;) {
        struct srv_mhd *m = *at;
        ms = TR_MIN(ms, run_mhd(m));
        if (m == s->mhd || m->n_conns > 0) {
            at = &m->next;
        } else {
            *at = m->next;
            stop_daemon(m);
        }
    }
    if (ms < UINT64_MAX)
        uv_timer_start(&s->mhd_timer, on_mhd_timer, ms, 0);
    else
        uv_timer_stop(&s->mhd_timer);
}

static void on_prepare(uv_prepare_t *prepare)
{
    srv_transport_run(prepare->data);
}

static void on_mhd_ready(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events; /* as on_mhd_timer */
}

/* ---- starting and stopping ---- */

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
#if MHD_VERSION < 0x00097707
#define STRICTNESS MHD_OPTION_STRICT_FOR_CLIENT, 0
enum { LONE_THREAD = 0 };
#else
#define STRICTNESS MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1
enum { LONE_THREAD = MHD_USE_NO_THREAD_SAFETY }; /* connections are taken over at once */
#endif

static struct MHD_Daemon *start_daemon(struct srv_mhd *m, const char *cert, const char *key)
{
    struct srv *s = m->srv;
    const struct tr_options *o = s->options;
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | LONE_THREAD;
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
        MHD_OPTION_URI_LOG_CALLBACK, srv_conn_on_uri, s, MHD_OPTION_NOTIFY_COMPLETED,
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
    TR_LIST_EACH_SAFE(struct srv_conn, c, &s->conns)
        if (!c->mhd)
            srv_conn_drop(c);
    uv_close((uv_handle_t *)&s->mhd_timer, NULL);
    uv_close((uv_handle_t *)&s->pump, NULL);
    while (s->mhd) {
        struct srv_mhd *m = s->mhd;
        s->mhd = m->next;
        stop_daemon(m);
    }
}
