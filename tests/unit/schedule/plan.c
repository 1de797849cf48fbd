/* Whose turn it is: decode first, priorities, short ones beside long ones, tenants in fair shares.
 * */
#include "tests/unit/schedule/steps.h"

enum { ROWS = 64 };

static void decode_comes_first(void **state)
{
    (void)state;
    steps_open(ROWS, 16, 1000);
    for (int k = 0; k < 5; k++)
        steps_add(k, 1, 100, 0, 0);
    steps_run();
    steps_add(5, 1000, 10, 0, 0);
    int before = steps_seqs[0].seq.n_ids;
    for (int turn = 0; turn < 10; turn++) {
        assert_int_equal(steps_run(), ROWS);
        assert_int_equal(steps_seqs[5].seq.planned, ROWS - 5);
    }
    for (int k = 0; k < 5; k++) /* none missed a step */
        assert_int_equal(steps_seqs[k].seq.n_ids, before + 10);
    steps_close();
}

/* Ids that the owner appends beside the last one are decoding, too: they go along with it, wherever
 * others wait for rows, and to the end of its page. */
static void known_ids_go_along(void **state)
{
    (void)state;
    struct tr_seq *seq = &steps_seqs[0].seq;
    steps_open(ROWS, 16, 1000);
    steps_add(0, 3, 400, 0, 0);
    steps_run();
    steps_add(1, 3000, 10, 1, 0);
    steps_add(2, 3000, 10, 2, 0);
    for (int turn = 0; turn < 60; turn++) {
        int left = seq->n_ids - seq->n_computed;
        if (left == 1) {
            seq->n_ahead = turn * 5 % 8;
            for (int i = 0; i < seq->n_ahead; i++)
                seq->ids[seq->n_ids++] = 900 + turn;
            left += seq->n_ahead;
        }
        int page_left = STEPS_PAGE - seq->n_computed % STEPS_PAGE;
        assert_int_equal(steps_run(), ROWS);
        assert_int_equal(seq->planned, TR_MIN(left, page_left));
    }
    steps_close();
}

static void short_ones_pass(void **state)
{
    (void)state;
    steps_open(ROWS, 16, 1000);
    steps_add(0, 2000, 10, 0, 0);
    steps_run();
    steps_add(1, 40, 10, 0, 0);
    steps_run();
    steps_run(); /* half of 64 rows a step */
    assert_true(steps_seqs[1].seq.n_ids > steps_seqs[1].seq.n_prompt);
    int long_before = steps_seqs[0].seq.n_computed;
    steps_add(2, 500, 10, 0, 0);
    steps_run();
    assert_true(steps_seqs[0].seq.n_computed - long_before >=
                (ROWS - 1) / 2 - STEPS_PAGE); /* and is not starved */
    steps_close();
}

static void priorities(void **state)
{
    (void)state;
    steps_open(ROWS, 1, 1000);
    steps_add(0, 10, 5, 0, 0);
    steps_run();
    steps_add(1, 10, 5, 0, 5);
    steps_add(2, 10, 5, 0, 0);
    steps_add(3, 10, 5, 0, -5);
    int order[3];
    int n = 0;
    for (int turn = 0; turn < 100 && n < 3; turn++) {
        steps_run();
        for (int k = 1; k < 4; k++)
            if (steps_seqs[k].seq.running && (n == 0 || order[n - 1] != k))
                order[n++] = k;
    }
    assert_int_equal(order[0], 3);
    assert_int_equal(order[1], 2);
    assert_int_equal(order[2], 1);
    steps_close();
}

/* A tenant that floods the queue does not keep another one waiting behind all of it. */
static void tenants_share(void **state)
{
    (void)state;
    steps_open(ROWS, 2, 1000);
    for (int k = 0; k < 20; k++)
        steps_add(k, 30, 30, 1, 0);
    for (int turn = 0; turn < 40; turn++)
        steps_run();
    steps_add(20, 30, 30, 2, 0);
    steps_add(21, 30, 30, 2, 0);
    int flooded = 0;
    for (int turn = 0; turn < 1000 && steps_seqs[21].seq.max_ids; turn++) {
        bool was[20];
        for (int k = 0; k < 20; k++)
            was[k] = steps_seqs[k].seq.running;
        steps_run();
        for (int k = 0; k < 20; k++)
            flooded += !was[k] && steps_seqs[k].seq.running;
    }
    assert_int_equal(steps_seqs[21].seq.max_ids, 0);
    assert_in_range(flooded, 0, 3);
    steps_close();
}

/* A big one at the head of the line is not overtaken for ever by small ones behind it. */
static void no_overtaking_for_memory(void **state)
{
    (void)state;
    steps_open(ROWS, 8, 60);
    steps_add(0, 200, 60, 0, 0);
    steps_run();
    steps_add(1, 500, 60, 0, 0); /* does not fit beside */
    steps_add(2, 10, 5, 0, 0);
    const struct tr_plan *plan = tr_schedule_plan(steps_schedule);
    assert_true(plan->blocked);
    assert_false(steps_seqs[1].seq.running || steps_seqs[2].seq.running);
    while (steps_seqs[0].seq.max_ids)
        steps_run();
    steps_run();
    assert_true(steps_seqs[1].seq.running);
    steps_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_comes_first), cmocka_unit_test(known_ids_go_along),
        cmocka_unit_test(short_ones_pass),    cmocka_unit_test(priorities),
        cmocka_unit_test(tenants_share),      cmocka_unit_test(no_overtaking_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
