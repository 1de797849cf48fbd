#include "server/commands/bandwidth.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"

enum { LANES = 8, MAX_THREADS = 64, ROUNDS = 4 };
#define SHARE_BYTES (256UL << 20) /* of one thread */

struct reader {
    pthread_t thread;
    const uint64_t *words; /* SHARE_BYTES */
    uint64_t sum;          /* keeps the reads from being dropped */
};

static void *read_share(void *arg)
{
    struct reader *r = arg;
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i < SHARE_BYTES / sizeof *r->words; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += r->words[i + (size_t)j];
    for (int j = 0; j < LANES; j++)
        r->sum += lanes[j];
    return NULL;
}

double srv_read_bandwidth(int n_threads)
{
    struct reader readers[MAX_THREADS] = {0};
    int n = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    size_t n_words = SHARE_BYTES / sizeof(uint64_t);
    uint64_t *memory = malloc(SHARE_BYTES * (size_t)n);
    if (!memory)
        return 0;
    memset(memory, 1, SHARE_BYTES * (size_t)n); /* makes the pages real */
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int started = 0;
        int64_t begun = tr_clock_ns();
        for (; started < n; started++) {
            readers[started].words = memory + n_words * (size_t)started;
            if (pthread_create(&readers[started].thread, NULL, read_share, &readers[started]) != 0)
                break;
        }
        for (int i = 0; i < started; i++)
            pthread_join(readers[i].thread, NULL);
        double rate = (double)SHARE_BYTES * started / ((double)(tr_clock_ns() - begun) * 1e-9);
        best = rate > best ? rate : best;
    }
    free(memory);
    return best;
}
