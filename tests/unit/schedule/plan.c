/* Whose turn it is: decode first, priorities, short ones beside long ones, tenants in fair shares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/schedule/schedule.h"

enum { PAGE = 16, ROWS = 64, MAX = 32 };

static struct tr_kv_layout local_layout, global_layout;
static struct tr_pages *pages;
static struct tr_schedule *schedule;
static struct tr_seq seqs[MAX];

static void open_all(int max_sequences, int budget_pages)
{
    struct tr_err err;
    tr_kv_layout_init(&local_layout, TR_KV_F32, PAGE, 1, 1, 2);
    tr_kv_layout_init(&global_layout, TR_KV_F32, PAGE, 1, 1, 2);
    uint64_t cost = tr_local_page_cost(&local_layout);
    struct tr_pages_options po = {
        .local = &local_layout, .global = &global_layout, .budget_bytes = budget_pages * cost};
    assert_int_equal(tr_pages_open(&pages, &po, &err), 0);
    struct tr_schedule_options o = {.pages = pages,
                                    .shape = {PAGE, 32, true, true},
                                    .budget_bytes = po.budget_bytes,
                                    .local_page_cost = cost,
                                    .global_page_cost = cost,
                                    .max_rows = ROWS,
                                    .max_sequences = max_sequences,
                                    .prefix_cache = true};
    assert_int_equal(tr_schedule_open(&schedule, &o), 0);
    memset(seqs, 0, sizeof seqs);
}

static void add(int k, int n_prompt, int answer, uint64_t tenant, int priority)
{
    const uint64_t salt[2] = {0};
    int32_t *prompt = calloc((size_t)n_prompt, sizeof *prompt);
    prompt[0] = k; /* no two begin alike */
    assert_int_equal(tr_seq_init(&seqs[k], schedule, prompt, n_prompt, n_prompt + answer), 0);
    free(prompt);
    seqs[k].tenant = tenant;
    seqs[k].priority = priority;
    tr_schedule_add(schedule, &seqs[k], salt);
}

static void leave(int k)
{
    tr_schedule_remove(schedule, &seqs[k]);
    tr_seq_done(&seqs[k]);
}

static void close_all(void)
{
    for (int k = 0; k < MAX; k++)
        if (seqs[k].ids)
            leave(k);
    assert_int_equal(tr_pages_held(pages), 0);
    schedule = tr_schedule_close(schedule);
    pages = tr_pages_close(pages);
}

/* One step; sequences that are complete get another id until they are full. */
static int step(void)
{
    const struct tr_plan *plan = tr_schedule_plan(schedule);
    struct tr_seq *planned[MAX];
    int n = plan->n;
    int rows = plan->rows;
    memcpy(planned, plan->seqs, (size_t)n * sizeof(struct tr_seq *));
    for (int i = 0; i < n; i++) {
        tr_schedule_advance(schedule, planned[i], planned[i]->planned);
        if (planned[i]->n_computed == planned[i]->n_ids)
            planned[i]->ids[planned[i]->n_ids++] = 1;
        if (planned[i]->n_ids == planned[i]->max_ids)
            leave((int)(planned[i] - seqs));
    }
    return rows;
}

static void decode_comes_first(void **state)
{
    (void)state;
    open_all(16, 1000);
    for (int k = 0; k < 5; k++)
        add(k, 1, 100, 0, 0);
    step();
    add(5, 1000, 10, 0, 0);
    int before = seqs[0].n_ids;
    for (int turn = 0; turn < 10; turn++) {
        assert_int_equal(step(), ROWS);
        assert_int_equal(seqs[5].planned, ROWS - 5);
    }
    for (int k = 0; k < 5; k++) /* none missed a step */
        assert_int_equal(seqs[k].n_ids, before + 10);
    close_all();
}

static void short_ones_pass(void **state)
{
    (void)state;
    open_all(16, 1000);
    add(0, 2000, 10, 0, 0);
    step();
    add(1, 40, 10, 0, 0);
    step();
    step(); /* half of 64 rows a step */
    assert_true(seqs[1].n_ids > seqs[1].n_prompt);
    int long_before = seqs[0].n_computed;
    add(2, 500, 10, 0, 0);
    step();
    assert_true(seqs[0].n_computed - long_before >= (ROWS - 1) / 2 - PAGE); /* and is not starved */
    close_all();
}

static void priorities(void **state)
{
    (void)state;
    open_all(1, 1000);
    add(0, 10, 5, 0, 0);
    step();
    add(1, 10, 5, 0, 5);
    add(2, 10, 5, 0, 0);
    add(3, 10, 5, 0, -5);
    int order[3];
    int n = 0;
    for (int turn = 0; turn < 100 && n < 3; turn++) {
        step();
        for (int k = 1; k < 4; k++)
            if (seqs[k].running && (n == 0 || order[n - 1] != k))
                order[n++] = k;
    }
    assert_int_equal(order[0], 3);
    assert_int_equal(order[1], 2);
    assert_int_equal(order[2], 1);
    close_all();
}

/* A tenant that floods the queue does not keep another one waiting behind all of it. */
static void tenants_share(void **state)
{
    (void)state;
    open_all(2, 1000);
    for (int k = 0; k < 20; k++)
        add(k, 30, 30, 1, 0);
    for (int turn = 0; turn < 40; turn++)
        step();
    add(20, 30, 30, 2, 0);
    add(21, 30, 30, 2, 0);
    int flooded = 0;
    for (int turn = 0; turn < 1000 && seqs[21].ids; turn++) {
        bool was[20];
        for (int k = 0; k < 20; k++)
            was[k] = seqs[k].running;
        step();
        for (int k = 0; k < 20; k++)
            flooded += !was[k] && seqs[k].running;
    }
    assert_null(seqs[21].ids);
    assert_in_range(flooded, 0, 3);
    close_all();
}

/* A big one at the head of the line is not overtaken for ever by small ones behind it. */
static void no_overtaking_for_memory(void **state)
{
    (void)state;
    open_all(8, 60);
    add(0, 200, 60, 0, 0);
    step();
    add(1, 500, 60, 0, 0); /* does not fit beside */
    add(2, 10, 5, 0, 0);
    const struct tr_plan *plan = tr_schedule_plan(schedule);
    assert_true(plan->blocked);
    assert_false(seqs[1].running || seqs[2].running);
    while (seqs[0].ids)
        step();
    step();
    assert_true(seqs[1].running);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_comes_first),
        cmocka_unit_test(short_ones_pass),
        cmocka_unit_test(priorities),
        cmocka_unit_test(tenants_share),
        cmocka_unit_test(no_overtaking_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
