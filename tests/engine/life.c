/* A job's life besides its answer: ends, queue, deadlines, pauses, cancellation, fairness. */
#include "tests/engine/drive.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/clock.h"
#include "engine/text/tokenizer.h"

static struct outcome a[64];

static void nap(int ms)
{
    const struct timespec t = {.tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

static struct tr_job *job_of(int n, int max_tokens)
{
    int32_t prompt[256];
    drive_ids(prompt, n, 11);
    return drive_job(prompt, n, max_tokens);
}

/* The last token has said how the answer ends, in the words of its end. */
static void assert_told(const struct outcome *o)
{
    assert_int_equal(o->choices[0].told, o->choices[0].finish);
    assert_int_equal(o->choices[0].told_id, o->choices[0].stop_id);
}

static void ends(void **state)
{
    (void)state;
    struct tr_engine *e = drive_open(drive_options("plain"));
    drive(e, job_of(20, 30), &a[0]);
    assert_int_equal(a[0].choices[0].finish, TR_FINISH_LENGTH);
    assert_int_equal(a[0].choices[0].stop_id, -1);
    assert_told(&a[0]);

    /* A stop id that the greedy answer has: it comes as a token, then the end. */
    struct tr_job *job = job_of(20, 30);
    int32_t stop = a[0].choices[0].ids[6];
    int first = 0;
    while (a[0].choices[0].ids[first] != stop)
        first++;
    job->stop_ids = malloc(sizeof *job->stop_ids);
    job->stop_ids[0] = stop;
    job->n_stop_ids = 1;
    drive(e, job, &a[1]);
    assert_int_equal(a[1].choices[0].finish, TR_FINISH_STOP_ID);
    assert_int_equal(a[1].choices[0].stop_id, stop);
    assert_int_equal(a[1].choices[0].n, first + 1);
    assert_told(&a[1]);

    /* The context is full before max_tokens. */
    drive(e, job_of(250, 1 << 30), &a[2]);
    assert_int_equal(a[2].choices[0].n, 6);
    assert_int_equal(a[2].choices[0].finish, TR_FINISH_LENGTH);
    assert_told(&a[2]);

    /* An end of generation is one, even if it is a stop id as well. */
    int n_eog;
    const int32_t *eog = tr_tokenizer_eog(tr_engine_tokenizer(e), &n_eog);
    job = job_of(20, 30);
    job->ignore_eos = false;
    job->stop_ids = malloc(sizeof *job->stop_ids);
    job->stop_ids[0] = eog[0];
    job->n_stop_ids = 1;
    job->sampling.bias = malloc(sizeof *job->sampling.bias);
    job->sampling.bias[0] = (struct tr_bias){eog[0], 100};
    job->sampling.n_bias = 1;
    drive(e, job, &a[5]);
    assert_int_equal(a[5].choices[0].n, 1);
    assert_int_equal(a[5].choices[0].finish, TR_FINISH_EOS);
    assert_int_equal(a[5].choices[0].stop_id, eog[0]);
    assert_told(&a[5]);

    /* Prompt only. */
    job = job_of(40, 0);
    job->prompt_logprobs = 2;
    drive(e, job, &a[3]);
    assert_int_equal(a[3].n_prompt_logprobs, 40);
    assert_int_equal(a[3].choices[0].n, 0);
    assert_int_equal(a[3].choices[0].finish, TR_FINISH_LENGTH);
    job = job_of(1, 0);
    job->prompt_logprobs = 0;
    drive(e, job, &a[4]);
    assert_int_equal(a[4].n_prompt_logprobs, 1);
    tr_engine_close(e);
}

static void refusals(void **state)
{
    (void)state;
    struct tr_err err = {0};
    uint64_t id;
    struct tr_engine_options o = drive_options("plain");
    o.kv_cache_bytes = 300000;
    o.max_sequences = 1;
    o.max_queue = 2;
    struct tr_engine *e;
    o.page_tokens = 48; /* no power of two */
    assert_int_equal(tr_engine_open(&e, &o, &err), TR_ECONFIG);
    assert_string_equal(err.param, "page_tokens");
    o.page_tokens = 16;
    e = drive_open(o);
    struct tr_job *job = job_of(256, 5);
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_ETOOLONG);
    job->n_prompt = 200;
    job->n = 8;
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_ENOFIT);
    job->n = 1;
    job->prompt[3] = 285;
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_EINVAL);
    assert_string_equal(err.param, "prompt");
    job->prompt[3] = -1;
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_EINVAL);
    tr_job_free(job);
    assert_in_range(tr_engine_retry_after(e), 1, 120);

    drive_submit(e, job_of(4, 200), &a[0]);
    drive_wait_tokens(&a[0], 1);
    drive_submit(e, job_of(4, 200), &a[1]);
    drive_submit(e, job_of(4, 200), &a[2]);
    job = job_of(4, 2);
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_EQUEUE);
    tr_engine_cancel(e, a[0].id, -1);
    drive_wait(&a[0]);
    drive_wait_tokens(&a[1], 1);
    drive_submit(e, job, &a[3]);
    tr_engine_drain(e);
    job = job_of(4, 2);
    assert_int_equal(tr_engine_submit(e, job, &id, &err), TR_EDRAIN);
    tr_job_free(job);
    for (int i = 1; i < 4; i++)
        drive_wait(&a[i]);
    tr_engine_close(e);
}

static void cancel_and_deadline(void **state)
{
    (void)state;
    struct tr_engine_options o = drive_options("plain");
    o.max_sequences = 2;
    struct tr_engine *e = drive_open(o);
    drive_submit(e, job_of(30, 220), &a[0]);
    struct tr_job *job = job_of(30, 220);
    job->n = 3;
    drive_submit(e, job, &a[1]); /* waits: three seats of two are granted to a job alone */
    job = job_of(30, 200);
    job->deadline_ns = tr_clock_ns() + 1;
    drive_submit(e, job, &a[2]);
    drive_wait(&a[2]);
    assert_int_equal(a[2].choices[0].finish, TR_FINISH_DEADLINE);
    drive_wait_tokens(&a[0], 5);
    tr_engine_cancel(e, a[0].id, -1);
    tr_engine_cancel(e, 12345, -1);
    drive_wait(&a[0]);
    assert_int_equal(a[0].choices[0].finish, TR_FINISH_CANCELED);
    drive_wait_tokens(&a[1], 5);
    tr_engine_cancel(e, a[1].id, 0);
    tr_engine_cancel(e, a[1].id, 2);
    drive_wait(&a[1]);
    assert_int_equal(a[1].choices[0].finish, TR_FINISH_CANCELED);
    assert_int_equal(a[1].choices[1].finish, TR_FINISH_LENGTH);
    assert_int_equal(a[1].choices[1].n, 220);
    struct tr_engine_stats s = drive_idle(e);
    assert_int_equal(s.local_pages_used + s.global_pages_used, 0);

    /* Closing ends what runs and what waits, with all events. */
    for (int i = 0; i < 5; i++)
        drive_submit(e, job_of(30, 220), &a[i]);
    drive_wait_tokens(&a[0], 1);
    tr_engine_close(e);
    for (int i = 0; i < 5; i++) {
        assert_true(a[i].done);
        assert_int_equal(a[i].choices[0].finish, TR_FINISH_CANCELED);
    }
}

static void pauses(void **state)
{
    (void)state;
    struct tr_engine *e = drive_open(drive_options("plain"));
    drive_submit(e, job_of(30, 200), &a[0]);
    drive_wait_tokens(&a[0], 10);
    tr_engine_pause(e, a[0].id, true);
    struct tr_engine_stats s;
    do
        tr_engine_stats(e, &s);
    while (s.paused == 0);
    int n = drive_tokens(&a[0]);
    drive(e, job_of(20, 50), &a[1]); /* others go on */
    assert_int_equal(drive_tokens(&a[0]), n);
    tr_engine_pause(e, a[0].id, false);
    drive_wait(&a[0]);
    drive(e, job_of(30, 200), &a[2]);
    assert_same(&a[0], &a[2], "paused");
    tr_engine_close(e);
}

/* A request of 3,000 tokens never holds more local pages than the closed form says. */
static void local_pages_stay_few(void **state)
{
    (void)state;
    static int32_t prompt[3000];
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    o.max_batch_tokens = 100;
    o.prefix_cache = false;
    struct tr_engine *e = drive_open(o);
    drive_ids(prompt, 3000, 3);
    drive_submit(e, drive_job(prompt, 2500, 500), &a[0]);
    int most = 0;
    struct tr_engine_stats s;
    while (drive_tokens(&a[0]) < 500) {
        tr_engine_stats(e, &s);
        most = s.local_pages_used > most ? s.local_pages_used : most;
        nap(1);
    }
    drive_wait(&a[0]);
    s = drive_idle(e);
    assert_in_range(most, 1, (32 - 1 + 100 + 15) / 16 + 1);
    assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
    tr_engine_close(e);
    drive_remove(path);
}

/* A step of one row reads as many experts of each layer as a token has, each of the same size. */
static void bytes_of_experts(void **state)
{
    (void)state;
    struct tr_engine *e = drive_open(drive_options("plain"));
    const struct tr_engine_info *info = tr_engine_info(e);
    assert_int_equal(drive_idle(e).expert_bytes, 0);
    drive_submit(e, job_of(1, 9), &a[0]);
    drive_wait(&a[0]);
    struct tr_engine_stats s = drive_idle(e);
    assert_int_equal(s.steps, 9);
    assert_true(info->n_active_experts < info->n_experts);
    assert_int_equal(s.expert_bytes * info->n_experts,
                     s.steps * info->expert_bytes * info->n_active_experts);
    tr_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends),
        cmocka_unit_test(refusals),
        cmocka_unit_test(cancel_and_deadline),
        cmocka_unit_test(pauses),
        cmocka_unit_test(local_pages_stay_few),
        cmocka_unit_test(bytes_of_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
