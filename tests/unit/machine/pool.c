/* The compute threads: everyone runs, barriers order what was written, sleepers wake. */
#include "engine/machine/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_THREADS = 8, ROUNDS = 500 };

struct shared {
    struct tr_pool *pool;
    int seen[MAX_THREADS]; /* plain memory: only the barriers order it */
    int n_threads;
    atomic_int calls;
};

static void count(void *arg, int tid, int n_threads)
{
    struct shared *s = arg;
    s->seen[tid]++;
    if (tid == 0)
        s->n_threads = n_threads;
    atomic_fetch_add(&s->calls, 1);
}

/* The same with barriers before it, one thread being late. */
static void linger_briefly(void *arg, int tid, int n_threads)
{
    struct shared *s = arg;
    if (tid == n_threads - 1)
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    tr_pool_barrier(s->pool);
    tr_pool_barrier(s->pool);
    count(arg, tid, n_threads);
}

static struct tr_pool *open_pool(int n)
{
    struct tr_pool *pool = NULL;
    assert_int_equal(tr_pool_open(&pool, n, NULL), 0);
    assert_int_equal(tr_pool_threads(pool), n);
    return pool;
}

static void test_every_thread_runs(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct shared s = {.pool = open_pool(n)};
        for (int i = 0; i < ROUNDS; i++)
            tr_pool_run(s.pool, count, &s);
        for (int t = 0; t < MAX_THREADS; t++)
            assert_int_equal(s.seen[t], t < n ? ROUNDS : 0);
        assert_int_equal(s.calls, n * ROUNDS);
        assert_int_equal(s.n_threads, n);
        assert_null(tr_pool_close(s.pool));
    }
}

/* Each round every thread writes its own number and, behind a barrier, reads all the others'. */
static void exchange(void *arg, int tid, int n_threads)
{
    struct shared *s = arg;
    for (int i = 1; i <= ROUNDS; i++) {
        s->seen[tid] = i;
        tr_pool_barrier(s->pool);
        for (int t = 0; t < n_threads; t++) {
            if (s->seen[t] != i)
                atomic_fetch_add(&s->calls, 1);
        }
        tr_pool_barrier(s->pool);
    }
}

static void test_barrier_orders(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct shared s = {.pool = open_pool(n)};
        tr_pool_run(s.pool, exchange, &s);
        assert_int_equal(s.calls, 0);
        tr_pool_close(s.pool);
    }
}

/* Runs of every width in turn, spinning or not, with barriers inside: exactly those threads take part. */
static void test_width_changes(void **state)
{
    (void)state;
    struct shared s = {.pool = open_pool(4)};
    int want[MAX_THREADS] = {0};
    for (int i = 0; i < 4 * ROUNDS; i++) {
        int n = i * 7 % 5; /* 0 is cut to 1 */
        tr_pool_set_width(s.pool, n, i % 3 == 0);
        tr_pool_run(s.pool, i % 50 ? count : linger_briefly, &s);
        for (int t = 0; t < TR_MAX(n, 1); t++)
            want[t]++;
    }
    for (int t = 0; t < MAX_THREADS; t++)
        assert_int_equal(s.seen[t], want[t]);
    tr_pool_close(s.pool);
}

/* One thread keeps the others waiting for longer than they spin. */
static void linger(void *arg, int tid, int n_threads)
{
    struct shared *s = arg;
    for (int late = 0; late < n_threads; late++) {
        if (tid == late)
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        s->seen[tid]++;
        tr_pool_barrier(s->pool);
        for (int t = 0; t < n_threads; t++) {
            if (s->seen[t] != late + 1)
                atomic_fetch_add(&s->calls, 1);
        }
        tr_pool_barrier(s->pool);
    }
}

static void test_sleepers_wake(void **state)
{
    (void)state;
    struct shared s = {.pool = open_pool(3)};
    tr_pool_run(s.pool, linger, &s);
    assert_int_equal(s.calls, 0);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* idle workers sleep too */
    tr_pool_run(s.pool, count, &s);
    assert_int_equal(s.calls, 3);
    tr_pool_close(s.pool);
}

/* FTZ and DAZ hold inside a run, on the caller too, and not after it. */
static void denormal(void *arg, int tid, int n_threads)
{
    volatile float tiny = 1e-38F;
    volatile float quarter = tiny * 0.25F;
    (void)tid;
    (void)n_threads;
    if (quarter != 0.0F)
        atomic_fetch_add((atomic_int *)arg, 1);
}

static void test_float_mode(void **state)
{
    (void)state;
    atomic_int kept = 0;
    struct tr_pool *pool = open_pool(2);
    tr_pool_run(pool, denormal, &kept);
    assert_int_equal(kept, 0);
    denormal(&kept, 0, 1);
    assert_int_equal(kept, 1);
    tr_pool_close(pool);
}

static void test_bad_sizes(void **state)
{
    (void)state;
    struct tr_pool *pool = NULL;
    struct tr_err err;
    assert_int_equal(tr_pool_open(&pool, 0, &err), TR_EINVAL);
    assert_int_equal(tr_pool_open(&pool, 1 << 20, &err), TR_EINVAL);
    assert_null(pool);
    assert_string_equal(err.param, "threads");
    assert_null(tr_pool_close(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_thread_runs), cmocka_unit_test(test_barrier_orders),
        cmocka_unit_test(test_width_changes),     cmocka_unit_test(test_sleepers_wake),
        cmocka_unit_test(test_float_mode),        cmocka_unit_test(test_bad_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
