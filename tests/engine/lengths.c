/*
 * Answers that nobody set a length for: they run beside each other though their whole contexts
 * would not fit, are recomputed where that was too little, and keep every bit; a cache that is
 * smaller than the context bounds them. And what choices take beside their pages is bounded, and
 * given back.
 */
#include "tests/engine/drive.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 12, PROMPT = 40, ANSWER = 500 };

static struct outcome alone[JOBS], crowd[JOBS];

static struct tr_job *open_job(int k)
{
    int32_t prompt[PROMPT];
    drive_ids(prompt, PROMPT, (uint32_t)k % 4);
    struct tr_job *job = drive_job(prompt, PROMPT - k, ANSWER);
    job->open_ended = true;
    job->n = k % 3 == 2 ? 2 : 1;
    job->sampling.temperature = k % 2 ? 0.9F : 0.0F;
    job->sampling.repetition_penalty = k % 4 == 1 ? 1.1F : 1.0F;
    job->sampling.frequency_penalty = k % 4 == 3 ? 0.3F : 0.0F;
    job->sampling.seed = (uint64_t)k;
    return job;
}

static void same_bits_when_recomputed(void **state)
{
    (void)state;
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    struct tr_engine *e = drive_open(o);
    for (int k = 0; k < JOBS; k++)
        drive(e, open_job(k), &alone[k]);
    tr_engine_close(e);

    for (int variant = 0; variant < 3; variant++) {
        o.kv_cache_bytes = variant == 2 ? 3000000 : 1500000;
        o.speculation = variant == 1;
        o.prefix_cache = variant != 2;
        e = drive_open(o);
        assert_in_range(tr_engine_capacity(e, PROMPT + ANSWER), 1,
                        7); /* so many at their longest */
        int most = 0;
        struct tr_engine_stats s;
        for (int k = 0; k < JOBS; k++)
            drive_submit(e, open_job(k), &crowd[k]);
        for (int k = 0; k < JOBS; k++) {
            while (drive_tokens(&crowd[k]) < ANSWER) {
                tr_engine_stats(e, &s);
                most = TR_MAX(most, s.running);
                drive_wait_tokens(&crowd[k], TR_MIN(drive_tokens(&crowd[k]) + 10, ANSWER));
            }
            drive_wait(&crowd[k]);
            assert_same(&alone[k], &crowd[k], "without a length");
        }
        s = drive_idle(e);
        assert_true(most > tr_engine_capacity(e, PROMPT + ANSWER));
        assert_true(s.preemptions > 0);
        assert_true(s.expected_tokens > 128); /* it has seen longer ones */
        assert_int_equal(s.choice_bytes, 0);
        tr_engine_close(e);
    }
    drive_remove(path);
}

/* Requests with a length keep their pages, whatever others want. */
static void firm_ones_are_not_pushed_out(void **state)
{
    (void)state;
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    o.kv_cache_bytes = 1500000;
    struct tr_engine *e = drive_open(o);
    for (int k = 0; k < JOBS; k++) {
        struct tr_job *job = open_job(k);
        job->n = 1;
        job->open_ended = k % 3;
        drive_submit(e, job, &crowd[k]);
    }
    for (int k = 0; k < JOBS; k++) {
        drive_wait(&crowd[k]);
        assert_int_equal(crowd[k].choices[0].n, ANSWER);
        if (k % 3 == 0)
            assert_int_equal(crowd[k].usage.preemptions, 0);
    }
    tr_engine_close(e);
    drive_remove(path);
}

static void cache_bounds_the_answer(void **state)
{
    (void)state;
    struct tr_err err = {0};
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    o.kv_cache_bytes = 600000;
    struct tr_engine *e = drive_open(o);
    const struct tr_engine_info *info = tr_engine_info(e);
    assert_in_range(info->longest_sequence, 100, 2000);
    assert_int_equal(tr_engine_capacity(e, info->longest_sequence), 1);
    assert_int_equal(tr_engine_capacity(e, info->longest_sequence + 1), 0);
    assert_non_null(strstr(info->warnings, "kv_cache"));
    struct tr_job *job = open_job(0);
    job->max_tokens = 4000;
    job->n = 3;
    drive(e, job, &crowd[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(crowd[0].choices[i].n, info->longest_sequence - PROMPT);
        assert_int_equal(crowd[0].choices[i].finish, TR_FINISH_LENGTH);
    }
    static int32_t prompt[3000];
    uint64_t id;
    drive_ids(prompt, 3000, 5);
    job = drive_job(prompt, info->longest_sequence, 10);
    job->open_ended = true;
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_ENOFIT);
    assert_string_equal(err.param, "prompt");
    job->n_prompt--;
    drive_submit(e, job, &crowd[1]);
    drive_wait(&crowd[1]);
    assert_int_equal(crowd[1].choices[0].n, 1);
    tr_engine_close(e);
    drive_remove(path);
}

/* More samples than may run: those that wait begin from the prompt's pages, or compute it again. */
static void samples_in_turn(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct tr_engine_options o = drive_options("plain");
        struct outcome *got = variant ? &crowd[0] : &alone[0];
        o.max_sequences = variant ? 1 : 16;
        o.prefix_cache = variant != 2;
        o.speculation = variant == 3;
        struct tr_engine *e = drive_open(o);
        struct tr_job *job = open_job(1);
        job->open_ended = variant % 2;
        job->max_tokens = 60;
        job->n = 8;
        drive(e, job, got);
        assert_same(&alone[0], got, "samples in turn");
        assert_int_equal(drive_idle(e).choice_bytes, 0);
        tr_engine_close(e);
    }
}

/* A paused job loses its pages to one that needs them, and goes on with the same bits. */
static void paused_and_pushed_out(void **state)
{
    (void)state;
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    o.kv_cache_bytes = 1 << 20;
    o.prefix_cache = false;
    struct tr_engine *e = drive_open(o);
    int longest = tr_engine_info(e)->longest_sequence;
    struct tr_job *job = open_job(0);
    job->open_ended = false;
    drive(e, job, &alone[0]);
    job = open_job(0);
    job->open_ended = false;
    drive_submit(e, job, &crowd[0]);
    drive_wait_tokens(&crowd[0], 10);
    tr_engine_pause(e, crowd[0].id, true);
    job = open_job(1);
    job->open_ended = false;
    job->max_tokens = longest - PROMPT;
    drive(e, job, &crowd[1]); /* would wait for ever */
    tr_engine_pause(e, crowd[0].id, false);
    drive_wait(&crowd[0]);
    assert_same(&alone[0], &crowd[0], "paused and pushed out");
    assert_int_equal(crowd[0].usage.preemptions, 1);
    tr_engine_close(e);
    drive_remove(path);
}

static void ignore(void *arg, const struct tr_event *event)
{
    (void)arg, (void)event;
}

/* Many requests of many samples with penalties: what waits costs little, what runs no more than is
 * said, and nothing stays. */
static void choices_are_bounded(void **state)
{
    (void)state;
    enum { REQUESTS = 48, SAMPLES = 100 };
    uint64_t ids[REQUESTS];
    struct tr_engine_stats s;
    struct tr_engine *e;
    struct tr_err err = {0};
    struct tr_engine_options options = drive_options("plain");
    options.kv_cache_bytes = 256U << 20;
    options.max_sequences = 4;
    options.on_event = ignore;
    assert_int_equal(tr_engine_open(&e, &options, &err), 0);
    const struct tr_engine_info *info = tr_engine_info(e);
    assert_int_equal(info->max_running, 4 * 4);
    size_t before = mallinfo2().uordblks;
    for (int k = 0; k < REQUESTS; k++) {
        int32_t prompt[PROMPT];
        drive_ids(prompt, PROMPT, (uint32_t)k);
        struct tr_job *job = drive_job(prompt, PROMPT, 200);
        job->n = SAMPLES;
        job->sampling.presence_penalty = 0.1F;
        assert_int_equal(tr_engine_submit(e, job, &ids[k], &err), 0);
    }
    uint64_t most = 0;
    do {
        tr_engine_stats(e, &s);
        most = TR_MAX(most, s.choice_bytes);
    } while (s.generated_tokens < 500);
    size_t waiting = mallinfo2().uordblks - before;
    if (before) /* sanitizers' allocators do not count */
        assert_true(waiting < (uint64_t)REQUESTS * SAMPLES * 700 + most);
    for (int k = 0; k < REQUESTS; k++)
        tr_engine_cancel(e, ids[k], -1);
    s = drive_idle(e);
    assert_in_range(most, 1, (uint64_t)info->max_running * info->choice_bytes);
    assert_int_equal(s.choice_bytes, 0);
    if (before)
        assert_true(mallinfo2().uordblks < before + 200000); /* what allocators keep aside */
    tr_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_when_recomputed), cmocka_unit_test(firm_ones_are_not_pushed_out),
        cmocka_unit_test(cache_bounds_the_answer),   cmocka_unit_test(samples_in_turn),
        cmocka_unit_test(paused_and_pushed_out),     cmocka_unit_test(choices_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
