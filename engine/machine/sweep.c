#include "engine/machine/sweep.h"

#include <stdatomic.h>
#include <stdint.h>

#include "config/clock.h"

enum {
    LANES = 8,       /* words that a line of the memory holds */
    AHEAD = 288,     /* words between what is fetched and what is read, as in the kernels */
    PIECE = 1 << 20, /* bytes that a thread takes at a time */
    ROUND_MS = 10,   /* after which a round takes no more pieces */
    ROUNDS = 4
};

struct sweep {
    const struct tr_area *areas;
    int n_areas;
    int64_t until;       /* CLOCK_MONOTONIC */
    atomic_size_t piece; /* the next one, of all areas together */
    atomic_size_t bytes; /* read */
    atomic_ullong sum;   /* keeps the reads from being dropped */
};

static uint64_t read_words(const uint64_t *words, size_t n)
{
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i + LANES <= n; i += LANES) {
        __builtin_prefetch(words + i + AHEAD);
        for (int j = 0; j < LANES; j++)
            lanes[j] += words[i + (size_t)j];
    }
    for (int j = 1; j < LANES; j++)
        lanes[0] += lanes[j];
    return lanes[0];
}

/* Each thread walks the areas once; pieces that others have taken it passes by. What is left when
 * all were taken is begun again. */
static void run(void *arg, const struct tr_pool_part *part)
{
    (void)part;
    struct sweep *s = arg;
    size_t piece = atomic_fetch_add(&s->piece, 1), at = 0;
    for (;;) {
        size_t before = at;
        for (int a = 0; a < s->n_areas; a++) {
            size_t n = TR_CEIL_DIV(s->areas[a].bytes, (size_t)PIECE);
            for (; piece < at + n; piece = atomic_fetch_add(&s->piece, 1)) {
                size_t from = (piece - at) * PIECE;
                size_t bytes = TR_MIN(s->areas[a].bytes - from, (size_t)PIECE);
                const char *data = (const char *)s->areas[a].data + from;
                if (tr_clock_ns() >= s->until)
                    return;
                atomic_fetch_add(&s->sum, read_words((const void *)data, bytes / sizeof(uint64_t)));
                atomic_fetch_add(&s->bytes, bytes);
            }
            at += n;
        }
        if (at == before)
            return;
    }
}

double tr_sweep(struct tr_pool *pool, const struct tr_area *areas, int n_areas)
{
    double best = 0;
    size_t piece = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sweep s = {.areas = areas, .n_areas = n_areas};
        atomic_init(&s.piece, piece);
        int64_t begun = tr_clock_ns();
        s.until = begun + ROUND_MS * INT64_C(1000000);
        tr_pool_run(pool, run, &s);
        double seconds = (double)(tr_clock_ns() - begun) * 1e-9;
        best = TR_MAX(best, (double)s.bytes / seconds);
        piece = s.piece; /* goes on: what was read last lies in the caches */
    }
    return best;
}
