/* The compute threads: every part is computed once, phases order what was written, sleepers wake, and who is late is not
 * waited for. */
#include "engine/machine/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_THREADS = 8, MAX_PARTS = 256, ROUNDS = 500 };

struct shared {
    struct tr_pool *pool;
    int seen[MAX_PARTS]; /* by part; plain memory: only the phases order it */
    int phase, n_phases;
    int n_parts;
    int errors;
    bool slow; /* some thread is late in some parts */
    atomic_int calls, done, held;
};

static void count(void *arg, const struct tr_pool_part *part)
{
    struct shared *s = arg;
    s->seen[part->i]++;
    if (part->i == 0)
        s->n_parts = part->n;
    if (s->slow && part->tid == part->n / 2)
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    atomic_fetch_add(&s->calls, 1);
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
        assert_int_equal(s.n_parts, n);
        assert_null(tr_pool_close(s.pool));
    }
}

/* Between two phases: every part of the last one was computed, once. */
static tr_pool_fn next(void *arg, int tid)
{
    struct shared *s = arg;
    (void)tid;
    for (int i = 0; i < tr_pool_parts(s->pool); i++)
        if (s->seen[i] != s->phase)
            s->errors++;
    return s->phase++ < s->n_phases ? count : NULL;
}

static void run_phases(struct shared *s, int n)
{
    for (int i = 0; i < MAX_PARTS; i++)
        s->seen[i] = 0;
    s->phase = 0;
    s->n_phases = n;
    tr_pool_run_phases(s->pool, next, s);
    assert_int_equal(s->errors, 0);
    assert_int_equal(s->phase, n + 1);
}

static void test_phases_order(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++) {
        struct shared s = {.pool = open_pool(n)};
        for (int tickets = 0; tickets < 2; tickets++) {
            tr_pool_set_mode(s.pool, n, tickets);
            run_phases(&s, ROUNDS / 5);
            assert_int_equal(s.n_parts, tr_pool_parts(s.pool));
            run_phases(&s, 0);
        }
        tr_pool_close(s.pool);
    }
}

/* Runs of every width in turn, by shares or by tickets, some with threads that are late: who missed the end of a run
 * joins another. */
static void test_modes_change(void **state)
{
    (void)state;
    struct shared s = {.pool = open_pool(4)};
    for (int i = 0; i < ROUNDS; i++) {
        tr_pool_set_mode(s.pool, i * 7 % 5, i % 3 != 0); /* 0 is cut to 1 */
        s.slow = i % 50 == 0;
        run_phases(&s, i % 8);
    }
    tr_pool_close(s.pool);
}

/* A helper keeps its part until all the others are done. */
static void hold(void *arg, const struct tr_pool_part *part)
{
    struct shared *s = arg;
    const struct timespec moment = {.tv_nsec = 100000};
    if (part->tid == 0) {
        nanosleep(&moment, NULL);
        atomic_fetch_add(&s->done, 1);
        return;
    }
    atomic_fetch_add(&s->held, 1);
    for (int i = 0; i < 100000 && atomic_load(&s->done) < part->n - 1; i++)
        nanosleep(&moment, NULL);
    atomic_fetch_add(&s->done, 1);
    atomic_fetch_add(&s->calls, atomic_load(&s->done) < part->n);
}

static void test_a_late_thread_costs_one_part(void **state)
{
    (void)state;
    struct shared s = {.pool = open_pool(2)};
    tr_pool_set_mode(s.pool, 2, true);
    assert_true(tr_pool_parts(s.pool) > 2);
    for (int i = 0; i < ROUNDS && s.held < 3; i++) {
        s.done = 0;
        tr_pool_run(s.pool, hold, &s);
        assert_int_equal(s.done, tr_pool_parts(s.pool));
    }
    assert_int_equal(s.held, 3);
    assert_int_equal(s.calls, 0);
    tr_pool_close(s.pool);
}

/* One thread keeps the others waiting for longer than they spin. */
static void test_sleepers_wake(void **state)
{
    (void)state;
    struct shared s = {.pool = open_pool(3), .slow = true};
    for (int tickets = 0; tickets < 2; tickets++) {
        tr_pool_set_mode(s.pool, 3, tickets);
        run_phases(&s, 20);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* idle workers sleep too */
    }
    tr_pool_close(s.pool);
}

/* FTZ and DAZ hold inside a run, on the caller too, and not after it. */
static void denormal(void *arg, const struct tr_pool_part *part)
{
    volatile float tiny = 1e-38F;
    volatile float quarter = tiny * 0.25F;
    (void)part;
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
    denormal(&kept, NULL);
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
        cmocka_unit_test(test_every_thread_runs),
        cmocka_unit_test(test_phases_order),
        cmocka_unit_test(test_modes_change),
        cmocka_unit_test(test_a_late_thread_costs_one_part),
        cmocka_unit_test(test_sleepers_wake),
        cmocka_unit_test(test_float_mode),
        cmocka_unit_test(test_bad_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
