/*
 * Constrained answers: every token is one that the grammar allows, the end comes where the text may
 * end and nowhere else, and the bits are the same alone, in a batch, with drafts and after
 * preemptions.
 */
#include "tests/engine/drive.h"

#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar.h"
#include "engine/text/tokenizer.h"

enum { PROMPT = 8, JOBS = 6, LONGEST = 200 };

static struct outcome alone[JOBS], crowd[JOBS];

static struct tr_grammar *regex(struct tr_engine *e, const char *text)
{
    struct tr_grammar_source source = {.kind = TR_GRAMMAR_REGEX, .text = {text, strlen(text)}};
    struct tr_grammar *g = NULL;
    struct tr_err err = {0};
    const struct tr_grammar_vocab *vocab = tr_engine_grammar_vocab(e);
    assert_non_null(vocab);
    if (tr_grammar_compile(&g, &source, vocab, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return g;
}

static struct tr_job *job_of(struct tr_engine *e, const char *text, uint32_t seed)
{
    int32_t prompt[PROMPT];
    drive_ids(prompt, PROMPT, seed);
    struct tr_job *job = drive_job(prompt, PROMPT, LONGEST);
    job->grammar = regex(e, text);
    job->sampling.temperature = 1.5F;
    job->sampling.seed = seed;
    return job;
}

/* The answer's text without the id that ends it. */
static const char *text_of(struct tr_engine *e, const struct answer *a)
{
    static char text[8 * DRIVE_MAX_IDS];
    size_t at = 0;
    for (int i = 0; i < a->n - (a->stop_id >= 0); i++) {
        size_t n = 0;
        const char *bytes = tr_tokenizer_piece(tr_engine_tokenizer(e), a->ids[i], &n, NULL);
        memcpy(text + at, bytes, n);
        at += n;
    }
    text[at] = 0;
    return text;
}

static void ends_where_it_may(void **state)
{
    (void)state;
    struct tr_engine *e = drive_open(drive_options("plain"));
    for (uint32_t seed = 1; seed < 40; seed++) {
        struct tr_job *job = job_of(e, "(ab|c){2,20}", seed);
        job->n = 3;
        job->min_tokens = seed % 3 ? 0 : 400; /* more than the text can have */
        if (seed % 3 == 0)
            job->max_tokens = LONGEST;
        drive(e, job, &alone[0]);
        for (int k = 0; k < 3; k++) {
            const struct answer *a = &alone[0].choices[k];
            const char *s = text_of(e, a);
            int items = 0;
            for (; *s; items++) {
                s += *s == 'a' ? 1 : 0;
                assert_true(*s == 'b' || *s == 'c');
                s++;
            }
            assert_int_equal(a->finish, TR_FINISH_EOS);
            assert_in_range(items, 2, 20);
            if (seed % 3 == 0) { /* only where nothing can follow, and without a token */
                assert_int_equal(items, 20);
                assert_int_equal(a->stop_id, -1);
            }
        }
    }
    assert_int_equal(drive_idle(e).choice_bytes, 0);
    tr_engine_close(e);
}

static void waits_for_a_text(void **state)
{
    (void)state;
    struct tr_engine *e = drive_open(drive_options("plain"));
    int32_t eog = tr_tokenizer_eog(tr_engine_tokenizer(e), &(int){0})[0];
    bool waited = false;
    for (uint32_t seed = 1; seed < 30; seed++) {
        struct tr_job *job = job_of(e, "yes|no", seed);
        struct tr_bias bias[] = {{eog, 20}, {0, 20}, {0, 20}};
        for (int i = 1; i < 3; i++)
            bias[i].id = tr_tokenizer_find(tr_engine_tokenizer(e), i == 1 ? "x" : "q", 1);
        if (bias[1].id > bias[2].id) {
            struct tr_bias swap = bias[1];
            bias[1] = bias[2];
            bias[2] = swap;
        }
        job->sampling.bias = malloc(sizeof bias);
        assert_non_null(job->sampling.bias);
        memcpy(job->sampling.bias, bias, sizeof bias);
        job->sampling.n_bias = 3;
        job->ignore_eos = false;
        job->grammar_after = "xxqx";
        drive(e, job, &alone[0]);
        const struct answer *a = &alone[0].choices[0];
        const char *s = text_of(e, a);
        const char *tag = strstr(s, "xxqx");
        if (a->finish == TR_FINISH_LENGTH)
            continue;
        assert_int_equal(a->finish, TR_FINISH_EOS);
        assert_non_null(tag);
        waited |= tag > s;
        assert_true(strcmp(tag + 4, "yes") == 0 || strcmp(tag + 4, "no") == 0);
    }
    assert_true(waited);
    tr_engine_close(e);
}

static const char *const expressions[JOBS] = {
    "[a-f]{150,}", "(x|yz){150}", "[^\\n]{200}", "\\d+", "(abc|abd)*", "[\\u00e0-\\u00ff]{90,}"};

static void same_bits_in_company(void **state)
{
    (void)state;
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    struct tr_engine *e = drive_open(o);
    for (int k = 0; k < JOBS; k++)
        drive(e, job_of(e, expressions[k], (uint32_t)k + 1), &alone[k]);
    tr_engine_close(e);
    for (int variant = 0; variant < 3; variant++) {
        o.speculation = variant == 1;
        o.threads = variant + 1;
        o.overcommit_percent = variant == 2 ? 400 : 0;
        o.kv_cache_bytes = variant == 2 ? 400000 : 64 << 20;
        e = drive_open(o);
        for (int k = 0; k < JOBS; k++)
            drive_submit(e, job_of(e, expressions[k], (uint32_t)k + 1), &crowd[k]);
        for (int k = 0; k < JOBS; k++) {
            drive_wait(&crowd[k]);
            assert_same(&alone[k], &crowd[k], expressions[k]);
        }
        assert_true(variant < 2 || drive_idle(e).preemptions > 0);
        tr_engine_close(e);
    }
    drive_remove(path);
}

/* ---- shortcuts ---- */

/* With stretches of one way only, of few and of many. */
static const char *const stretches[JOBS] = {"([xyz]qqvqq){25}",
                                            "(yes|no)( [0-9]{3}q){20}",
                                            "[^\\n]{3}(qvq[^\\n]{2}){20}",
                                            "qvvqv(a|qvq)(vqv){30}[b]",
                                            "([a-f]{1,4}vq){20}",
                                            "(\\u00e0\\u00ff|qvqvqvqvqvqvqvqvqvqvqv){9}"};

/* Jobs of all kinds of sampling. With logprobs there are no shortcuts. */
static struct tr_job *stretch_job(struct tr_engine *e, int k, bool shortcuts)
{
    struct tr_job *job = job_of(e, stretches[k], (uint32_t)k + 1);
    struct tr_sampling *p = &job->sampling;
    p->n_logprobs = shortcuts ? -1 : 0;
    p->repetition_penalty = k % 2 ? 1.3F : 1.0F;
    p->frequency_penalty = k % 3 ? 0.0F : 0.4F;
    p->top_k = k == 2 ? 7 : 0;
    p->min_p = k == 3 ? 0.02F : 0.0F;
    p->top_p = k == 4 ? 0.9F : 1.0F;
    job->n = k == 1 || k == 5 ? 3 : 1;
    job->max_tokens = k == 4 ? 37 : LONGEST; /* cuts a stretch */
    return job;
}

static void assert_same_ids(const struct outcome *a, const struct outcome *b, const char *what)
{
    for (int k = 0; k < DRIVE_MAX_CHOICES; k++) {
        const struct answer *x = &a->choices[k], *y = &b->choices[k];
        if (x->n != y->n || x->finish != y->finish || x->stop_id != y->stop_id ||
            memcmp(x->ids, y->ids, (size_t)x->n * sizeof *x->ids) != 0)
            fail_msg("%s: choice %d differs", what, k);
    }
    assert_int_equal(a->usage.completion_tokens, b->usage.completion_tokens);
    assert_int_equal(a->usage.prompt_tokens, b->usage.prompt_tokens);
}

/* Beside them one runs that wants whole rows. */
static void run_stretches(struct tr_engine *e, const char *what)
{
    static struct outcome other;
    int32_t prompt[PROMPT];
    drive_ids(prompt, PROMPT, 99);
    struct tr_engine_stats before = drive_idle(e);
    drive_submit(e, drive_job(prompt, PROMPT, LONGEST), &other);
    for (int k = 0; k < JOBS; k++)
        drive_submit(e, stretch_job(e, k, true), &crowd[k]);
    for (int k = 0; k < JOBS; k++) {
        drive_wait(&crowd[k]);
        assert_same_ids(&alone[k], &crowd[k], what);
    }
    drive_wait(&other);
    struct tr_engine_stats after = drive_idle(e);
    assert_true(after.bound.forced - before.bound.forced > 200);
    assert_true(after.bound.part_rows - before.bound.part_rows > 50);
    assert_int_equal(after.choice_bytes, 0);
}

static void shortcuts_change_nothing(void **state)
{
    (void)state;
    const char *path = drive_variant(32);
    struct tr_engine_options o = drive_options(path);
    struct tr_engine *e = drive_open(o);
    for (int k = 0; k < JOBS; k++)
        drive(e, stretch_job(e, k, false), &alone[k]);
    assert_int_equal(drive_idle(e).bound.forced, 0);
    assert_int_equal(drive_idle(e).bound.part_rows, 0);
    for (int k = 0; k < JOBS; k++) {
        drive(e, stretch_job(e, k, true), &crowd[k]);
        assert_same_ids(&alone[k], &crowd[k], "alone");
        assert_true(crowd[k].usage.decode_steps < alone[k].usage.decode_steps);
    }
    run_stretches(e, "together");
    tr_engine_close(e);
    for (int variant = 0; variant < 4; variant++) {
        o.speculation = variant == 1;
        o.threads = variant + 1;
        o.overcommit_percent = variant == 2 ? 400 : 0;
        o.kv_cache_bytes = variant == 2 ? 800000 : 64 << 20;
        o.max_batch_tokens = variant == 3 ? 9 : 64;
        e = drive_open(o);
        run_stretches(e, variant == 1 ? "with drafts" : variant == 2 ? "preempted" : "crowded");
        assert_true(variant != 2 || drive_idle(e).preemptions > 0);
        assert_true(variant != 1 || drive_idle(e).accepted_tokens > 0);
        tr_engine_close(e);
    }
    drive_remove(path);
}

static void nothing_fits(void **state)
{
    (void)state;
    struct tr_engine *e = drive_open(drive_options("plain"));
    struct tr_job *job = job_of(e, "ab", 1);
    job->sampling.allowed = malloc(sizeof *job->sampling.allowed);
    assert_non_null(job->sampling.allowed);
    job->sampling.allowed[0] = tr_tokenizer_find(tr_engine_tokenizer(e), "z", 1);
    job->sampling.n_allowed = 1;
    drive(e, job, &alone[0]);
    assert_int_equal(alone[0].choices[0].finish, TR_FINISH_ERROR);
    assert_string_equal(alone[0].error, "no token is allowed here");
    tr_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_where_it_may),    cmocka_unit_test(waits_for_a_text),
        cmocka_unit_test(same_bits_in_company), cmocka_unit_test(shortcuts_change_nothing),
        cmocka_unit_test(nothing_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
