/* `trinityd health`: asks the daemon that the same options describe. Containers run it as their
 * health check, so that no HTTP client has to stand in the image. */
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

#include "server/commands/commands.h"

enum { TIMEOUT_SECONDS = 5 };

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "trinityd: %s: %s\n", what, why);
    return 1;
}

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

static const char request[] =
    "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

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

/* Whose certificate it is does not matter: who answers here is asked for nothing secret. */
static int begin_tls(struct way *w)
{
    int r = gnutls_certificate_allocate_credentials(&w->credentials);
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
    return r < 0 ? (int)from_gnutls(r) : 0;
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

/* Sends the question and reads the status line: the status code, or -1 with errno. */
static int ask(struct way *w)
{
    char line[64] = {0};
    size_t n = 0;
    if (way_send(w, request, sizeof request - 1) != (ssize_t)sizeof request - 1)
        return -1;
    while (n < sizeof line - 1 && !memchr(line, '\n', n)) {
        ssize_t got = way_recv(w, line + n, sizeof line - 1 - n);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    int status;
    if (sscanf(line, "HTTP/1.%*1d %3d", &status) == 1)
        return status;
    errno = EPROTO;
    return -1;
}

int srv_health_check(const struct tr_options *o)
{
    char where[256];
    if (o->unix_socket)
        snprintf(where, sizeof where, "%s", o->unix_socket);
    else
        snprintf(where, sizeof where, "%s port %d", o->host, o->port);
    if (!o->unix_socket && o->port == 0)
        return fail(where, "a port that the system chose is not known here: name it");
    struct way w = {.fd = o->unix_socket ? connect_unix(o->unix_socket)
                                         : connect_tcp(o->host, o->port)};
    int status = w.fd < 0 || (o->tls_cert && begin_tls(&w) < 0) ? -1 : ask(&w);
    const char *why = status < 0 ? strerror(errno) : NULL;
    end_way(&w);
    if (why)
        return fail(where, why);
    if (status == 200)
        return 0;
    char text[32];
    snprintf(text, sizeof text, "not ready (status %d)", status);
    return fail(where, text);
}
