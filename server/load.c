#include "server/load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/clock.h"
#include "server/log.h"
#include "server/notify.h"

#define SECOND_NS 1000000000LL
enum { MAX_TEMPLATE = 256 * 1024 }; /* bytes */

struct progress {
    int64_t begun_ns; /* CLOCK_MONOTONIC; 0 = not yet */
    int64_t next_ns;  /* nothing is shown before */
    bool bar;         /* on a terminal */
    bool drawn;       /* a bar stands on the current line */
};

const char *srv_bytes_text(char text[24], uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    size_t u = 0;
    for (; v >= 1023.995 && u + 1 < TR_ARRAY_LEN(units); u++)
        v /= 1024.0;
    snprintf(text, 24, "%.*f %s", u ? 2 : 0, v, units[u]);
    return text;
}

static void draw_bar(double share, double gib, double rate)
{
    char bar[41];
    size_t filled = (size_t)(share * (double)(sizeof bar - 1));
    memset(bar, '.', sizeof bar - 1);
    memset(bar, '#', TR_MIN(filled, sizeof bar - 1));
    bar[sizeof bar - 1] = '\0';
    char text[128];
    snprintf(text, sizeof text, "\rloading [%s] %3.0f %% of %.2f GiB, %.2f GiB/s ", bar,
             100.0 * share, gib, rate);
    srv_log_draw(text);
}

/* A tr_progress_fn. A load of less than a second shows nothing. */
static void show_progress(void *arg, uint64_t done, uint64_t total)
{
    struct progress *p = arg;
    int64_t now = tr_clock_ns();
    if (!p->begun_ns) {
        p->begun_ns = now;
        p->bar = isatty(STDERR_FILENO);
        p->next_ns = now + SECOND_NS;
    }
    if (now < p->next_ns || total == 0)
        return;
    double share = (double)done / (double)total, gib = (double)total * 0x1p-30;
    double rate = (double)done * 0x1p-30 / ((double)(now - p->begun_ns) * 1e-9);
    if (p->bar)
        draw_bar(share, gib, rate);
    else
        srv_log(SRV_LOG_INFO, NULL, "loading: %.0f %% of %.2f GiB, %.2f GiB/s", 100.0 * share, gib,
                rate);
    srv_notify("STATUS=loading: %.0f %%\nEXTEND_TIMEOUT_USEC=60000000", 100.0 * share);
    p->drawn = p->bar;
    p->next_ns = now + (p->bar ? SECOND_NS / 10 : 3 * SECOND_NS);
}

void srv_engine_options(struct tr_engine_options *ret, const struct tr_options *o)
{
    /* The words of isa, weights and kv_type stand in the order of the engine's enums. */
    *ret = (struct tr_engine_options){
        .model = o->model,
        .weights = (enum tr_weights_choice)o->weights,
        .use_mmap = o->mmap,
        .packed_cache = o->packed_cache,
        .isa = (enum tr_isa)o->isa,
        .threads = o->threads,
        .context_length = o->context_length,
        .kv_cache_bytes = o->kv_cache,
        .kv_type = (enum tr_kv_type)o->kv_type,
        .page_tokens = o->page_tokens,
        .prefix_cache = o->prefix_cache,
        .verify = o->verify,
        .overcommit_percent = o->overcommit,
        .max_batch_tokens = o->max_batch_tokens,
        .max_sequences = o->max_sequences,
        .max_queue = o->max_queue,
        .speculation = o->speculation == TR_SPECULATION_NGRAM,
        .snapshot_dir = o->snapshot_dir,
        .snapshot_quota = o->snapshot_quota,
    };
}

/* The engine's on_packed; the log takes lines from any thread. */
static void log_packed(void *arg, double seconds, const struct tr_err *err)
{
    (void)arg;
    if (err)
        srv_log(SRV_LOG_WARN, NULL, "packed cache: %s", err->msg);
    else
        srv_log(SRV_LOG_INFO, NULL, "packed weights written in %.1f s", seconds);
}

int srv_engine_open(struct tr_engine **ret, const struct tr_engine_options *o, struct tr_err *err)
{
    struct progress progress = {0};
    struct tr_engine_options options = *o;
    struct tr_err cause = {0};
    options.progress = show_progress;
    options.progress_arg = &progress;
    options.on_packed = log_packed;
    int r = tr_engine_open(ret, &options, &cause);
    if (progress.drawn) /* wipe the bar */
        srv_log_draw("\r\033[K");
    return r < 0 ? tr_err_set(err, r, cause.param, "%s: %s", o->model, cause.msg) : 0;
}

static int read_template(struct tr_buf *ret, const char *path, struct tr_err *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return tr_err_set(err, TR_EIO, "chat_template", "%s: %s", path, strerror(errno));
    char *at = tr_buf_reserve(ret, MAX_TEMPLATE + 1);
    if (at) {
        ret->len = fread(at, 1, MAX_TEMPLATE + 1, f);
        at[ret->len] = '\0';
    }
    bool failed = ferror(f);
    fclose(f);
    if (!at)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (failed)
        return tr_err_set(err, TR_EIO, "chat_template", "%s: cannot be read", path);
    if (ret->len > MAX_TEMPLATE)
        return tr_err_set(err, TR_EFORMAT, "chat_template", "%s: more than %d bytes", path,
                          MAX_TEMPLATE);
    if (strlen(ret->data) != ret->len)
        return tr_err_set(err, TR_EFORMAT, "chat_template", "%s: a NUL byte", path);
    return 0;
}

int srv_chat_open(struct tr_chat **ret, const struct tr_options *o, const struct tr_engine *engine,
                  struct tr_err *err)
{
    struct tr_buf source = {0};
    struct tr_err cause = {0};
    const char *path = o->chat_template;
    int r = path ? read_template(&source, path, err) : 0;
    if (r == 0) {
        r = tr_chat_open(ret, tr_engine_tokenizer(engine), source.data, &cause);
        if (r == TR_ENOTFOUND)
            r = 0;
        else if (r < 0)
            tr_err_set(err, r, "chat_template", "%s: %s", path ? path : o->model, cause.msg);
    }
    tr_buf_done(&source);
    return r;
}

void srv_log_engine(const struct tr_engine_info *info)
{
    char weights[24], cache[24];
    double gib = (double)(info->from_packed ? info->weight_bytes : info->file_bytes) * 0x1p-30;
    srv_log(SRV_LOG_INFO, NULL,
            "%s: %.2f million parameters, weights %s %s in %.2f s (%.2f GiB/s%s), cache %s, "
            "context %d, isa %s, blas %s, %d threads",
            info->name, (double)info->n_params * 1e-6, info->weights,
            srv_bytes_text(weights, info->weight_bytes), info->load_seconds,
            info->load_seconds > 0 ? gib / info->load_seconds : 0.0,
            info->from_packed ? ", packed" : "", srv_bytes_text(cache, info->kv_cache_bytes),
            info->context_length, info->isa, info->blas, info->threads);
    for (const char *line = info->warnings; *line;) {
        size_t n = strcspn(line, "\n");
        srv_log(SRV_LOG_WARN, NULL, "%.*s", (int)TR_MIN(n, 1024), line);
        line += n + (line[n] == '\n');
    }
}
