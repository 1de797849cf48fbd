/*
 * `trinityd bench`: speed of this checkpoint on this machine, through the engine as the daemon uses
 * it. Each line ends in a hash of the tokens and their logprobs, so that a change of speed and a
 * change of numbers are seen side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"
#include "engine/text/tokenizer.h"
#include "server/commands/ask.h"
#include "server/commands/bandwidth.h"
#include "server/commands/commands.h"
#include "server/load.h"

enum { MAX_JOBS = 4096, MAX_REPEAT = 1000, DECODE_STEPS = 64 };

/* What one test sees of its jobs; written on the engine's thread. */
struct bench_run {
    struct srv_ask ask; /* its mutex guards the rest */
    int n_jobs;
    int n_begun;       /* jobs with a first token */
    int n_done;        /* jobs that ended */
    int64_t full_ns;   /* when the last job had its first token: from here on all decode */
    int64_t last_ns;   /* the last token while all decoded */
    int64_t n_counted; /* tokens from full_ns to last_ns */
    struct tr_engine *engine;
    struct tr_engine_stats full, last; /* at those two times, each as of the step before */
    uint64_t hash[MAX_JOBS];           /* of a job's tokens and logprobs, FNV-1a */
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001B3U;
    return hash;
}

static void on_event(void *arg, const struct tr_event *event)
{
    struct bench_run *run = arg;
    uint64_t *hash = event->user;
    if (event->kind == TR_EVENT_TOKEN) {
        *hash = hash_bytes(*hash, &event->token, sizeof event->token);
        *hash = hash_bytes(*hash, &event->logprob, sizeof event->logprob);
        if (event->position == 0 && ++run->n_begun == run->n_jobs) {
            run->full_ns = run->last_ns = tr_clock_ns();
            tr_engine_stats(run->engine, &run->full);
            run->last = run->full;
        } else if (run->n_begun == run->n_jobs && run->n_done == 0) {
            run->last_ns = tr_clock_ns();
            run->n_counted++;
            tr_engine_stats(run->engine, &run->last);
        }
    } else if (event->kind == TR_EVENT_DONE) {
        run->n_done++;
    }
}

/* Runs n jobs of arbitrary prompts side by side; each answers with exactly max_tokens. */
static int run_jobs(struct tr_engine *e, struct bench_run *run, int n, int n_prompt, int max_tokens,
                    struct tr_err *err)
{
    run->engine = e;
    run->n_jobs = n;
    run->n_begun = run->n_done = 0;
    run->n_counted = 0;
    for (int i = 0; i < n; i++) {
        struct tr_job *job = srv_ask_job(srv_ask_ids(e, n_prompt, i), n_prompt);
        if (job) {
            job->max_tokens = max_tokens;
            job->ignore_eos = true;
            job->sampling.n_logprobs = 0;
            job->user = &run->hash[i];
        }
        run->hash[i] = 0xCBF29CE484222325U;
        int r = srv_ask_submit(&run->ask, e, job, err);
        if (r < 0)
            return r;
    }
    return srv_ask_wait(&run->ask, err);
}

/* One line of the report. */
struct result {
    const char *test;
    int size;            /* prompt tokens or sequences */
    double rate;         /* tokens per second, the median */
    double seconds;      /* of the whole prompt, or of a step */
    double bytes, flops; /* read and computed in that time */
    uint64_t hash;
};

/* The memory's speed is measured beside each test: what else runs on the machine changes it. */
static void report(const struct tr_options *o, int n_threads, const struct result *r)
{
    double bandwidth = srv_read_bandwidth(n_threads);
    double gb = r->bytes / r->seconds * 1e-9, gflops = r->flops / r->seconds * 1e-9;
    double share = bandwidth > 0 ? 100.0 * r->bytes / r->seconds / bandwidth : 0.0;
    if (o->json)
        printf("{\"test\": \"%s\", \"size\": %d, \"tokens_per_second\": %.2f, "
               "\"milliseconds\": %.3f, \"gb_per_second\": %.2f, \"percent_of_bandwidth\": %.1f, "
               "\"gflops\": %.1f, \"hash\": \"%016llx\"}\n",
               r->test, r->size, r->rate, 1e3 * r->seconds, gb, share, gflops,
               (unsigned long long)r->hash);
    else
        printf("%-8s %6d %10.2f tokens/s %10.3f ms %8.2f GB/s %5.1f %% %9.1f GFLOP/s  %016llx\n",
               r->test, r->size, r->rate, 1e3 * r->seconds, gb, share, gflops,
               (unsigned long long)r->hash);
    fflush(stdout);
}

static uint64_t hash_of(const struct bench_run *run)
{
    uint64_t hash = 0;
    for (int i = 0; i < run->n_jobs; i++)
        hash += run->hash[i];
    return hash;
}

/* Weights that the steps between two looks read, of the experts those that were met. */
static double bytes_read(const struct tr_engine *e, const struct tr_engine_stats *from,
                         const struct tr_engine_stats *to)
{
    return (double)tr_engine_info(e)->step_bytes * (double)(to->steps - from->steps) +
           (double)(to->expert_bytes - from->expert_bytes);
}

/* The counters once n more jobs have ended than at `before`: they follow the events by a moment. */
static struct tr_engine_stats stats_after(struct tr_engine *e, const struct tr_engine_stats *before,
                                          int n)
{
    const struct timespec moment = {.tv_nsec = 100000};
    struct tr_engine_stats ret;
    for (;;) {
        tr_engine_stats(e, &ret);
        if (ret.finished[TR_FINISH_LENGTH] - before->finished[TR_FINISH_LENGTH] >= (uint64_t)n)
            return ret;
        nanosleep(&moment, NULL);
    }
}

static int bench_prefill(const struct tr_options *o, struct tr_engine *e, struct bench_run *run,
                         int n, struct tr_err *err)
{
    const struct tr_engine_info *info = tr_engine_info(e);
    double rates[MAX_REPEAT];
    struct tr_engine_stats before;
    tr_engine_stats(e, &before);
    for (int i = 0; i < o->repeat; i++) {
        int r = run_jobs(e, run, 1, n, 1, err);
        if (r < 0)
            return r;
        rates[i] = n / ((double)run->ask.usage.prefill_ns * 1e-9);
    }
    struct result result = {.test = "prefill", .size = n, .rate = srv_median(rates, o->repeat)};
    result.seconds = n / result.rate;
    struct tr_engine_stats after = stats_after(e, &before, o->repeat);
    result.bytes = bytes_read(e, &before, &after) / o->repeat;
    result.flops = (double)info->token_flops * n;
    result.hash = hash_of(run);
    report(o, info->threads, &result);
    return 0;
}

static int bench_decode(const struct tr_options *o, struct tr_engine *e, struct bench_run *run,
                        int n, struct tr_err *err)
{
    const struct tr_engine_info *info = tr_engine_info(e);
    double rates[MAX_REPEAT];
    double bytes = 0.0;
    uint64_t n_steps = 0;
    /* The first job decodes while the others are still in prefill: give all of them more to say. */
    int steps = DECODE_STEPS + n * o->context / info->max_batch_tokens + n;
    for (int i = 0; i < o->repeat; i++) {
        int r = run_jobs(e, run, n, o->context, steps, err);
        if (r < 0)
            return r;
        if (run->n_counted == 0)
            return tr_err_set(err, TR_ENOFIT, "decode",
                              "%d sequences of %d tokens never decode all at once: the cache or "
                              "the context is too small",
                              n, o->context);
        rates[i] = (double)run->n_counted / ((double)(run->last_ns - run->full_ns) * 1e-9);
        bytes += bytes_read(e, &run->full, &run->last);
        n_steps += run->last.steps - run->full.steps;
    }
    struct result result = {.test = "decode", .size = n, .rate = srv_median(rates, o->repeat)};
    result.seconds = n / result.rate;
    result.bytes = bytes / (double)TR_MAX(n_steps, 1);
    result.flops = n * ((double)info->token_flops +
                        2.0 * (double)info->vocab_size * (double)info->hidden_size);
    result.hash = hash_of(run);
    report(o, info->threads, &result);
    return 0;
}

/* An item of --prefill or --decode: 1..max, or -1. */
static int number(const char *text, int max)
{
    char *end;
    long n = strtol(text, &end, 10);
    return *end || n < 1 || n > max ? -1 : (int)n;
}

static int run_tests(const struct tr_options *o, struct tr_engine *e, struct bench_run *run,
                     struct tr_err *err)
{
    int r = 0;
    for (size_t i = 0; i < o->prefill.n && r == 0; i++)
        r = bench_prefill(o, e, run, number(o->prefill.items[i], 1 << 24), err);
    for (size_t i = 0; i < o->decode.n && r == 0; i++)
        r = bench_decode(o, e, run, number(o->decode.items[i], MAX_JOBS), err);
    return r;
}

int srv_bench(const struct tr_options *o)
{
    struct tr_options options = *o; /* borrows o's strings */
    struct tr_engine *e;
    struct tr_err err;
    int n = 1, most = 1;
    for (size_t i = 0; i < o->prefill.n && n > 0; i++)
        n = number(o->prefill.items[i], 1 << 24);
    for (size_t i = 0; i < o->decode.n && n > 0; i++) {
        n = number(o->decode.items[i], MAX_JOBS);
        most = TR_MAX(most, n);
    }
    if (n < 0) {
        fprintf(stderr, "trinityd: prefill and decode: expected numbers, as in 1,8,16\n");
        return 2;
    }
    struct bench_run *run = calloc(1, sizeof *run);
    if (!run) {
        fprintf(stderr, "trinityd: out of memory\n");
        return 1;
    }
    run->ask = (struct srv_ask)SRV_ASK_INIT(on_event, run);
    options.prefix_cache = false;
    options.max_sequences = TR_MAX(o->max_sequences, most); /* all decode at once */
    options.max_queue = TR_MAX(o->max_queue, most);
    int r = srv_ask_open(&e, &options, &run->ask, &err);
    if (r == 0) {
        srv_log_engine(tr_engine_info(e));
        r = run_tests(o, e, run, &err);
        tr_engine_close(e);
    }
    if (r < 0)
        fprintf(stderr, "trinityd: %s\n", err.msg);
    free(run);
    return r < 0 ? 1 : 0;
}
