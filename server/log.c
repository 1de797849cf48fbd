#include "server/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "config/buf.h"
#include "config/json.h"
#include "engine/text/unicode.h"

enum {
    RING_BYTES = 1 << 18, /* what may wait for a reader that is slow */
    WRITE_BYTES = 4096,   /* a pipe that is writable takes so much (PIPE_BUF) */
    WAIT_MS = 200         /* how often the writer looks whether it is to end */
};

static const char *const level_names[] = {
    [SRV_LOG_ERROR] = "error",
    [SRV_LOG_WARN] = "warn",
    [SRV_LOG_INFO] = "info",
    [SRV_LOG_DEBUG] = "debug",
};

/* A process has one standard error and so one log. */
static _Atomic int max_level = SRV_LOG_INFO;
static _Atomic bool as_json;
static _Atomic uint64_t n_dropped;

/* Lines that wait for the writer's thread, whole: a ring of bytes. */
static struct {
    uv_mutex_t mutex;
    uv_cond_t more; /* there is something to write, or to end */
    uv_cond_t idle; /* all is written */
    uv_thread_t writer;
    char bytes[RING_BYTES];
    size_t first, n;     /* the bytes that wait; those of the writer's turn included */
    uint64_t unreported; /* lines dropped since the writer last said so */
    bool ending;
} ring;
static _Atomic bool ring_runs;

void srv_log_setup(enum srv_log_level level, bool json)
{
    max_level = (int)level;
    as_json = json;
}

uint64_t srv_log_dropped(void)
{
    return n_dropped;
}

static void add_time(struct tr_buf *line)
{
    struct timespec now;
    struct tm utc;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    tr_buf_addf(line, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static void add_json(struct tr_buf *line, enum srv_log_level level, const char *request,
                     const char *text, const struct tr_buf *fields)
{
    tr_buf_adds(line, "{\"time\": \"");
    add_time(line);
    tr_buf_addf(line, "\", \"level\": \"%s\"", level_names[level]);
    if (request) {
        tr_buf_adds(line, ", \"request\": ");
        tr_json_quote(line, request, strlen(request));
    }
    tr_buf_adds(line, ", \"message\": ");
    tr_json_quote(line, text, strlen(text));
    if (fields)
        tr_buf_add(line, fields->data, fields->len);
    tr_buf_addc(line, '}');
}

/* What a terminal takes for more than a character: control characters of one byte and of two, and
 * what is no UTF-8. */
static bool is_plain(const char *s, size_t n, size_t *ret_n)
{
    uint32_t c;
    int k = tr_utf8_scan(s, n, &c);
    *ret_n = k > 0 ? (size_t)k : 1;
    return k > 0 && c >= 0x20 && !(c >= 0x7f && c < 0xa0) && c != 0x2028 && c != 0x2029;
}

static void add_plain(struct tr_buf *line, const char *s)
{
    size_t n = strlen(s), k;
    for (size_t i = 0; i < n; i += k) {
        if (is_plain(s + i, n - i, &k))
            tr_buf_add(line, s + i, k);
        else
            tr_buf_addc(line, '?');
    }
}

static void add_text(struct tr_buf *line, enum srv_log_level level, const char *request,
                     const char *text, const struct tr_buf *fields)
{
    add_time(line);
    tr_buf_addf(line, " %-5s ", level_names[level]);
    if (request) {
        tr_buf_addc(line, '[');
        add_plain(line, request);
        tr_buf_adds(line, "] ");
    }
    add_plain(line, text);
    if (fields && fields->len > 0)
        add_plain(line, fields->data);
}

static void make_line(struct tr_buf *line, enum srv_log_level level, const char *request,
                      const char *text, const struct tr_buf *fields)
{
    if (as_json)
        add_json(line, level, request, text, fields);
    else
        add_text(line, level, request, text, fields);
    tr_buf_addc(line, '\n');
}

/* One write a line: lines of other processes on the same terminal or pipe don't cut in. */
static void write_now(const char *bytes, size_t n)
{
    ssize_t written = write(STDERR_FILENO, bytes, n);
    (void)written; /* there is nobody left to tell */
}

/* ---- the writer ---- */

/* Under the mutex. */
static void put(const char *bytes, size_t n)
{
    if (ring.n + n > RING_BYTES) {
        n_dropped++;
        ring.unreported++;
        return;
    }
    size_t at = (ring.first + ring.n) % RING_BYTES, part = TR_MIN(n, RING_BYTES - at);
    memcpy(ring.bytes + at, bytes, part);
    memcpy(ring.bytes, bytes + part, n - part);
    ring.n += n;
    uv_cond_signal(&ring.more);
}

/* Under the mutex: the lines at the ring's head that fit one write. */
static size_t head_lines(char out[WRITE_BYTES])
{
    size_t n = TR_MIN(ring.n, WRITE_BYTES), whole = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = ring.bytes[(ring.first + i) % RING_BYTES];
        if (out[i] == '\n')
            whole = i + 1;
    }
    return whole ? whole : n;
}

static void report_dropped(void)
{
    struct tr_buf line = {0};
    char text[80];
    snprintf(text, sizeof text, "%llu lines of the log were dropped: nobody read it",
             (unsigned long long)ring.unreported);
    ring.unreported = 0;
    make_line(&line, SRV_LOG_WARN, NULL, text, NULL);
    if (!line.oom)
        put(line.data, line.len);
    tr_buf_done(&line);
}

/* Whether standard error takes something; an error of it will show at the write. */
static bool is_writable(void)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    int r = poll(&fd, 1, WAIT_MS);
    return r != 0;
}

static void write_lines(void *arg)
{
    (void)arg;
    char out[WRITE_BYTES];
    uv_mutex_lock(&ring.mutex);
    for (;;) {
        while (ring.n == 0 && !ring.ending)
            uv_cond_wait(&ring.more, &ring.mutex);
        if (ring.n == 0)
            break;
        uv_mutex_unlock(&ring.mutex);
        bool ready = is_writable();
        uv_mutex_lock(&ring.mutex);
        if (!ready)
            continue;
        size_t n = head_lines(out);
        uv_mutex_unlock(&ring.mutex);
        write_now(out, n);
        uv_mutex_lock(&ring.mutex);
        ring.first = (ring.first + n) % RING_BYTES;
        ring.n -= n;
        if (ring.n < RING_BYTES / 2 && ring.unreported > 0)
            report_dropped();
        if (ring.n == 0)
            uv_cond_broadcast(&ring.idle);
    }
    uv_mutex_unlock(&ring.mutex);
}

void srv_log_start(void)
{
    static bool ready;
    if (!ready)
        ready = uv_mutex_init(&ring.mutex) == 0 && uv_cond_init(&ring.more) == 0 &&
                uv_cond_init(&ring.idle) == 0;
    ring.ending = false;
    ring_runs = ready && !ring_runs && uv_thread_create(&ring.writer, write_lines, NULL) == 0;
}

void srv_log_stop(int ms)
{
    if (!ring_runs)
        return;
    uint64_t until = uv_hrtime() + (uint64_t)ms * 1000000, now;
    uv_mutex_lock(&ring.mutex);
    while (ring.n > 0 && (now = uv_hrtime()) < until)
        uv_cond_timedwait(&ring.idle, &ring.mutex, until - now);
    bool idle = ring.n == 0;
    ring.ending = true;
    uv_cond_signal(&ring.more);
    uv_mutex_unlock(&ring.mutex);
    ring_runs = false;
    if (idle)
        uv_thread_join(&ring.writer); /* else it may hang in a write until the process ends */
}

static void emit(const char *bytes, size_t n)
{
    if (!ring_runs) {
        write_now(bytes, n);
        return;
    }
    uv_mutex_lock(&ring.mutex);
    put(bytes, n);
    uv_mutex_unlock(&ring.mutex);
}

void srv_log_with(enum srv_log_level level, const char *request, const char *text,
                  const struct tr_buf *fields)
{
    if ((int)level > max_level)
        return;
    struct tr_buf line = {0};
    make_line(&line, level, request, text, fields);
    if (!line.oom)
        emit(line.data, line.len);
    tr_buf_done(&line);
}

void srv_log(enum srv_log_level level, const char *request, const char *fmt, ...)
{
    if ((int)level > max_level)
        return;
    char text[SRV_LOG_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    srv_log_with(level, request, text, NULL);
}

/* What a reader of name=value cannot take bare. */
static bool needs_quotes(const char *value)
{
    return !*value || value[strcspn(value, " \t\"=\\")] != '\0';
}

void srv_log_text(struct tr_buf *fields, const char *name, const char *value)
{
    tr_buf_addf(fields, as_json ? ", \"%s\": " : " %s=", name);
    if (as_json || needs_quotes(value))
        tr_json_quote(fields, value, strlen(value));
    else
        tr_buf_adds(fields, value);
}

void srv_log_number(struct tr_buf *fields, const char *name, int decimals, double value)
{
    tr_buf_addf(fields, as_json ? ", \"%s\": %.*f" : " %s=%.*f", name, decimals, value);
}

void srv_log_draw(const char *text)
{
    emit(text, strlen(text));
}
