/*
 * Compute threads that go through phases together.
 *
 * Shares: who arrives last at the end of a phase sets the next one and lets the others go; nothing
 * else is synchronised. Tickets: one word holds the phase's number, the threads inside it and the
 * parts that are left, so that a thread takes a part only of the phase that it knows, and the last
 * to leave sets the next one. A thread that was away finds another number, and joins what is under
 * way then, be it another run.
 *
 * An idle helper waits for the word that counts runs; the word also says how many threads the run
 * is for, so that a helper that is not wanted never touches it. Words that several threads write
 * lie on lines of their own, so that spinning readers don't slow the counter down.
 *
 * Spinning is worth it only while every thread has a processor. With more threads than the affinity
 * mask or the cgroup quota gives, a spinner burns the time its partner needs, so the budget is 0
 * then. Otherwise it is fixed and longer than a wake-up takes (some 50 us in a virtual machine): a
 * budget that shrank after long waits would never recover, since a sleeper's own wake-up makes its
 * partner's next wait long. Tickets are for machines that others use: there a thread soon gives its
 * processor away.
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
    RUN_STEP = 4096,         /* a run's number times this, plus its mode and threads, is its word */
    RUN_TICKETS = 2048,      /* the mode */
    OVER = 1,                /* bit of the phase's word: no run is under way */
    PHASE_STEP = 2,          /* from one phase's word to the next */
    PARTS_PER_THREAD = 4,    /* with tickets */
    INSIDE_SHIFT = 20,       /* the word of tickets: phase << 32 | inside << 20 | parts left */
    SPIN_NS = 200000,        /* with shares */
    TICKETS_SPIN_NS = 20000, /* with tickets */
    PAUSES = 32,             /* between two looks at the clock */
    APART =
        128 /* bytes between words that different threads write: two lines, for the prefetcher */
};

struct helper {
    struct tr_pool *pool;
    int tid;
    pthread_t thread;
};

struct tr_pool {
    _Alignas(APART) _Atomic uint32_t arrived; /* threads that wait for this phase to end */
    _Alignas(APART) _Atomic uint64_t tickets; /* of this phase */
    _Alignas(APART) _Atomic uint32_t phase;   /* counts phases; a futex word */
    /* Read behind it, from the same line, and only by who takes part in the phase. */
    int n_parts;
    tr_pool_fn fn;
    void *arg;
    tr_pool_next next;                         /* NULL: one phase */
    _Alignas(APART) _Atomic uint32_t run;      /* counts runs, 0 threads: leave; a futex word */
    _Alignas(APART) _Atomic uint32_t sleepers; /* in either of the two */
    _Atomic int64_t spin_ns;                   /* 0: never spin */
    bool may_spin;                             /* every thread has a processor */
    bool by_tickets;                           /* mode of the next run, as is width */
    int width;                                 /* threads of the next run, caller included */
    int n_threads;
    int n_started;          /* workers that exist, for close */
    struct helper *workers; /* [n_threads]; entry 0 is the caller and unused */
};

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Waits until the word is no longer `value`: by spinning for the budget, then asleep. */
static void await(struct tr_pool *pool, _Atomic uint32_t *word, uint32_t value)
{
    int64_t spin_ns = atomic_load_explicit(&pool->spin_ns, memory_order_relaxed);
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

/* Opens a phase, its number being the word `phase`. */
static void open_phase(struct tr_pool *pool, uint32_t phase)
{
    if (pool->by_tickets)
        atomic_store_explicit(&pool->tickets, (uint64_t)phase << 32 | (uint64_t)pool->n_parts,
                              memory_order_release);
    atomic_store(&pool->phase, phase);
}

/* Opens the phase after `phase`, or ends the run. Only when nobody is inside. */
static void advance(struct tr_pool *pool, uint32_t phase, int tid)
{
    tr_pool_fn fn = pool->next ? pool->next(pool->arg, tid) : NULL;
    if (fn) {
        pool->fn = fn;
        open_phase(pool, phase + PHASE_STEP);
    } else {
        atomic_store(&pool->phase, phase | OVER);
    }
    wake(pool, &pool->phase);
}

/* Until the run is over: part tid of each phase. */
static void take_share(struct tr_pool *pool, int tid)
{
    /* The phase can't end before this thread has arrived. */
    uint32_t phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
    for (;;) {
        const struct tr_pool_part part = {.tid = tid, .i = tid, .n = pool->n_parts};
        pool->fn(pool->arg, &part);
        uint32_t before = atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel);
        if (before + 1 < (uint32_t)part.n) {
            await(pool, &pool->phase, phase);
        } else {
            atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
            advance(pool, phase, tid);
        }
        phase += PHASE_STEP;
        if (atomic_load_explicit(&pool->phase, memory_order_acquire) != phase)
            return;
    }
}

static uint32_t parts_left(uint64_t word)
{
    return (uint32_t)word & ((UINT32_C(1) << INSIDE_SHIFT) - 1);
}

/* Takes a part of the phase that `phase` numbers, if one is left; `enter`: this thread is not
 * inside yet. Returns how many were left with it, 0: none. */
static uint32_t take_ticket(struct tr_pool *pool, uint32_t phase, bool enter)
{
    uint64_t inside = enter ? UINT64_C(1) << INSIDE_SHIFT : 0;
    uint64_t word = atomic_load_explicit(&pool->tickets, memory_order_relaxed);
    do {
        if ((uint32_t)(word >> 32) != phase || parts_left(word) == 0)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&pool->tickets, &word, word + inside - 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return parts_left(word);
}

/* Until the run is over, or another one has begun: parts of any phase. */
static void take_tickets(struct tr_pool *pool, int tid, uint32_t run)
{
    for (;;) {
        uint32_t phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
        if ((phase & OVER) || atomic_load_explicit(&pool->run, memory_order_acquire) != run)
            return;
        uint32_t left = take_ticket(pool, phase, true);
        if (left == 0) {
            uint64_t word = atomic_load_explicit(&pool->tickets, memory_order_acquire);
            int32_t ahead = (int32_t)((uint32_t)(word >> 32) - phase);
            if (ahead < 0) /* this phase knows no tickets: another run's */
                return;
            if (ahead == 0)
                await(pool, &pool->phase, phase);
            continue;
        }
        struct tr_pool_part part = {.tid = tid, .n = pool->n_parts};
        for (; left; left = take_ticket(pool, phase, false)) {
            part.i = part.n - (int)left;
            pool->fn(pool->arg, &part);
        }
        /* No part is left, so nobody enters any more. */
        uint64_t one = UINT64_C(1) << INSIDE_SHIFT;
        uint64_t word = atomic_fetch_sub_explicit(&pool->tickets, one, memory_order_acq_rel) - one;
        if ((uint32_t)word == 0)
            advance(pool, phase, tid);
    }
}

static void take_part(struct tr_pool *pool, int tid, uint32_t run)
{
    if (run & RUN_TICKETS)
        take_tickets(pool, tid, run);
    else
        take_share(pool, tid);
}

/* Lets threads 1..n-1 begin; n 0: lets all leave. The run's word. */
static uint32_t begin_run(struct tr_pool *pool, int n)
{
    uint32_t runs = atomic_load_explicit(&pool->run, memory_order_relaxed) / RUN_STEP + 1;
    uint32_t run = runs * RUN_STEP + (pool->by_tickets ? RUN_TICKETS : 0) + (uint32_t)n;
    uint32_t phase = atomic_load_explicit(&pool->phase, memory_order_relaxed);
    if (n > 0) /* the number behind the last one's is left out: it would say that a run goes on */
        open_phase(pool, (phase | OVER) + 1 + PHASE_STEP);
    atomic_store(&pool->run, run);
    /* Of the run before somebody may still wait for a phase. */
    if (atomic_load(&pool->sleepers) > 0) {
        futex(&pool->phase, FUTEX_WAKE, INT_MAX);
        futex(&pool->run, FUTEX_WAKE, INT_MAX);
    }
    return run;
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
        int n = (int)(run % RUN_TICKETS);
        if (n == 0)
            return NULL;
        if (w->tid < n)
            take_part(pool, w->tid, run);
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
    pool->phase = OVER;
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
    begin_run(pool, 0);
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

void tr_pool_set_mode(struct tr_pool *pool, int n, bool tickets)
{
    pool->width = TR_MAX(1, TR_MIN(n, pool->n_threads));
    pool->by_tickets = tickets && pool->width > 1;
    atomic_store_explicit(&pool->spin_ns,
                          !pool->may_spin ? 0
                          : tickets       ? TICKETS_SPIN_NS
                                          : SPIN_NS,
                          memory_order_relaxed);
}

int tr_pool_parts(const struct tr_pool *pool)
{
    return pool->by_tickets ? pool->width * PARTS_PER_THREAD : pool->width;
}

static void run_alone(tr_pool_fn fn, tr_pool_next next, void *arg)
{
    const struct tr_pool_part all = {.n = 1};
    while (fn) {
        fn(arg, &all);
        fn = next ? next(arg, 0) : NULL;
    }
}

/* The phase fn, then those that `next` names; either may be NULL. */
static void run(struct tr_pool *pool, tr_pool_fn fn, tr_pool_next next, void *arg)
{
    /* The caller computes under the same rules as the workers, and gets its own mode back. */
    unsigned mode = __builtin_ia32_stmxcsr();
    tr_fp_enter();
    if (!fn && next)
        fn = next(arg, 0);
    if (pool->width == 1 || !fn) {
        run_alone(fn, next, arg);
    } else {
        pool->fn = fn;
        pool->next = next;
        pool->arg = arg;
        pool->n_parts = tr_pool_parts(pool);
        take_part(pool, 0, begin_run(pool, pool->width));
    }
    __builtin_ia32_ldmxcsr(mode);
}

void tr_pool_run_phases(struct tr_pool *pool, tr_pool_next next, void *arg)
{
    run(pool, NULL, next, arg);
}

void tr_pool_run(struct tr_pool *pool, tr_pool_fn fn, void *arg)
{
    run(pool, fn, NULL, arg);
}
