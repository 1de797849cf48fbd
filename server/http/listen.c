#include "server/http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    ACCEPTS_A_TURN = 64, /* so that a flood of connections does not starve the streams */
    RETRY_MS = 100,      /* out of descriptors: look again */
    FIRST_PASSED_FD = 3  /* systemd's protocol */
};

static int add_socket(struct srv_listen *l, int fd)
{
    if (l->n == SRV_MAX_SOCKETS)
        return TR_ECONFIG;
    l->sockets[l->n++] = (struct srv_socket){.owner = l, .fd = fd};
    return 0;
}

static void set_url(struct srv_listen *l, const struct tr_options *options, int fd)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof addr;
    int port = options->port;
    if (getsockname(fd, (struct sockaddr *)&addr, &n) == 0) {
        if (addr.ss_family == AF_INET)
            port = ntohs(((struct sockaddr_in *)&addr)->sin_port);
        else if (addr.ss_family == AF_INET6)
            port = ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
    }
    l->port = port;
    if (addr.ss_family == AF_UNIX) {
        snprintf(l->url, sizeof l->url, "unix:%.*s",
                 (int)(n - offsetof(struct sockaddr_un, sun_path)),
                 ((struct sockaddr_un *)&addr)->sun_path);
        return;
    }
    bool v6 = strchr(options->host, ':') != NULL;
    snprintf(l->url, sizeof l->url, "%s://%s%s%s:%d", options->tls_cert ? "https" : "http",
             v6 ? "[" : "", options->host, v6 ? "]" : "", port);
}

static int refuse(const struct tr_options *options, int e, struct tr_err *err)
{
    return tr_err_set(err, TR_EIO, "port", "cannot listen on %s port %d: %s%s", options->host,
                      options->port, strerror(e),
                      e == EADDRINUSE ? "; choose another with --port" : "");
}

/* The descriptor, or -1 with errno. */
static int bind_address(const struct addrinfo *a, int port)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0)
        return -1;
    memcpy(&addr, a->ai_addr, a->ai_addrlen);
    if (addr.ss_family == AF_INET)
        ((struct sockaddr_in *)&addr)->sin_port = htons((uint16_t)port);
    else if (addr.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&addr)->sin6_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* Each address of a name has a socket of its own, the wildcard serves both families. */
    if (addr.ss_family == AF_INET6 && a->ai_next)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&addr, a->ai_addrlen) < 0) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}

static int bind_tcp(struct srv_listen *l, const struct tr_options *options, struct tr_err *err)
{
    char port[16];
    snprintf(port, sizeof port, "%d", options->port);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int r = getaddrinfo(options->host, port, &hints, &found);
    if (r)
        return tr_err_set(err, TR_ECONFIG, "host", "host: %s: %s", options->host, gai_strerror(r));
    int bound = 0;
    for (const struct addrinfo *a = found; a && r == 0; a = a->ai_next) {
        int fd = bind_address(a, options->port ? options->port : l->port);
        if (fd >= 0 && add_socket(l, fd) == 0) {
            bound++;
            if (bound == 1)
                set_url(l, options, fd);
        } else {
            int e = errno;
            if (fd >= 0)
                close(fd);
            /* A name may have addresses of a family that this machine does not have. */
            if (e != EADDRNOTAVAIL && e != EAFNOSUPPORT)
                r = refuse(options, e, err);
        }
    }
    if (r == 0 && bound == 0)
        r = refuse(options, EADDRNOTAVAIL, err);
    freeaddrinfo(found);
    return r;
}

static bool is_answered(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool yes = fd >= 0 && (connect(fd, (const struct sockaddr *)addr, sizeof *addr) == 0 ||
                           errno == EAGAIN); /* its backlog is full */
    if (fd >= 0)
        close(fd);
    return yes;
}

static int bind_unix(struct srv_listen *l, const char *path, struct tr_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof addr.sun_path)
        return tr_err_set(err, TR_ECONFIG, "unix_socket", "unix_socket: the path is too long");
    memcpy(addr.sun_path, path, strlen(path) + 1);
    /* A socket left behind by a daemon that was killed stands in the way; anything else is not
     * ours. */
    struct stat st;
    if (is_answered(&addr))
        return tr_err_set(err, TR_EIO, "unix_socket", "unix_socket: %s: another program listens",
                          path);
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || add_socket(l, fd) < 0) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return tr_err_set(err, TR_EIO, "unix_socket", "unix_socket: %s: %s", path, strerror(e));
    }
    l->unix_path = path;
    if (lstat(path, &st) == 0)
        l->unix_inode = st.st_ino;
    return 0;
}

/* Sockets from systemd, already bound and listening. */
static int passed_sockets(struct srv_listen *l)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    if (!pid || !fds || strtol(pid, NULL, 10) != getpid())
        return 0;
    long n = strtol(fds, NULL, 10);
    for (long i = 0; i < n && i < SRV_MAX_SOCKETS; i++) {
        int fd = FIRST_PASSED_FD + (int)i;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        if (add_socket(l, fd) < 0)
            break;
    }
    return l->n;
}

static bool is_loopback(int fd)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof addr;
    if (getsockname(fd, (struct sockaddr *)&addr, &n) < 0)
        return false;
    const struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;
    const struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&addr;
    if (addr.ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (addr.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    return addr.ss_family == AF_UNIX;
}

int srv_listen_bind(struct srv_listen *l, const struct tr_options *options, struct tr_err *err)
{
    *l = (struct srv_listen){0};
    int r = 0;
    l->passed = passed_sockets(l) > 0;
    if (l->passed)
        set_url(l, options, l->sockets[0].fd);
    else
        r = bind_tcp(l, options, err);
    l->loopback = true;
    for (int i = 0; i < l->n; i++)
        l->loopback = l->loopback && is_loopback(l->sockets[i].fd);
    if (r == 0 && options->unix_socket)
        r = bind_unix(l, options->unix_socket, err);
    if (r < 0)
        srv_listen_stop(l);
    return r;
}

static void retry_accept(uv_timer_t *timer)
{
    srv_listen_resume(timer->data, SRV_PAUSE_RETRY);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct srv_socket *s = poll->data;
    struct srv_listen *l = s->owner;
    for (int i = 0; i < ACCEPTS_A_TURN && uv_is_active((uv_handle_t *)poll); i++) {
        struct sockaddr_storage addr;
        socklen_t n = sizeof addr;
        int fd = accept4(s->fd, (struct sockaddr *)&addr, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            l->on_accept(l->arg, fd, (struct sockaddr *)&addr, n);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            l->on_exhausted(l->arg);
            srv_listen_pause(l, SRV_PAUSE_RETRY);
            uv_timer_start(&l->retry, retry_accept, RETRY_MS, 0);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

static void set_polls(struct srv_listen *l)
{
    for (int i = 0; i < l->n; i++) {
        struct srv_socket *s = &l->sockets[i];
        if (!s->polling || uv_is_closing((uv_handle_t *)&s->poll))
            continue;
        if (l->paused)
            uv_poll_stop(&s->poll);
        else
            uv_poll_start(&s->poll, UV_READABLE, on_connection);
    }
}

int srv_listen_start(struct srv_listen *l, uv_loop_t *loop, srv_accept_fn on_accept,
                     srv_exhausted_fn on_exhausted, void *arg, struct tr_err *err)
{
    l->on_accept = on_accept;
    l->on_exhausted = on_exhausted;
    l->arg = arg;
    uv_timer_init(loop, &l->retry);
    l->retry.data = l;
    l->started = true;
    for (int i = 0; i < l->n; i++) {
        struct srv_socket *s = &l->sockets[i];
        if (listen(s->fd, BACKLOG) < 0)
            return tr_err_set(err, TR_EIO, "port", "cannot listen: %s", strerror(errno));
        int r = uv_poll_init(loop, &s->poll, s->fd);
        if (r < 0)
            return tr_err_set(err, TR_EIO, "port", "cannot listen: %s", uv_strerror(r));
        s->poll.data = s;
        s->polling = true;
    }
    set_polls(l);
    return 0;
}

void srv_listen_pause(struct srv_listen *l, enum srv_pause why)
{
    l->paused |= why;
    set_polls(l);
}

void srv_listen_resume(struct srv_listen *l, enum srv_pause why)
{
    if (!(l->paused & why))
        return;
    l->paused &= ~(unsigned)why;
    set_polls(l);
}

void srv_listen_stop(struct srv_listen *l)
{
    for (int i = 0; i < l->n; i++) {
        struct srv_socket *s = &l->sockets[i];
        if (s->polling)
            uv_close((uv_handle_t *)&s->poll, NULL);
        close(s->fd);
    }
    l->n = 0;
    if (l->started)
        uv_close((uv_handle_t *)&l->retry, NULL);
    l->started = false;
    struct stat st;
    if (l->unix_path && lstat(l->unix_path, &st) == 0 && st.st_ino == l->unix_inode)
        unlink(l->unix_path); /* unless it has become somebody else's */
    l->unix_path = NULL;
}
