#include "server/commands/bandwidth.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/clock.h"
#include "config/thread.h"

enum {
    LANES = 8,   /* words that a line of the memory holds */
    AHEAD = 288, /* words between what is fetched and what is read, as in the kernels */
    MAX_THREADS = 64,
    ROUNDS = 15
};
#define HUGE_PAGE   (2UL << 20)
#define SHARE_BYTES (256UL << 20) /* of one thread */

struct stream {
    pthread_t thread;
    const uint64_t *words; /* SHARE_BYTES */
    uint64_t sum;          /* keeps the reads from being dropped */
};

static void *read_share(void *arg)
{
    struct stream *r = arg;
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i < SHARE_BYTES / sizeof *r->words; i += LANES) {
        __builtin_prefetch(r->words + i + AHEAD);
        for (int j = 0; j < LANES; j++)
            lanes[j] += r->words[i + (size_t)j];
    }
    for (int j = 0; j < LANES; j++)
        r->sum += lanes[j];
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double srv_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

double srv_read_bandwidth(int n_threads)
{
    struct stream readers[MAX_THREADS] = {0};
    int n = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    size_t n_words = SHARE_BYTES / sizeof(uint64_t);
    uint64_t *memory = aligned_alloc(HUGE_PAGE, SHARE_BYTES * (size_t)n);
    if (!memory)
        return 0;
    madvise(memory, SHARE_BYTES * (size_t)n, MADV_HUGEPAGE); /* as the weights lie */
    memset(memory, 1, SHARE_BYTES * (size_t)n);              /* makes the pages real */
    double rates[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        int started = 0;
        int64_t begun = tr_clock_ns();
        for (; started < n; started++) {
            readers[started].words = memory + n_words * (size_t)started;
            if (tr_thread_start(&readers[started].thread, "reader", read_share,
                                &readers[started]) != 0)
                break;
        }
        for (int i = 0; i < started; i++)
            pthread_join(readers[i].thread, NULL);
        rates[round] = (double)SHARE_BYTES * started / ((double)(tr_clock_ns() - begun) * 1e-9);
    }
    free(memory);
    return srv_median(rates, ROUNDS);
}
