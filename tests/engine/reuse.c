/*
 * Reuse changes no bit: cold = hit = hit after partial eviction = filled at the same time =
 * preempted and recomputed = branched off at every position up to three windows, for windows and
 * pages of all kinds of sizes, with every freed page poisoned.
 */
#include "tests/engine/drive.h"

#include <stdio.h>
#include <string.h>

enum { BRANCH_IDS = 3, ANSWER = 4, MAX_BASE = 3 * 200 + 40 };

static const int windows[] = {1, 5, 15, 16, 17, 64, 200};
static const int pages[] = {16, 32, 256};

static struct outcome cold[MAX_BASE + 1], hot[MAX_BASE + 1];

/* The base text up to p, then ids of its own. */
static struct tr_job *branch(const int32_t *base, int p)
{
    int32_t prompt[MAX_BASE + BRANCH_IDS];
    memcpy(prompt, base, (size_t)p * sizeof *prompt);
    drive_ids(prompt + p, BRANCH_IDS, 1000U + (uint32_t)p);
    return drive_job(prompt, p + BRANCH_IDS, ANSWER);
}

static struct tr_engine_options variant_options(const char *path, int page, bool verify)
{
    struct tr_engine_options o = drive_options(path);
    o.page_tokens = page;
    o.max_batch_tokens = 512;
    o.verify = verify;
    return o;
}

static void branch_everywhere(void **state)
{
    (void)state;
    int32_t base[MAX_BASE];
    drive_ids(base, MAX_BASE, 4);
    for (size_t w = 0; w < TR_ARRAY_LEN(windows); w++) {
        const char *path = drive_variant(windows[w]);
        int n = 3 * windows[w] + 20;
        int last = 3 * windows[w];
        struct tr_engine_options o = variant_options(path, 64, false);
        o.prefix_cache = false;
        struct tr_engine *e = drive_open(o);
        drive(e, drive_job(base, n, 40), &cold[0]);
        for (int p = 1; p <= last; p++)
            drive_submit(e, branch(base, p), &cold[p]);
        for (int p = 1; p <= last; p++)
            drive_wait(&cold[p]);
        tr_engine_close(e);
        for (size_t g = 0; g < TR_ARRAY_LEN(pages); g++) {
            char what[96];
            snprintf(what, sizeof what, "window %d, page %d", windows[w], pages[g]);
            bool verify = g == 0; /* some of the hits are computed instead, and compared */
            e = drive_open(variant_options(path, pages[g], verify));
            for (int round = 0; round < 3; round++) {
                drive(e, drive_job(base, n, 40), &hot[0]);
                assert_same(&hot[0], &cold[0], what);
                if (round && !verify)
                    assert_int_equal(hot[0].usage.cached_tokens, (n - 1) / pages[g] * pages[g]);
            }
            for (int p = 1; p <= last; p++) {
                drive_submit(e, branch(base, p), &hot[p]);
                if (windows[w] < 64) /* else many at a time, for speed */
                    drive_wait(&hot[p]);
            }
            for (int p = 1; p <= last; p++) {
                drive_wait(&hot[p]);
                assert_same(&hot[p], &cold[p], what);
                assert_true(hot[p].usage.cached_tokens <= p);
            }
            struct tr_engine_stats s = drive_idle(e);
            assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
            assert_int_equal(s.page_mismatches, 0);
            assert_true(!verify || windows[w] < 15 || s.verified_hits > 0);
            tr_engine_close(e);
        }
        drive_remove(path);
    }
}

enum { CROWD = 12 };

/* One prompt asked for by many at once: computed once, shared by all. */
static void concurrent_fill(void **state)
{
    (void)state;
    int32_t base[300];
    drive_ids(base, 300, 7);
    struct tr_engine_options o = drive_options("plain");
    o.max_batch_tokens = 48;
    struct tr_engine *e = drive_open(o);
    int32_t few[240];
    memcpy(few, base, sizeof few);
    for (int k = 0; k < CROWD; k++)
        drive_submit(e, drive_job(few, 200, 10 + k), &hot[k]);
    int64_t computed = 0;
    for (int k = 0; k < CROWD; k++) {
        drive_wait(&hot[k]);
        computed += hot[k].usage.prefill_computed;
    }
    struct tr_engine_stats s = drive_idle(e);
    assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
    assert_true(computed < 200 + CROWD * 16);
    tr_engine_close(e);
    o.prefix_cache = false;
    e = drive_open(o);
    for (int k = 0; k < CROWD; k++) {
        drive(e, drive_job(few, 200, 10 + k), &cold[k]);
        assert_same(&hot[k], &cold[k], "concurrent fill");
        assert_int_equal(cold[k].usage.cached_tokens, 0);
    }
    tr_engine_close(e);
}

static struct tr_job *crowd_job(int k, int n)
{
    int32_t prompt[256];
    drive_ids(prompt, n, 50U + (uint32_t)(k % 3));
    prompt[n - 1 - k] = 100 + k;
    struct tr_job *job = drive_job(prompt, n, 250 - n);
    job->sampling.temperature = k % 2 ? 1.0F : 0.0F;
    job->sampling.seed = (uint64_t)k;
    return job;
}

/* A budget for about three sequences, and twelve that want it: pages are evicted all the time, and
 * with overcommit whole sequences are pushed out. */
static void little_memory(void **state)
{
    (void)state;
    struct tr_engine_options o = drive_options("plain");
    o.prefix_cache = false;
    struct tr_engine *e = drive_open(o);
    for (int k = 0; k < CROWD; k++)
        drive(e, crowd_job(k, 60 + 9 * k), &cold[k]);
    tr_engine_close(e);
    for (int overcommit = 0; overcommit <= 400; overcommit += 200)
        for (int cached = 0; cached < 2; cached++) {
            o = drive_options("plain");
            o.kv_cache_bytes = 3U << 19;
            o.overcommit_percent = overcommit;
            o.prefix_cache = cached;
            e = drive_open(o);
            for (int round = 0; round < 2; round++) {
                for (int k = 0; k < CROWD; k++)
                    drive_submit(e, crowd_job(k, 60 + 9 * k), &hot[k]);
                for (int k = 0; k < CROWD; k++) {
                    drive_wait(&hot[k]);
                    assert_same(&hot[k], &cold[k], "little memory");
                    assert_true(hot[k].usage.cached_tokens < hot[k].usage.prompt_tokens);
                    if (!cached) /* what is computed again was not cached */
                        assert_int_equal(hot[k].usage.cached_tokens, 0);
                }
            }
            struct tr_engine_stats s = drive_idle(e);
            assert_int_equal(s.local_pages_used + s.global_pages_used, 0);
            assert_true(overcommit ? s.preemptions > 0 : s.preemptions == 0);
            tr_engine_close(e);
        }
}

/* A chat of twenty turns: each turn computes its new tokens and at most one page more. */
static void twenty_turns(void **state)
{
    (void)state;
    static const int sizes[] = {16, 64};
    for (size_t g = 0; g < TR_ARRAY_LEN(sizes); g++) {
        const char *path = drive_variant(40);
        struct tr_engine *e = drive_open(variant_options(path, sizes[g], false));
        static int32_t text[4096];
        int n = 150;
        drive_ids(text, n, 3);
        int known = 0; /* tokens that some turn has computed */
        for (int turn = 0; turn < 20; turn++) {
            drive(e, drive_job(text, n, 30), &hot[0]);
            if (turn)
                assert_true(hot[0].usage.prefill_computed <= n - known + sizes[g]);
            memcpy(text + n, hot[0].choices[0].ids, 30 * sizeof *text);
            n += 30;
            known = n;
            drive_ids(text + n, 25, 100U + (uint32_t)turn);
            n += 25;
        }
        tr_engine_close(e);
        drive_remove(path);
    }
}

/* Salts and cache_prompt keep prefixes apart. */
static void salts(void **state)
{
    (void)state;
    int32_t prompt[100];
    drive_ids(prompt, 100, 9);
    struct tr_engine *e = drive_open(drive_options("plain"));
    drive(e, drive_job(prompt, 100, 4), &hot[0]);
    struct tr_job *job = drive_job(prompt, 100, 4);
    job->cache_salt[0] = 1;
    drive(e, job, &hot[1]);
    assert_int_equal(hot[1].usage.cached_tokens, 0);
    job = drive_job(prompt, 100, 4);
    job->cache_prompt = false;
    drive(e, job, &hot[2]);
    assert_int_equal(hot[2].usage.cached_tokens, 0);
    drive(e, drive_job(prompt, 100, 4), &hot[3]);
    assert_int_equal(hot[3].usage.cached_tokens, 96);
    job = drive_job(prompt, 100, 4);
    job->cache_salt[0] = 1;
    drive(e, job, &hot[4]);
    assert_int_equal(hot[4].usage.cached_tokens, 96);
    for (int k = 1; k < 5; k++)
        assert_same(&hot[k], &hot[0], "salt");
    tr_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(salts),
        cmocka_unit_test(twenty_turns),
        cmocka_unit_test(concurrent_fill),
        cmocka_unit_test(little_memory),
        cmocka_unit_test(branch_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
