#include "server/spans.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "config/clock.h"
#include "config/json.h"
#include "config/thread.h"
#include "server/log.h"

enum {
    QUEUE = 512,     /* calls' worth of spans that wait */
    AT_ONCE = 64,    /* of them in a post */
    GATHER_MS = 200, /* after the first, for others to join it */
    POST_MS = 5000,  /* the time a post may take */
    LAST_MS = 1000,  /* .. at the end, all of them */
    SLICE_MS = 50,   /* how often a wait looks whether it is the end */
    HOST_BYTES = 256
};
#define MS_NS INT64_C(1000000)

struct spans_item {
    struct tr_buf objects;
    int n;
};

struct srv_spans {
    char host[HOST_BYTES + 8]; /* with the port, as the Host header has it */
    const char *path;          /* borrowed from the options of the start */
    struct sockaddr_storage address;
    socklen_t address_bytes;
    pthread_t thread;
    bool started, failing; /* failing: the last post did, and it was logged */
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t more;
    struct spans_item queue[QUEUE];
    int first, n;
    struct srv_spans_counts counts;
    bool ending;
    int64_t end_ns; /* when ending: nothing is sent later */
};

/* ---- where to ---- */

struct target {
    char name[HOST_BYTES], port[8];
    const char *path;
};

static int read_target(struct target *ret, const char *url, struct tr_err *err)
{
    static const char scheme[] = "http://";
    const char *host = url + sizeof scheme - 1;
    bool ok = strncasecmp(url, scheme, sizeof scheme - 1) == 0;
    size_t n = ok ? strcspn(host, "/?#") : 0;
    const char *port = ok ? memrchr(host, ':', n) : NULL;
    const char *bracket = ok ? memchr(host, ']', n) : NULL;
    if (port && bracket && port < bracket)
        port = NULL;
    size_t name = port ? (size_t)(port - host) : n;
    size_t digits = port ? n - name - 1 : 0;
    if (ok && port)
        ok = digits > 0 && digits < 6 && strspn(port + 1, "0123456789") == digits &&
             strtol(port + 1, NULL, 10) > 0 && strtol(port + 1, NULL, 10) < 65536;
    if (!ok || name == 0 || name >= HOST_BYTES || memchr(host, '@', n) ||
        url[strcspn(url, " \t\r\n")] || host[n] == '?' || host[n] == '#')
        return tr_err_set(err, TR_ECONFIG, "otlp_endpoint",
                          "otlp_endpoint: expected http://HOST:PORT/v1/traces, not %.200s", url);
    bool bare = *host != '[' || host[name - 1] != ']';
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)(bare ? name : name - 2),
             bare ? host : host + 1);
    snprintf(ret->port, sizeof ret->port, "%.*s", port ? (int)digits : 2, port ? port + 1 : "80");
    ret->path = host[n] ? host + n : "/v1/traces";
    return 0;
}

int srv_spans_port(const struct tr_options *o, int *ret, struct tr_err *err)
{
    struct target t;
    *ret = 0;
    if (!o->otlp_endpoint)
        return 0;
    int r = read_target(&t, o->otlp_endpoint, err);
    if (r == 0)
        *ret = (int)strtol(t.port, NULL, 10);
    return r;
}

int srv_spans_open(struct srv_spans **ret, const struct tr_options *o, struct tr_err *err)
{
    struct target t;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    *ret = NULL;
    if (!o->otlp_endpoint)
        return 0;
    int r = read_target(&t, o->otlp_endpoint, err);
    if (r < 0)
        return r;
    int e = getaddrinfo(t.name, t.port, &hints, &found);
    if (e != 0)
        return tr_err_set(err, TR_ECONFIG, "otlp_endpoint", "otlp_endpoint: %s: %s", t.name,
                          gai_strerror(e));
    struct srv_spans *s = calloc(1, sizeof *s);
    if (s) {
        bool v6 = strchr(t.name, ':') != NULL;
        snprintf(s->host, sizeof s->host, "%s%.250s%s:%s", v6 ? "[" : "", t.name, v6 ? "]" : "",
                 t.port);
        s->path = t.path;
        memcpy(&s->address, found->ai_addr, found->ai_addrlen);
        s->address_bytes = found->ai_addrlen;
        pthread_mutex_init(&s->mutex, NULL);
        pthread_cond_init(&s->more, NULL);
    }
    freeaddrinfo(found);
    *ret = s;
    return s ? 0 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
}

/* ---- one post ---- */

struct post {
    struct srv_spans *spans;
    int fd;
    int64_t until_ns;
};

static bool time_is_up(const struct post *p)
{
    pthread_mutex_lock(&p->spans->mutex);
    int64_t until = p->spans->ending ? TR_MIN(p->until_ns, p->spans->end_ns) : p->until_ns;
    pthread_mutex_unlock(&p->spans->mutex);
    return tr_clock_ns() >= until;
}

static bool wait_for(const struct post *p, short what)
{
    struct pollfd fd = {.fd = p->fd, .events = what};
    while (!time_is_up(p))
        if (poll(&fd, 1, SLICE_MS) > 0)
            return true;
    errno = ETIMEDOUT;
    return false;
}

static bool reach(const struct post *p)
{
    const struct srv_spans *s = p->spans;
    int e = 0;
    socklen_t n = sizeof e;
    if (connect(p->fd, (const struct sockaddr *)&s->address, s->address_bytes) == 0)
        return true;
    if (errno != EINPROGRESS || !wait_for(p, POLLOUT) ||
        getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0)
        return false;
    errno = e;
    return e == 0;
}

static bool send_all(const struct post *p, const struct tr_buf *b)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = send(p->fd, b->data + at, b->len - at, MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        else if ((errno != EAGAIN && errno != EINTR) || !wait_for(p, POLLOUT))
            return false;
    }
    return true;
}

/* The status of the answer; 0: none came, errno says why. */
static int read_status(const struct post *p)
{
    char head[64];
    size_t n = 0;
    while (n < sizeof head - 1) {
        ssize_t got = recv(p->fd, head + n, sizeof head - 1 - n, 0);
        if (got > 0)
            n += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(p, POLLIN))
            break;
        head[n] = '\0';
        if (strchr(head, '\n'))
            break;
    }
    head[n] = '\0';
    if (n > 0 || errno == 0)
        errno = EPROTO;
    return strncmp(head, "HTTP/1.", 7) == 0 && n > 12 ? (int)strtol(head + 9, NULL, 10) : 0;
}

/* 0, or a status that is none of success, or -errno. */
static int post(struct srv_spans *s, const struct tr_buf *spans)
{
    static const char before[] =
        "{\"resourceSpans\": [{\"resource\": {\"attributes\": ["
        "{\"key\": \"service.name\", \"value\": {\"stringValue\": \"trinityd\"}}, "
        "{\"key\": \"service.version\", \"value\": {\"stringValue\": \"" TR_VERSION "\"}}]}, "
        "\"scopeSpans\": [{\"scope\": {\"name\": \"trinityd\"}, \"spans\": [";
    static const char after[] = "]}]}]}";
    struct tr_buf out = {0};
    struct post p = {.spans = s, .until_ns = tr_clock_ns() + POST_MS * MS_NS};
    tr_buf_addf(&out,
                "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                "User-Agent: trinityd/" TR_VERSION "\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n",
                s->path, s->host, sizeof before - 1 + spans->len + sizeof after - 1);
    tr_buf_adds(&out, before);
    tr_buf_add(&out, spans->data, spans->len);
    tr_buf_adds(&out, after);
    p.fd = socket(s->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int status = 0;
    bool ok = !out.oom && p.fd >= 0 && reach(&p) && send_all(&p, &out);
    if (ok)
        status = read_status(&p);
    int e = errno ? errno : EIO;
    if (p.fd >= 0)
        close(p.fd);
    tr_buf_done(&out);
    return status >= 200 && status < 300 ? 0 : status ? status : -e;
}

/* ---- the thread ---- */

/* Under the mutex: the spans of some calls; how many there are. */
static int take(struct srv_spans *s, struct tr_buf *ret)
{
    int spans = 0;
    for (int i = 0; i < AT_ONCE && s->n > 0; i++, s->n--) {
        struct spans_item *e = &s->queue[s->first];
        tr_buf_adds(ret, ret->len ? ", " : "");
        tr_buf_add(ret, e->objects.data, e->objects.len);
        tr_buf_done(&e->objects);
        spans += e->n;
        s->first = (s->first + 1) % QUEUE;
    }
    return spans;
}

static void wait_a_little(struct srv_spans *s)
{
    for (int ms = 0; ms < GATHER_MS; ms += SLICE_MS) {
        pthread_mutex_lock(&s->mutex);
        bool go = s->ending || s->n >= AT_ONCE;
        pthread_mutex_unlock(&s->mutex);
        if (go)
            return;
        poll(NULL, 0, SLICE_MS);
    }
}

static void tell(struct srv_spans *s, int failed)
{
    if (failed && !s->failing)
        srv_log(SRV_LOG_WARN, NULL, "spans are dropped: http://%s%s: %s %d", s->host, s->path,
                failed < 0 ? strerror(-failed) : "status", failed < 0 ? -failed : failed);
    else if (!failed && s->failing)
        srv_log(SRV_LOG_INFO, NULL, "spans are taken again: http://%s%s", s->host, s->path);
    s->failing = failed != 0;
}

static void *send_spans(void *arg)
{
    struct srv_spans *s = arg;
    struct tr_buf spans = {0};
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (s->n == 0 && !s->ending)
            pthread_cond_wait(&s->more, &s->mutex);
        if (s->n == 0 || (s->ending && tr_clock_ns() >= s->end_ns))
            break;
        pthread_mutex_unlock(&s->mutex);
        wait_a_little(s);
        pthread_mutex_lock(&s->mutex);
        tr_buf_clear(&spans);
        int n = take(s, &spans);
        pthread_mutex_unlock(&s->mutex);
        int failed = spans.oom ? -ENOMEM : post(s, &spans);
        tell(s, failed);
        pthread_mutex_lock(&s->mutex);
        *(failed ? &s->counts.dropped : &s->counts.sent) += (uint64_t)n;
    }
    pthread_mutex_unlock(&s->mutex);
    tr_buf_done(&spans);
    return NULL;
}

int srv_spans_start(struct srv_spans *s, struct tr_err *err)
{
    if (tr_thread_start(&s->thread, "spans", send_spans, s) != 0)
        return tr_err_set(err, TR_ENOMEM, NULL, "cannot start a thread");
    s->started = true;
    return 0;
}

void srv_spans_put(struct srv_spans *s, struct tr_buf *objects, int n)
{
    pthread_mutex_lock(&s->mutex);
    bool room = s->n < QUEUE && !objects->oom;
    if (room) {
        s->queue[(s->first + s->n++) % QUEUE] = (struct spans_item){*objects, n};
        pthread_cond_signal(&s->more);
    } else {
        s->counts.dropped += (uint64_t)n;
    }
    pthread_mutex_unlock(&s->mutex);
    if (room)
        *objects = (struct tr_buf){0};
    tr_buf_done(objects);
}

struct srv_spans_counts srv_spans_counts(struct srv_spans *s)
{
    struct srv_spans_counts c = {0};
    if (s) {
        pthread_mutex_lock(&s->mutex);
        c = s->counts;
        pthread_mutex_unlock(&s->mutex);
    }
    return c;
}

void srv_spans_close(struct srv_spans *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->mutex);
    s->ending = true;
    s->end_ns = tr_clock_ns() + LAST_MS * MS_NS;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->mutex);
    if (s->started)
        pthread_join(s->thread, NULL);
    for (; s->n > 0; s->n--, s->first = (s->first + 1) % QUEUE)
        tr_buf_done(&s->queue[s->first].objects);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->more);
    free(s);
}
