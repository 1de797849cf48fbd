/*
 * `trinityd top`: what the running daemon does, read from its /metrics: on a terminal a few lines
 * that are drawn again in place, else a line each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/clock.h"
#include "server/commands/commands.h"
#include "server/commands/reach.h"

enum { BAR = 24, NARROW = 20 };

/* One reading of /metrics. */
struct reading {
    struct tr_buf text;
    int64_t ns; /* CLOCK_MONOTONIC */
};

/* The sum of the samples `name` that have the label (NULL: all of them). */
static double number(const struct reading *r, const char *name, const char *label)
{
    size_t n = strlen(name);
    double sum = 0;
    for (const char *line = r->text.data; line && *line;) {
        const char *end = strchr(line, '\n');
        const char *value = end ? end : line + strlen(line);
        while (value > line && *value != ' ')
            value--;
        if (strncmp(line, name, n) == 0 && (line[n] == '{' || line[n] == ' ')) {
            const char *found = label ? strstr(line, label) : line;
            if (found && found < value)
                sum += strtod(value, NULL);
        }
        line = end ? end + 1 : NULL;
    }
    return sum;
}

static double now(const struct reading *r, const char *name)
{
    return number(r, name, NULL);
}

/* What came since the reading before; a daemon that began anew counts from 0. */
static double since(const struct reading r[2], const char *name, const char *label)
{
    double x = number(&r[1], name, label);
    double before = number(&r[0], name, label);
    return x >= before ? x - before : x;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double per_second(const struct reading r[2], const char *name)
{
    return ratio(since(r, name, NULL), (double)(r[1].ns - r[0].ns) * 1e-9);
}

/* Milliseconds of a step of the kind, of late; 0 = there was none. */
static double step_ms(const struct reading r[2], const char *kind)
{
    return 1e3 * ratio(since(r, "trinityd_step_duration_seconds_sum", kind),
                       since(r, "trinityd_step_duration_seconds_count", kind));
}

/* Percent of the prompt tokens that were reused, of late, or of all if none came of late. */
static double hits(const struct reading r[2])
{
    double asked = since(r, "trinityd_prefix_queries_total", NULL);
    if (asked > 0)
        return 100 * since(r, "trinityd_prefix_hits_total", NULL) / asked;
    return 100 * ratio(now(&r[1], "trinityd_prefix_hits_total"),
                       now(&r[1], "trinityd_prefix_queries_total"));
}

/* ---- the screen ---- */

static void add_pages(struct tr_buf *out, const struct reading *r, const char *kind)
{
    char name[64], label[32], bar[BAR + 1];
    snprintf(name, sizeof name, "trinityd_%s_pages_used", kind);
    double used = now(r, name);
    snprintf(name, sizeof name, "trinityd_%s_pages_cached", kind);
    double cached = now(r, name);
    snprintf(name, sizeof name, "trinityd_%s_pages", kind);
    double total = now(r, name);
    snprintf(label, sizeof label, "kind=\"%s\"", kind);
    int full = (int)(BAR * ratio(used, total) + 0.999);
    int half = TR_MIN(full + (int)(BAR * ratio(cached, total) + 0.999), BAR);
    memset(bar, ' ', BAR);
    memset(bar, '-', (size_t)half);
    memset(bar, '#', (size_t)TR_MIN(full, BAR));
    bar[BAR] = '\0';
    tr_buf_addf(out, "%-9s [%s] %.0f used, %.0f cached of %.0f pages, %.0f evicted\n", kind, bar,
                used, cached, total, number(r, "trinityd_page_evictions_total", label));
}

static void add_screen(struct tr_buf *out, const struct tr_options *o, const struct reading r[2])
{
    const struct reading *x = &r[1];
    char where[256];
    double limit = now(x, "trinityd_read_limit_bytes_per_second");
    tr_buf_addf(out, "trinityd  %s\n", srv_reach_name(o, where));
    tr_buf_addf(out, "streams   %.0f running, %.0f paused; queue %.0f; connections %.0f\n",
                now(x, "trinityd_requests_running"), now(x, "trinityd_requests_paused"),
                now(x, "trinityd_requests_waiting"), now(x, "trinityd_connections"));
    tr_buf_addf(out, "tokens/s  %.1f generated, %.1f of prompts\n",
                per_second(r, "trinityd_generated_tokens_total"),
                per_second(r, "trinityd_prefill_rows_total"));
    tr_buf_addf(
        out, "steps     %.1f a second, %.1f rows; prefill %.1f ms, decode %.1f, mixed %.1f\n",
        per_second(r, "trinityd_steps_total"),
        ratio(since(r, "trinityd_rows_total", NULL), since(r, "trinityd_steps_total", NULL)),
        step_ms(r, "kind=\"prefill\""), step_ms(r, "kind=\"decode\""),
        step_ms(r, "kind=\"mixed\""));
    add_pages(out, x, "local");
    add_pages(out, x, "global");
    tr_buf_addf(out, "prefixes  %.0f %% of prompt tokens reused\n", hits(r));
    tr_buf_addf(out, "weights   read at %.1f GB/s, %.0f %% of the start's measure\n",
                per_second(r, "trinityd_weight_bytes_read_total") * 1e-9,
                100 * ratio(per_second(r, "trinityd_weight_bytes_read_total"), limit));
    tr_buf_addf(out, "process   %.0f %% of a processor, %.0f MiB, %.0f threads\n",
                100 * per_second(r, "process_cpu_seconds_total"),
                now(x, "process_resident_memory_bytes") * 0x1p-20, now(x, "process_threads"));
}

/* Puts the lines in place of those drawn before, cut where the terminal ends. */
static void draw(const struct tr_buf *text, bool again)
{
    struct winsize size;
    int width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    width = width >= NARROW ? width - 1 : 79;
    int lines = 0;
    for (const char *s = text->data; s && *s; s++)
        lines += *s == '\n';
    if (again)
        printf("\033[%dA", lines);
    for (const char *s = text->data; s && *s; s += strcspn(s, "\n") + 1)
        printf("\r%.*s\033[K\n", TR_MIN((int)strcspn(s, "\n"), width), s);
}

static void add_line(struct tr_buf *out, const struct reading r[2])
{
    const struct reading *x = &r[1];
    tr_buf_addf(
        out,
        "running %.0f paused %.0f queue %.0f generated/s %.1f prompt/s %.1f steps/s %.1f "
        "prefill_ms %.1f decode_ms %.1f mixed_ms %.1f local %.0f+%.0f/%.0f "
        "global %.0f+%.0f/%.0f reused %.0f%%\n",
        now(x, "trinityd_requests_running"), now(x, "trinityd_requests_paused"),
        now(x, "trinityd_requests_waiting"), per_second(r, "trinityd_generated_tokens_total"),
        per_second(r, "trinityd_prefill_rows_total"), per_second(r, "trinityd_steps_total"),
        step_ms(r, "kind=\"prefill\""), step_ms(r, "kind=\"decode\""), step_ms(r, "kind=\"mixed\""),
        now(x, "trinityd_local_pages_used"), now(x, "trinityd_local_pages_cached"),
        now(x, "trinityd_local_pages"), now(x, "trinityd_global_pages_used"),
        now(x, "trinityd_global_pages_cached"), now(x, "trinityd_global_pages"), hits(r));
}

static int read_metrics(struct reading *ret, const struct tr_options *o, struct tr_err *err)
{
    char where[256];
    tr_buf_done(&ret->text);
    int status = srv_reach(o, "/metrics", &ret->text, err);
    ret->ns = tr_clock_ns();
    if (status == 200)
        return 0;
    return status < 0 ? status
                      : tr_err_set(err, TR_EIO, NULL, "%s: status %d for /metrics",
                                   srv_reach_name(o, where), status);
}

int srv_top(const struct tr_options *o)
{
    struct reading r[2] = {0};
    struct tr_buf out = {0};
    struct tr_err err;
    bool screen = isatty(STDOUT_FILENO), again = false;
    int result = read_metrics(&r[0], o, &err);
    while (result == 0) {
        usleep((useconds_t)(o->every * 1000));
        result = read_metrics(&r[1], o, &err);
        if (result < 0)
            break;
        tr_buf_clear(&out);
        if (screen)
            add_screen(&out, o, r);
        else
            add_line(&out, r);
        if (out.oom)
            result = tr_err_set(&err, TR_ENOMEM, NULL, "out of memory");
        else if (screen)
            draw(&out, again);
        else
            fputs(out.data, stdout);
        if (result == 0 && fflush(stdout) != 0)
            result = tr_err_set(&err, TR_EIO, NULL, "standard output cannot be written");
        again = true;
        struct reading old = r[0];
        r[0] = r[1];
        r[1] = old;
        if (o->once)
            break;
    }
    if (result < 0)
        fprintf(stderr, "trinityd: %s\n", err.msg);
    tr_buf_done(&r[0].text);
    tr_buf_done(&r[1].text);
    tr_buf_done(&out);
    return result < 0 ? 1 : 0;
}
