/* The choice of threads, with a machine that is told how fast each way is: it comes to the best way, costs little while
 * it does, and goes back when the machine is quiet. */
#include "engine/machine/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MS = 1000000 };

/* Nanoseconds of a step of work 1 by way, and the part of the time that the stepping thread is off the processor. */
struct machine {
    int64_t step_ns[TR_PACE_WAYS];
    double lost;
};

/* Runs for `ns` of step time; the work done. */
static double run(struct tr_pace *p, const struct machine *m, int64_t ns)
{
    double work = 0.0;
    for (int64_t done = 0; done < ns;) {
        int64_t step = m->step_ns[tr_pace_way(p, 1)];
        done += step;
        work += 1.0;
        tr_pace_take(p, 1, 1.0, step, (int64_t)((double)step * (1.0 - m->lost)));
    }
    return work;
}

static struct tr_pool *pool;

static int open_pool(void **state)
{
    (void)state;
    return tr_pool_open(&pool, 4, NULL);
}

static int close_pool(void **state)
{
    (void)state;
    pool = tr_pool_close(pool);
    return 0;
}

static void test_a_quiet_machine_keeps_all_threads(void **state)
{
    (void)state;
    struct tr_pace p;
    const struct machine quiet = {{1 * MS, 2 * MS, 3 * MS, 2 * MS}, 0.02};
    tr_pace_init(&p, pool, true);
    assert_int_equal(p.n_ways, 4);
    for (int i = 0; i < 1000; i++) {
        run(&p, &quiet, 100 * MS);
        assert_int_equal(p.way, 0);
    }
}

static void test_every_way_can_be_the_best(void **state)
{
    (void)state;
    for (int best = 0; best < 4; best++) {
        struct tr_pace p;
        struct machine busy = {{20 * MS, 20 * MS, 20 * MS, 20 * MS}, 0.5};
        busy.step_ns[best] = 1 * MS;
        tr_pace_init(&p, pool, true);
        run(&p, &busy, 1000 * (int64_t)MS);
        /* from then on what trials cost is little */
        double done = run(&p, &busy, 20000 * (int64_t)MS);
        assert_in_range((int64_t)done, 17000, 20000);
        assert_int_equal(p.best, best);
    }
}

static void test_it_goes_back(void **state)
{
    (void)state;
    struct tr_pace p;
    const struct machine busy = {{50 * MS, 40 * MS, 1 * MS, 2 * MS}, 0.5};
    const struct machine quiet = {{1 * MS, 2 * MS, 3 * MS, 2 * MS}, 0.01};
    tr_pace_init(&p, pool, true);
    run(&p, &busy, 60000 * (int64_t)MS);
    assert_int_equal(p.best, 2);
    run(&p, &quiet, 10000 * (int64_t)MS);
    assert_int_equal(p.best, 0);
    assert_int_equal(p.way, 0);
}

/* Steps of another kind, whose work a second says something else, take no part in a trial, wherever
 * they fall. */
static void test_kinds_are_not_mixed(void **state)
{
    (void)state;
    for (int shift = 0; shift < 60; shift++) {
        struct tr_pace p;
        const struct machine busy = {{10 * MS, 12 * MS, 8 * MS, 20 * MS}, 0.5};
        tr_pace_init(&p, pool, true);
        for (int i = 0; i < 1000; i++) {
            int rows = (i + shift) / 3 % 2 ? 1 : 32;
            int64_t step = busy.step_ns[tr_pace_way(&p, rows)];
            tr_pace_take(&p, rows, rows == 1 ? 3.0 : 1.0, step, step / 2);
        }
        assert_int_equal(p.best, 2);
    }
}

/* A kind that comes no more leaves its trial without a result. */
static void test_a_trial_ends(void **state)
{
    (void)state;
    struct tr_pace p;
    const struct machine busy = {{10 * MS, 5 * MS, 5 * MS, 5 * MS}, 0.5};
    tr_pace_init(&p, pool, true);
    while (!p.is_trial)
        run(&p, &busy, 10 * MS);
    for (int i = 0; i < 100 && p.is_trial; i++)
        tr_pace_take(&p, 512, 1.0, 10 * MS, -1);
    assert_false(p.is_trial);
    assert_int_equal(p.best, 0);
}

/* One long step is enough to know a way. */
static void test_long_steps(void **state)
{
    (void)state;
    struct tr_pace p;
    const struct machine busy = {{900 * MS, 700 * MS, 300 * MS, 800 * MS}, 0.5};
    tr_pace_init(&p, pool, true);
    run(&p, &busy, 12000 * (int64_t)MS);
    assert_int_equal(p.best, 2);
}

/* A fixed number of threads: only how they are given work changes. */
static void test_fixed(void **state)
{
    (void)state;
    struct tr_pace p;
    const struct machine busy = {{20 * MS, 1 * MS}, 0.5};
    tr_pace_init(&p, pool, false);
    assert_int_equal(p.n_ways, 2);
    for (int i = 0; i < p.n_ways; i++)
        assert_int_equal(p.ways[i].threads, 4);
    run(&p, &busy, 2000 * (int64_t)MS);
    assert_int_equal(p.best, 1);
    for (int i = 0; i < 10; i++) {
        tr_pace_begin(&p, 1);
        assert_true(tr_pool_parts(pool) > 4);
        tr_pace_end(&p, 1, 1.0);
    }
}

static void test_one_thread(void **state)
{
    (void)state;
    struct tr_pool *one = NULL;
    struct tr_pace p;
    assert_int_equal(tr_pool_open(&one, 1, NULL), 0);
    tr_pace_init(&p, one, true);
    assert_int_equal(p.n_ways, 1);
    tr_pace_begin(&p, 1);
    tr_pace_end(&p, 1, 1.0);
    tr_pool_close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quiet_machine_keeps_all_threads),
        cmocka_unit_test(test_every_way_can_be_the_best),
        cmocka_unit_test(test_it_goes_back),
        cmocka_unit_test(test_kinds_are_not_mixed),
        cmocka_unit_test(test_a_trial_ends),
        cmocka_unit_test(test_long_steps),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_one_thread),
    };
    return cmocka_run_group_tests(tests, open_pool, close_pool);
}
