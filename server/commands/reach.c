/* One question to a running daemon, over TCP, TLS or a unix socket. */
#include "server/commands/reach.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { TIMEOUT_SECONDS = 5, PIECE = 64 * 1024, MAX_REPLY = 64 << 20 };

/* A socket that gives up after TIMEOUT_SECONDS in whatever it does; -1 with errno. */
static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = TIMEOUT_SECONDS};
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    return fd;
}

static int connect_or_close(int fd, const struct sockaddr *address, socklen_t n)
{
    if (fd < 0 || connect(fd, address, n) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, n);
    return connect_or_close(open_socket(AF_UNIX), (const struct sockaddr *)&address,
                            sizeof address);
}

/* A daemon that listens on every address is asked on the loopback one. */
static const char *reachable(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

static int connect_tcp(const char *host, int port)
{
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *list;
    if (getaddrinfo(reachable(host), service, &want, &list) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_or_close(open_socket(a->ai_family), a->ai_addr, a->ai_addrlen);
    freeaddrinfo(list);
    return fd;
}

/* A way to the daemon: plain where there is no session. */
struct way {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

static ssize_t from_gnutls(ssize_t n)
{
    if (n < 0)
        errno = n == GNUTLS_E_AGAIN ? EAGAIN : EPROTO;
    return n;
}

static ssize_t way_send(struct way *w, const char *bytes, size_t n)
{
    return w->session ? from_gnutls(gnutls_record_send(w->session, bytes, n))
                      : send(w->fd, bytes, n, MSG_NOSIGNAL);
}

static ssize_t way_recv(struct way *w, char *bytes, size_t n)
{
    return w->session ? from_gnutls(gnutls_record_recv(w->session, bytes, n))
                      : recv(w->fd, bytes, n, 0);
}

/* Whose certificate it is does not matter unless a key is sent: then it has to be the one that the
 * options name. */
static int begin_tls(struct way *w, const struct tr_options *o)
{
    unsigned wrong = 0;
    int r = gnutls_certificate_allocate_credentials(&w->credentials);
    if (r == 0 && o->api_key.n)
        r = TR_MIN(gnutls_certificate_set_x509_trust_file(w->credentials, o->tls_cert,
                                                          GNUTLS_X509_FMT_PEM),
                   0);
    if (r == 0)
        r = gnutls_init(&w->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    if (r == 0)
        r = gnutls_set_default_priority(w->session);
    if (r == 0)
        r = gnutls_credentials_set(w->session, GNUTLS_CRD_CERTIFICATE, w->credentials);
    if (r == 0) {
        gnutls_transport_set_int(w->session, w->fd);
        do
            r = gnutls_handshake(w->session);
        while (r < 0 && r != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(r));
    }
    if (r == 0 && o->api_key.n)
        r = gnutls_certificate_verify_peers2(w->session, &wrong);
    if (r < 0)
        return (int)from_gnutls(r);
    errno = EACCES;
    return wrong ? -1 : 0;
}

static void end_way(struct way *w)
{
    if (w->session)
        gnutls_deinit(w->session);
    if (w->credentials)
        gnutls_certificate_free_credentials(w->credentials);
    if (w->fd >= 0)
        close(w->fd);
}

static bool has_status(const struct tr_buf *in)
{
    return in->len && memchr(in->data, '\n', in->len);
}

/* Sends the question and reads the reply to its end, or its first line alone: the status code, or
 * -1 with errno. */
static int ask(struct way *w, const struct tr_buf *question, bool whole, struct tr_buf *in)
{
    if (way_send(w, question->data, question->len) != (ssize_t)question->len)
        return -1;
    ssize_t got = 1;
    while (got && (whole || !has_status(in))) {
        char *at = in->len < MAX_REPLY ? tr_buf_reserve(in, PIECE + 1) : NULL;
        if (!at)
            errno = ENOMEM;
        got = at ? way_recv(w, at, PIECE) : -1;
        if (got < 0)
            return -1;
        in->len += (size_t)got;
        in->data[in->len] = '\0';
    }
    int status;
    if (in->len && sscanf(in->data, "HTTP/1.%*1d %3d", &status) == 1)
        return status;
    errno = EPROTO;
    return -1;
}

/* Leaves the body alone; a reply that is cut in its head has none. */
static void keep_body(struct tr_buf *in)
{
    const char *end = in->len ? strstr(in->data, "\r\n\r\n") : NULL;
    tr_buf_drop(in, end ? (size_t)(end + 4 - in->data) : in->len);
}

const char *srv_reach_name(const struct tr_options *o, char text[256])
{
    if (o->unix_socket)
        snprintf(text, 256, "%s", o->unix_socket);
    else
        snprintf(text, 256, "%s port %d", o->host, o->port);
    return text;
}

int srv_reach(const struct tr_options *o, const char *path, struct tr_buf *ret, struct tr_err *err)
{
    char where[256];
    srv_reach_name(o, where);
    if (!o->unix_socket && o->port == 0)
        return tr_err_set(err, TR_ECONFIG, "port",
                          "%s: a port that the system chose is not known here: name it", where);
    struct tr_buf question = {0}, in = {0};
    tr_buf_addf(&question, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", path);
    if (o->api_key.n)
        tr_buf_addf(&question, "Authorization: Bearer %s\r\n", o->api_key.items[0]);
    tr_buf_adds(&question, "\r\n");
    struct way w = {.fd = -1};
    int status = -1;
    errno = ENOMEM;
    if (!question.oom) {
        w.fd = o->unix_socket ? connect_unix(o->unix_socket) : connect_tcp(o->host, o->port);
        if (w.fd >= 0 && (!o->tls_cert || begin_tls(&w, o) == 0))
            status = ask(&w, &question, ret != NULL, &in);
    }
    if (status < 0)
        tr_err_set(err, TR_EIO, NULL, "%s: %s", where, strerror(errno));
    end_way(&w);
    tr_buf_done(&question);
    if (ret && status >= 0) {
        keep_body(&in);
        *ret = in;
    } else {
        tr_buf_done(&in);
    }
    return status < 0 ? TR_EIO : status;
}
