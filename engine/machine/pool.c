/*
 * Compute threads around one barrier.
 *
 * A sense-reversing barrier is all the synchronisation there is inside a run, and at its end. An
 * idle helper waits for the word that counts runs; the word also says how many threads the run is
 * for, so that a helper that is not wanted never touches it. Words that several threads write lie
 * on lines of their own, so that spinning readers don't slow the counter down.
 *
 * Spinning is worth it only while every thread has a processor. With more threads than the affinity
 * mask or the cgroup quota gives, a spinner burns the time its partner needs, so the budget is 0
 * then. Otherwise it is fixed and longer than a wake-up takes (some 50 us in a virtual machine): a
 * budget that shrank after long waits would never recover, since a sleeper's own wake-up makes its
 * partner's next wait long.
 */
#include "engine/machine/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/clock.h"
#include "config/thread.h"
#include "engine/kernels/kernels.h"
#include "engine/machine/machine.h"

enum {
    MAX_THREADS = 1024,
    RUN_STEP = 2048, /* a run's number times this, plus its threads, is the word */
    SPIN_NS = 200000,
    PAUSES = 32, /* between two looks at the clock */
    APART =
        128 /* bytes between words that different threads write: two lines, for the prefetcher */
};

struct helper {
    struct tr_pool *pool;
    int tid;
    pthread_t thread;
};

struct tr_pool {
    _Alignas(APART) _Atomic uint32_t arrived;  /* threads that wait for this phase to end */
    _Alignas(APART) _Atomic uint32_t phase;    /* counts barriers; a futex word */
    _Alignas(APART) _Atomic uint32_t run;      /* counts runs, and their threads; a futex word */
    _Alignas(APART) _Atomic uint32_t sleepers; /* in either of the two */
    _Atomic int64_t spin_ns;                   /* 0: never spin */
    bool may_spin;                             /* every thread has a processor */
    int width;                                 /* threads of the next run, caller included */
    int active;                                /* of the run under way */
    int n_threads;
    int n_started; /* workers that exist, for close */
    tr_pool_fn fn; /* NULL: leave */
    void *arg;
    struct helper *workers; /* [n_threads]; entry 0 is the caller and unused */
};

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Waits until the word is no longer `value`: by spinning for the budget, then asleep. */
static void await(struct tr_pool *pool, _Atomic uint32_t *word, uint32_t value)
{
    int64_t spin_ns = pool->spin_ns;
    if (spin_ns > 0) {
        int64_t start = 0;
        do {
            for (int i = 0; i < PAUSES; i++) {
                if (atomic_load_explicit(word, memory_order_acquire) != value)
                    return;
                __builtin_ia32_pause();
            }
            start = start ? start : tr_clock_ns();
        } while (tr_clock_ns() - start < spin_ns);
    }
    /* The waker changes the word, then looks for sleepers; we do it the other way round, so one of
     * the two sees the other. */
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(word) == value)
        futex(word, FUTEX_WAIT, value);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void wake(struct tr_pool *pool, _Atomic uint32_t *word)
{
    if (atomic_load(&pool->sleepers) > 0)
        futex(word, FUTEX_WAKE, INT_MAX);
}

void tr_pool_barrier(struct tr_pool *pool)
{
    /* Once this thread has arrived, the next run may be under way. */
    int n = pool->active;
    if (n == 1)
        return;
    /* The phase can't move before this thread has arrived. */
    uint32_t phase = atomic_load_explicit(&pool->phase, memory_order_relaxed);
    uint32_t before = atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel);
    if (before + 1 < (uint32_t)n) {
        await(pool, &pool->phase, phase);
        return;
    }
    atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
    atomic_store(&pool->phase, phase + 1);
    wake(pool, &pool->phase);
}

/* Lets threads 1..n-1 begin. */
static void begin_run(struct tr_pool *pool, int n)
{
    pool->active = n;
    uint32_t runs = atomic_load_explicit(&pool->run, memory_order_relaxed) / RUN_STEP + 1;
    atomic_store(&pool->run, runs * RUN_STEP + (uint32_t)n);
    wake(pool, &pool->run);
}

static void *work(void *arg)
{
    const struct helper *w = arg;
    struct tr_pool *pool = w->pool;
    uint32_t run = 0;
    tr_fp_enter();
    for (;;) {
        await(pool, &pool->run, run);
        run = atomic_load(&pool->run);
        int n = (int)(run % RUN_STEP);
        if (w->tid >= n)
            continue;
        if (!pool->fn)
            return NULL;
        pool->fn(pool->arg, w->tid, n);
        tr_pool_barrier(pool);
    }
}

static int start(struct tr_pool *pool, struct tr_err *err)
{
    int r = 0;
    for (int tid = 1; tid < pool->n_threads && r == 0; tid++) {
        struct helper *w = &pool->workers[tid];
        *w = (struct helper){.pool = pool, .tid = tid};
        r = tr_thread_start(&w->thread, "compute", work, w);
        if (r)
            break;
        pool->n_started++;
    }
    if (r)
        return tr_err_set(err, TR_ENOMEM, "threads", "cannot start compute thread %d of %d: %s",
                          pool->n_started + 1, pool->n_threads, strerror(r));
    return 0;
}

int tr_pool_open(struct tr_pool **ret, int n_threads, struct tr_err *err)
{
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return tr_err_set(err, TR_EINVAL, "threads", "%d compute threads: must be 1 to %d",
                          n_threads, MAX_THREADS);
    struct tr_pool *pool = aligned_alloc(APART, sizeof *pool);
    if (!pool)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads;
    pool->width = n_threads;
    pool->may_spin = n_threads <= tr_default_threads(TR_CGROUP_ROOT);
    pool->spin_ns = pool->may_spin ? SPIN_NS : 0;
    pool->workers = calloc((size_t)n_threads, sizeof *pool->workers);
    int r = pool->workers ? start(pool, err) : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r < 0) {
        tr_pool_close(pool);
        return r;
    }
    *ret = pool;
    return 0;
}

struct tr_pool *tr_pool_close(struct tr_pool *pool)
{
    if (!pool)
        return NULL;
    pool->fn = NULL;
    begin_run(pool, pool->n_threads);
    for (int tid = 1; tid <= pool->n_started; tid++)
        pthread_join(pool->workers[tid].thread, NULL);
    free(pool->workers);
    free(pool);
    return NULL;
}

int tr_pool_threads(const struct tr_pool *pool)
{
    return pool->n_threads;
}

void tr_pool_set_width(struct tr_pool *pool, int n, bool spin)
{
    pool->width = TR_MAX(1, TR_MIN(n, pool->n_threads));
    pool->spin_ns = spin && pool->may_spin ? SPIN_NS : 0;
}

void tr_pool_run(struct tr_pool *pool, tr_pool_fn fn, void *arg)
{
    /* The caller computes under the same rules as the workers, and gets its own mode back. */
    unsigned mode = __builtin_ia32_stmxcsr();
    tr_fp_enter();
    pool->fn = fn;
    pool->arg = arg;
    if (pool->width > 1)
        begin_run(pool, pool->width);
    else
        pool->active = 1;
    fn(arg, 0, pool->width);
    tr_pool_barrier(pool);
    __builtin_ia32_ldmxcsr(mode);
}
