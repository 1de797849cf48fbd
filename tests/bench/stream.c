/*
 * How near the product of one row comes to the memory's speed: `stream [LEVEL [TYPE ...]]`.
 *
 * One line for each stored type: GB/s at which one thread, and then all, read panels of k = 1024
 * out of memory, and the share of what plain reading by as many threads gave just before.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/clock.h"
#include "engine/checkpoint/plan.h"
#include "engine/kernels/kernels.h"
#include "server/commands/bandwidth.h"
#include "tests/bench/kit.h"

enum { K = 1024, ROUNDS = 9, MAX_THREADS = 64 };
#define SHARE_BYTES (64UL << 20) /* of one thread, about */
#define HUGE_PAGE   (2UL << 20)

static const struct tr_kernels *kn;
static uint8_t *memory;

/* One thread's panels. */
struct share {
    pthread_t thread;
    enum tr_wtype type;
    int panels;
    const uint8_t *data;
    struct tr_rows x;
    float *y;
};

static void *product(void *arg)
{
    const struct share *s = arg;
    tr_fp_enter();
    kn->gemm[s->type](s->data, K, 0, s->panels, &s->x, 1, s->y, (size_t)s->panels * 16);
    return NULL;
}

static void rows_init(struct share *s, int panels)
{
    s->x = (struct tr_rows){.k = K,
                            .f32 = must_alloc(K * 4),
                            .bf16 = must_alloc(K * 2),
                            .q8 = must_alloc(K),
                            .q8_scale = must_alloc(K / 8),
                            .q8_sum = must_alloc(K / 8)};
    s->y = must_alloc((size_t)panels * 64);
}

static void rows_done(struct share *s)
{
    free(s->x.f32);
    free(s->x.bf16);
    free(s->x.q8);
    free(s->x.q8_scale);
    free(s->x.q8_sum);
    free(s->y);
}

/* Bytes per second of n_threads threads together. */
static double speed(enum tr_wtype type, int n_threads)
{
    struct share shares[MAX_THREADS] = {0};
    double rates[ROUNDS];
    size_t panel = tr_packed_bytes(type, 16, K);
    int panels = (int)(SHARE_BYTES / panel);
    for (int i = 0; i < n_threads; i++) {
        shares[i].type = type;
        shares[i].panels = panels;
        shares[i].data = memory + SHARE_BYTES * i;
        rows_init(&shares[i], panels);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begun = tr_clock_ns();
        for (int i = 1; i < n_threads; i++)
            pthread_create(&shares[i].thread, NULL, product, &shares[i]);
        product(&shares[0]);
        for (int i = 1; i < n_threads; i++)
            pthread_join(shares[i].thread, NULL);
        rates[round] = (double)panel * panels * n_threads * 1e9 / (double)(tr_clock_ns() - begun);
    }
    for (int i = 0; i < n_threads; i++)
        rows_done(&shares[i]);
    return srv_median(rates, ROUNDS);
}

static int wanted(const char *name, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return 1;
    }
    return argc <= 2;
}

static enum tr_isa level_of(const char *name)
{
    for (int isa = TR_ISA_GENERIC; name && isa < TR_ISA_AUTO; isa++) {
        if (strcmp(tr_kernels_select((enum tr_isa)isa)->name, name) == 0)
            return (enum tr_isa)isa;
    }
    return TR_ISA_AUTO;
}

int main(int argc, char **argv)
{
    int all = (int)TR_MIN(sysconf(_SC_NPROCESSORS_ONLN), (long)MAX_THREADS);
    kn = tr_kernels_select(level_of(argc > 1 ? argv[1] : NULL));
    memory = aligned_alloc(HUGE_PAGE, SHARE_BYTES * (size_t)all);
    if (!memory) {
        perror("stream");
        return 1;
    }
    madvise(memory, SHARE_BYTES * (size_t)all, MADV_HUGEPAGE);
    memset(memory, 1, SHARE_BYTES * (size_t)all);
    for (enum tr_wtype type = TR_W_F16; type < TR_W_COUNT; type++) {
        if (!wanted(tr__wtype_name(type), argc, argv))
            continue;
        double plain = srv_read_bandwidth(1);
        double one = speed(type, 1);
        double plain_all = srv_read_bandwidth(all);
        double many = speed(type, all);
        printf("%-7s %-8s 1 thread %6.2f GB/s %4.0f %%   %d threads %6.2f GB/s %4.0f %%\n",
               kn->name, tr__wtype_name(type), one * 1e-9, 100 * one / plain, all, many * 1e-9,
               100 * many / plain_all);
        fflush(stdout);
    }
    free(memory);
    return 0;
}
