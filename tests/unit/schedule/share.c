/* Fair shares from unequal starts: what a tenant was given or denied before is soon forgotten, many
 * samples leave room for others, and no running stream waits for others to end. */
#include "tests/unit/schedule/steps.h"

enum { ROWS = 512, SEATS = 64, PAGES = 200000 };

static int first_token_of(int k, int most)
{
    int begun = steps_now;
    while (!steps_seqs[k].first_step && steps_now < begun + most)
        steps_run();
    return steps_seqs[k].first_step ? steps_seqs[k].first_step - begun : most;
}

/* Tenant 1 was alone with its prompts for long, beside a stream of tenant 2; then 2 sends a flood.
 * Neither 1 nor a tenant that never asked before pays for that. */
static void past_is_forgotten(void **state)
{
    (void)state;
    for (int idle = 0; idle < 2; idle++) {
        steps_open(ROWS, SEATS, PAGES);
        steps_add(0, 10, 100000, 2, 0);
        steps_seqs[0].seq.paused = idle;
        for (int turn = 0, k = 0; turn < 1000; turn++) {
            if (!steps_seqs[1 + k % 2].seq.max_ids)
                steps_add(1 + k++ % 2, 2000, 1, 1, 0);
            steps_run();
        }
        for (int k = 10; k < 60; k++)
            steps_add(k, 20000, 1, 2, 0);
        for (int turn = 0; turn < 5; turn++)
            steps_run();
        steps_add(100, 100, 4, 1, 0);
        steps_add(101, 100, 4, 3, 0);
        /* Two shares of 100 rows, and at most a step's debt. */
        assert_in_range(first_token_of(100, 100), 1, 3);
        assert_in_range(first_token_of(101, 100), 0, 2);
        steps_close();
    }
}

/* A tenant that had to wait for memory while another computed a long prompt has no credit of all
 * those rows afterwards: it gets its share, not everything. */
static void credit_is_capped(void **state)
{
    (void)state;
    steps_open(ROWS, SEATS, 4500);
    steps_add(0, 60000, 1, 2, 0);
    steps_run();
    steps_add(1, 60000, 1, 1, 0);
    for (int turn = 0; turn < 100; turn++)
        steps_run();
    assert_false(steps_seqs[1].seq.running);
    steps_leave(0);
    steps_run();
    assert_true(steps_seqs[1].seq.running);
    steps_add(2, 100, 1, 2, 0);
    assert_in_range(first_token_of(2, 200), 1, 3);
    steps_close();
}

/* Two tenants with long prompts get the same number of rows, whoever began earlier. */
static void shares_are_even(void **state)
{
    (void)state;
    steps_open(ROWS, SEATS, PAGES);
    steps_add(0, 200000, 1, 1, 0);
    for (int turn = 0; turn < 100; turn++)
        steps_run();
    int before = steps_seqs[0].seq.n_computed;
    steps_add(1, 200000, 1, 2, 0);
    for (int turn = 0; turn < 100; turn++)
        steps_run();
    int a = steps_seqs[0].seq.n_computed - before;
    int b = steps_seqs[1].seq.n_computed;
    assert_int_equal(a + b, 100 * ROWS);
    assert_in_range(b - a + 2 * ROWS, ROWS, 3 * ROWS);
    steps_close();
}

/* Of prompts the heavier one gets its multiple of rows. */
static void prompts_go_by_weight(void **state)
{
    (void)state;
    steps_open(ROWS, SEATS, PAGES);
    for (int k = 0; k < 2; k++) {
        steps_add(k, 200000, 1, (uint64_t)k + 1, 0);
        steps_seqs[k].seq.weight = k ? 3 : 1;
    }
    for (int turn = 0; turn < 100; turn++)
        steps_run();
    int light = steps_seqs[0].seq.n_computed, heavy = steps_seqs[1].seq.n_computed;
    assert_int_equal(light + heavy, 100 * ROWS);
    assert_in_range(light, 100 * ROWS / 4 - ROWS, 100 * ROWS / 4 + ROWS);
    steps_close();
}

/* Of answers, where both always have more requests than there are seats: also where the light one
 * had all seats before. */
static void answers_go_by_weight(void **state)
{
    (void)state;
    enum { EACH = 40, ANSWER = 20, STEPS = 2000 };
    for (int head_start = 0; head_start < 2; head_start++) {
        int ended[2] = {0, 0};
        bool there[2 * EACH] = {false};
        steps_open(ROWS, 8, PAGES);
        for (int turn = 0; turn < STEPS; turn++) {
            for (int k = 0; k < 2 * EACH; k++) {
                if (steps_seqs[k].seq.max_ids || (head_start && k % 2 && turn < 100))
                    continue;
                ended[k % 2] += there[k] && turn > 200;
                there[k] = true;
                steps_add(k, 30, ANSWER, (uint64_t)(k % 2) + 1, 0);
                steps_seqs[k].seq.weight = k % 2 ? 3 : 1;
            }
            steps_run();
        }
        assert_in_range(ended[0], 150, 250); /* some 1,800 steps of 2 seats of the 8 */
        assert_in_range(ended[1] * 10, ended[0] * 27, ended[0] * 33);
        steps_close();
    }
}

/* Priority orders a tenant's own requests; other tenants are not put back by it, unless it may. */
static void priority_within_a_tenant(void **state)
{
    (void)state;
    for (int across = 0; across < 2; across++) {
        steps_open(ROWS, 4, PAGES);
        for (int k = 0; k < 40; k++) {
            steps_add(k, 100, 30, 1, -1000 + k % 2);
            steps_seqs[k].seq.across = across;
        }
        for (int turn = 0; turn < 5; turn++)
            steps_run();
        for (int k = 0; k < 40; k++) /* the better half first */
            assert_true(!steps_seqs[k].seq.running || k % 2 == 0);
        steps_add(50, 100, 1, 2, 0);
        int first = first_token_of(50, 1000);
        if (across)
            assert_in_range(first, 200, 400); /* after 40 answers of 30 tokens on 4 seats */
        else
            assert_in_range(first, 1, 2);
        steps_close();
    }
}

/* One request of more samples than there are seats: a request that comes later is served at once,
 * its stream misses no step, and no sample waits for others to end. */
static void samples_run_beside_others(void **state)
{
    (void)state;
    steps_open(ROWS, SEATS, PAGES);
    steps_add_samples(0, 128, 1000, 300, 0);
    for (int turn = 0; turn < 10; turn++)
        steps_run();
    assert_true(steps_seqs[127].first_step > 0);
    steps_add(200, 20, 100, 0, 0);
    assert_in_range(first_token_of(200, 1000), 1, 1);
    while (steps_seqs[200].seq.max_ids)
        steps_run();
    assert_in_range(steps_seqs[200].gap, 0, 1);
    for (int k = 0; k < 128; k++)
        assert_in_range(steps_seqs[k].gap, 1, 4);
    steps_close();
}

/* Even where there are seats for two only, and more samples than may run at all. */
static void few_seats_go_round(void **state)
{
    (void)state;
    steps_open(ROWS, 2, PAGES);
    steps_add_samples(0, 100, 100, 40, 0);
    steps_run();
    steps_add(200, 20, 30, 0, 0);
    steps_add(201, 20, 30, 7, 0);
    assert_in_range(first_token_of(201, 1000), 1, 2);
    assert_in_range(first_token_of(200, 1000), 0, 40); /* when the other one has ended */
    steps_seqs[200].gap = 0;
    while (steps_seqs[0].seq.max_ids || steps_seqs[99].seq.max_ids || steps_seqs[200].seq.max_ids)
        steps_run();
    assert_in_range(steps_seqs[200].gap, 1, 8);
    assert_in_range(steps_seqs[201].gap, 1, 2);
    steps_close();
}

/* Streams that were paused come back: they and those that took their seats go on by turns. */
static void woken_streams_go_round(void **state)
{
    (void)state;
    steps_open(ROWS, 4, PAGES);
    for (int k = 0; k < 4; k++)
        steps_add(k, 20, 1000, 0, 0);
    for (int turn = 0; turn < 10; turn++)
        steps_run();
    for (int k = 0; k < 4; k++)
        steps_seqs[k].seq.paused = true;
    for (int k = 4; k < 8; k++)
        steps_add(k, 20, 1000, 0, 0);
    for (int turn = 0; turn < 10; turn++)
        steps_run();
    for (int k = 0; k < 4; k++) {
        steps_seqs[k].seq.paused = false;
        steps_seqs[k].last_step = steps_now;
    }
    for (int turn = 0; turn < 200; turn++)
        steps_run();
    for (int k = 0; k < 8; k++) {
        assert_in_range(steps_seqs[k].gap, 1, 2);
        assert_in_range(steps_seqs[k].seq.n_ids, 119, 131);
    }
    steps_close();
}

/* A prompt that needs the memory of paused sequences gets it; they are computed again later. */
static void paused_ones_give_way(void **state)
{
    (void)state;
    steps_open(ROWS, 8, 100);
    steps_add(0, 400, 600, 0, 0);
    for (int turn = 0; turn < 50; turn++)
        steps_run();
    steps_seqs[0].seq.paused = true;
    steps_add(1, 700, 20, 0, 0);
    assert_in_range(first_token_of(1, 100), 1, 3);
    assert_int_equal(steps_seqs[0].seq.n_preempted, 1);
    steps_seqs[0].seq.paused = false;
    while (steps_seqs[0].seq.max_ids) {
        assert_true(steps_now < 2000);
        steps_run();
    }
    steps_close();
}

/* What a long prompt looks for among the pages of others is linear in its length, whether nothing
 * is there (without global layers nothing ends the search early), or all but the tails. */
static void looks_are_linear(void **state)
{
    (void)state;
    enum { PROMPT = 64000, MOST = 20 * PROMPT / STEPS_PAGE };
    for (int global = 0; global < 2; global++) {
        steps_open_kinds(64, SEATS, PAGES, true, global);
        steps_add(0, PROMPT, 1, 0, 0);
        while (steps_seqs[0].seq.max_ids)
            steps_run();
        assert_in_range(tr_schedule_counts(steps_schedule).pages_looked, 1000, MOST);
        steps_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_is_forgotten),         cmocka_unit_test(credit_is_capped),
        cmocka_unit_test(shares_are_even),           cmocka_unit_test(priority_within_a_tenant),
        cmocka_unit_test(prompts_go_by_weight),      cmocka_unit_test(answers_go_by_weight),
        cmocka_unit_test(samples_run_beside_others), cmocka_unit_test(few_seats_go_round),
        cmocka_unit_test(woken_streams_go_round),    cmocka_unit_test(paused_ones_give_way),
        cmocka_unit_test(looks_are_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
