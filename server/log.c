#include "server/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/buf.h"
#include "config/json.h"

#define MAX_TEXT 2048 /* longest message; the rest is cut */

static const char *const level_names[] = {
    [SRV_LOG_ERROR] = "error",
    [SRV_LOG_WARN] = "warn",
    [SRV_LOG_INFO] = "info",
    [SRV_LOG_DEBUG] = "debug",
};

/* A process has one standard error and so one log. */
static _Atomic int max_level = SRV_LOG_INFO;
static _Atomic bool as_json;

void srv_log_setup(enum srv_log_level level, bool json)
{
    max_level = (int)level;
    as_json = json;
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
                     const char *text)
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
    tr_buf_addc(line, '}');
}

static void add_text(struct tr_buf *line, enum srv_log_level level, const char *request,
                     const char *text)
{
    add_time(line);
    tr_buf_addf(line, " %-5s ", level_names[level]);
    size_t from = line->len;
    if (request)
        tr_buf_addf(line, "[%s] ", request);
    tr_buf_adds(line, text);
    /* No line break, no terminal sequence gets in from a path or a request. */
    for (size_t i = from; i < line->len; i++)
        if ((unsigned char)line->data[i] < 0x20 || line->data[i] == 0x7f)
            line->data[i] = '?';
}

void srv_log(enum srv_log_level level, const char *request, const char *fmt, ...)
{
    if ((int)level > max_level)
        return;
    char text[MAX_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);

    struct tr_buf line = {0};
    if (as_json)
        add_json(&line, level, request, text);
    else
        add_text(&line, level, request, text);
    tr_buf_addc(&line, '\n');
    /* One write a line: lines of other processes on the same terminal or pipe don't cut in. A
     * log that can't be written must not stop the daemon. */
    ssize_t written = line.oom ? 0 : write(STDERR_FILENO, line.data, line.len);
    (void)written;
    tr_buf_done(&line);
}
