/*
 * The sampler against a plain one that sorts everything, in double and with libm, written from the
 * rules; and the edges: ties, extreme numbers, masks, penalties.
 */
#include "engine/sample/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kernels/math.h"

enum { MAX_VOCAB = 5000 };

static uint64_t random_state = 7;

static double random_unit(void)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (double)(random_state >> 11) * 0x1p-53;
}

static const struct tr_sampling neutral = {
    .temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .n_logprobs = -1};

/* One sampler and what it borrows. */
struct bench {
    struct tr_sampler *s;
    int vocab;
    uint64_t valid[MAX_VOCAB / 64 + 1];
    float logits[MAX_VOCAB];
};

/* All ids valid but every hole-th (0 = none) and the last `padding`. */
static void set_up(struct bench *b, int vocab, int hole, int padding)
{
    memset(b, 0, sizeof *b);
    b->vocab = vocab;
    for (int i = 0; i < vocab - padding; i++)
        if (!hole || i % hole != hole - 1)
            tr_idset_add(b->valid, i);
    assert_int_equal(tr_sampler_open(&b->s, tr_kernels_select(TR_ISA_GENERIC), vocab, b->valid), 0);
}

static void tear_down(struct bench *b)
{
    b->s = tr_sampler_close(b->s);
}

static void fill_random(struct bench *b, double spread)
{
    for (int i = 0; i < b->vocab; i++)
        b->logits[i] = (float)((random_unit() + random_unit() + random_unit() - 1.5) * spread);
}

/* One draw of a job that has accepted nothing. */
static int draw(struct bench *b, const struct tr_sampling *p, struct tr_sample *ret)
{
    int32_t prompt[] = {0};
    struct tr_job job = {.prompt = prompt, .n_prompt = 1, .n = 1, .sampling = *p};
    struct tr_choice *c;
    assert_int_equal(tr_choice_open(&c, &job, 0, 1, b->vocab, NULL, 0), 0);
    int r = tr_sample(b->s, c, b->logits, NULL, ret);
    tr_choice_close(c);
    return r;
}

/* ---- the plain sampler ---- */

struct entry {
    int32_t id;
    double y, p, key;
};

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

/* Keeps the shortest prefix by key whose share reaches `share`; *edge becomes how near the cut
 * was to another one. */
static int keep_share(struct entry *e, int n, double share, double *edge)
{
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++)
        total += e[i].p;
    qsort(e, (size_t)n, sizeof *e, by_key);
    for (int i = 0; i < n; i++) {
        sum += e[i].p / total;
        *edge = fmin(*edge, fabs(sum - share));
        if (sum >= share)
            return i + 1;
    }
    return n;
}

/* The probability that each id has after the filters: probs [vocab]. Returns how clear the
 * decisions were. */
static double plain_filter(const struct bench *b, const struct tr_sampling *p, double *probs)
{
    static struct entry e[MAX_VOCAB];
    double max = -HUGE_VAL, edge = 1, total = 0;
    int n = 0;
    for (int i = 0; i < b->vocab; i++)
        if (tr_idset_has(b->valid, i))
            max = fmax(max, (double)b->logits[i]);
    for (int i = 0; i < b->vocab; i++)
        if (tr_idset_has(b->valid, i)) {
            double y = ((double)b->logits[i] - max) / (double)p->temperature;
            e[n++] = (struct entry){.id = i, .y = y, .p = exp(y), .key = -y};
        }
    if (p->top_k && p->top_k < n) {
        qsort(e, (size_t)n, sizeof *e, by_key);
        n = p->top_k;
    }
    if (p->typical_p < 1) {
        double sum = 0, entropy = 0;
        for (int i = 0; i < n; i++)
            sum += e[i].p;
        for (int i = 0; i < n; i++)
            if (e[i].p > 0)
                entropy -= e[i].p / sum * log(e[i].p / sum);
        for (int i = 0; i < n; i++)
            e[i].key = fabs(-log(e[i].p / sum) - entropy);
        n = keep_share(e, n, (double)p->typical_p, &edge);
    }
    for (int i = 0; i < n; i++)
        e[i].key = -e[i].y;
    if (p->top_p < 1)
        n = keep_share(e, n, (double)p->top_p, &edge);
    qsort(e, (size_t)n, sizeof *e, by_key);
    for (int i = 0; i < b->vocab; i++)
        probs[i] = 0;
    for (int i = 0; i < n; i++)
        if (e[i].p >= (double)p->min_p * e[0].p)
            total += e[i].p;
    for (int i = 0; i < n; i++)
        if (e[i].p >= (double)p->min_p * e[0].p) {
            probs[e[i].id] = e[i].p / total;
            edge = fmin(edge, fabs(e[i].p / e[0].p - (double)p->min_p));
        }
    qsort(e, (size_t)n, sizeof *e, by_id);
    return edge;
}

static void test_filters_against_plain(void **state)
{
    (void)state;
    static const struct {
        int vocab, hole, padding;
    } shapes[] = {{5, 0, 0}, {64, 0, 0}, {65, 3, 1}, {1024, 0, 0}, {5000, 0, 181}, {4096, 2, 70}};
    static const float temperatures[] = {1, 0.3F, 2.5F};
    static const struct {
        int top_k;
        float typical_p, top_p, min_p;
    } filters[] = {
        {0, 1, 1, 0},       {1, 1, 1, 0},
        {3, 1, 1, 0},       {40, 1, 1, 0},
        {3000, 1, 1, 0},    {0, 1, 0.5F, 0},
        {0, 1, 0.95F, 0},   {0, 1, 0.999999F, 0},
        {0, 1, 0, 0},       {0, 1, 1, 0.05F},
        {0, 1, 1, 1},       {0, 0.7F, 1, 0},
        {0, 0.2F, 0.9F, 0}, {50, 0.8F, 0.9F, 0.01F},
        {40, 1, 0.9F, 0},   {0, 1, 0.9F, 0.02F},
    };
    static struct bench b;
    static double probs[MAX_VOCAB];
    int compared = 0;
    for (size_t z = 0; z < TR_ARRAY_LEN(shapes); z++) {
        set_up(&b, shapes[z].vocab, shapes[z].hole, shapes[z].padding);
        for (int round = 0; round < 6; round++) {
            fill_random(&b, round % 2 ? 4 : 20);
            for (size_t t = 0; t < TR_ARRAY_LEN(temperatures); t++)
                for (size_t f = 0; f < TR_ARRAY_LEN(filters); f++) {
                    struct tr_sampling p = neutral;
                    p.temperature = temperatures[t];
                    p.top_k = filters[f].top_k;
                    p.typical_p = filters[f].typical_p;
                    p.top_p = filters[f].top_p;
                    p.min_p = filters[f].min_p;
                    p.seed = (uint64_t)(round * 100) + f;
                    double edge = plain_filter(&b, &p, probs);
                    struct tr_sample got;
                    assert_int_equal(draw(&b, &p, &got), 0);
                    assert_true(tr_idset_has(b.valid, got.id));
                    if (edge < 1e-5)
                        continue; /* float and double may cut at different tokens here */
                    double u = tr_uniform(p.seed, 0, 0), before = 0;
                    for (int i = 0; i < got.id; i++)
                        before += probs[i];
                    if (!(probs[got.id] > 0) || u < before - 1e-5 ||
                        u > before + probs[got.id] + 1e-5)
                        fail_msg("shape %zu filter %zu: id %d has [%g, %g), u = %g", z, f, got.id,
                                 before, before + probs[got.id], u);
                    compared++;
                }
        }
        tear_down(&b);
    }
    assert_true(compared > 1000);
}

static void test_logprobs_against_plain(void **state)
{
    (void)state;
    static struct bench b;
    static const int ks[] = {0, 1, 5, 20, TR_MAX_LOGPROBS};
    set_up(&b, 3000, 7, 60);
    for (size_t round = 0; round < TR_ARRAY_LEN(ks); round++) {
        fill_random(&b, 10);
        b.logits[100] = b.logits[50] = 12; /* a tie at the top */
        b.logits[2999] = 1000;             /* padding does not count */
        double sum = 0;
        for (int i = 0; i < b.vocab; i++)
            if (tr_idset_has(b.valid, i))
                sum += exp((double)b.logits[i]);
        struct tr_sampling p = neutral;
        p.n_logprobs = ks[round];
        p.temperature = 0.5F; /* raw: nothing of this may show */
        p.top_p = 0.9F;
        struct tr_bias bias[] = {{3, -100}};
        p.bias = bias;
        p.n_bias = 1;
        struct tr_sample got;
        assert_int_equal(draw(&b, &p, &got), 0);
        assert_true(fabs((double)got.logprob - ((double)b.logits[got.id] - log(sum))) < 1e-5);
        assert_int_equal(got.n_top, ks[round]);
        for (int i = 0; i < got.n_top; i++) {
            int32_t id = got.top[i].id;
            assert_true(tr_idset_has(b.valid, id));
            assert_true(fabs((double)got.top[i].logprob - ((double)b.logits[id] - log(sum))) <
                        1e-5);
            int better = 0; /* ids that must stand before */
            for (int j = 0; j < b.vocab; j++)
                better += tr_idset_has(b.valid, j) &&
                          (b.logits[j] > b.logits[id] || (b.logits[j] == b.logits[id] && j < id));
            assert_int_equal(better, i);
        }
        struct tr_sample scored;
        assert_int_equal(tr_sample_score(b.s, b.logits, got.id, ks[round], &scored), 0);
        assert_true(scored.logprob == got.logprob);
        assert_int_equal(scored.n_top, ks[round]);
    }
    tear_down(&b);
}

/* B61's distribution: chances and cuts over 400 seeds. */
static void test_edges_of_filters(void **state)
{
    (void)state;
    static const struct {
        float temperature, top_p, min_p;
        int top_k;
        int seen; /* bits of the ids that must come, and no others */
        double first, tolerance;
    } cases[] = {
        {0, 1, 0, 0, 1, 1, 0},
        {1, 0, 0, 0, 1, 1, 0},
        {1, 1, 0, 1, 1, 1, 0},
        {1, 1, 0, 0, 15, 0.5, 0.08},
        {1, 0.6F, 0, 0, 3, 2.0 / 3, 0.08},
        {1, 1, 0.3F, 0, 3, 2.0 / 3, 0.08},
        {2, 1, 0, 0, 15, 0.369, 0.08},
        {1e-45F, 1, 0, 0, 1, 1, 0},
        {1e38F, 1, 0, 0, 15, 0.25, 0.08},
        {1, 1, 1, 0, 1, 1, 0},
        {1, 1e-45F, 0, 0, 1, 1, 0},
    };
    static struct bench b;
    set_up(&b, 300, 0, 0);
    for (int i = 0; i < 300; i++)
        b.logits[i] = -200;
    for (int i = 0; i < 4; i++)
        b.logits[i] = 40.0F + logf(i < 3 ? 0.5F / (float)(1 << i) : 0.125F);
    for (size_t k = 0; k < TR_ARRAY_LEN(cases); k++) {
        int seen = 0, first = 0;
        struct tr_sampling p = neutral;
        p.temperature = cases[k].temperature;
        p.top_p = cases[k].top_p;
        p.min_p = cases[k].min_p;
        p.top_k = cases[k].top_k ? cases[k].top_k : 0;
        if (cases[k].temperature > 1e30F) /* all tokens alike: leave four */
            p.top_k = 4;
        for (p.seed = 0; p.seed < 400; p.seed++) {
            struct tr_sample got;
            assert_int_equal(draw(&b, &p, &got), 0);
            assert_in_range(got.id, 0, 3);
            seen |= 1 << got.id;
            first += got.id == 0;
        }
        assert_int_equal(seen, cases[k].seen);
        assert_true(fabs(first / 400.0 - cases[k].first) <= cases[k].tolerance);
    }
    tear_down(&b);
}

static void test_ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    static struct bench b;
    static const int vocabs[] = {1, 63, 64, 65, 1000, 5000};
    for (size_t z = 0; z < TR_ARRAY_LEN(vocabs); z++) {
        set_up(&b, vocabs[z], 0, 0);
        struct tr_sampling p = neutral;
        p.temperature = 0;
        struct tr_sample got;
        assert_int_equal(draw(&b, &p, &got), 0); /* all zero */
        assert_int_equal(got.id, 0);
        int low = vocabs[z] / 3;
        for (int i = 0; i < vocabs[z]; i++)
            b.logits[i] = i < low ? -1.0F : 5.0F;
        assert_int_equal(draw(&b, &p, &got), 0);
        assert_int_equal(got.id, low);
        p = neutral;
        p.top_p = 0;
        assert_int_equal(draw(&b, &p, &got), 0);
        assert_int_equal(got.id, low);
        tear_down(&b);
    }
}

static void test_numbers_that_are_none(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b, 500, 10, 20);
    struct tr_sampling p = neutral;
    struct tr_sample got;
    static const float temperatures[] = {0, 1, 1e-45F, 1e38F};
    for (size_t t = 0; t < TR_ARRAY_LEN(temperatures); t++) {
        p.temperature = temperatures[t];
        fill_random(&b, 5);
        b.logits[9] = b.logits[499] = NAN; /* not valid: no matter */
        b.logits[19] = INFINITY;
        assert_int_equal(draw(&b, &p, &got), 0);
        b.logits[300] = NAN;
        assert_int_equal(draw(&b, &p, &got), TR_EINTERNAL);
        assert_int_equal(tr_sample_score(b.s, b.logits, 5, 2, &got), TR_EINTERNAL);
        b.logits[300] = INFINITY;
        assert_int_equal(draw(&b, &p, &got), TR_EINTERNAL);
        b.logits[300] = -INFINITY;
        p.n_logprobs = 3;
        assert_int_equal(draw(&b, &p, &got), 0);
        assert_int_not_equal(got.id, 300);
        assert_int_equal(tr_sample_score(b.s, b.logits, 300, 0, &got), 0);
        assert_true(got.logprob == -9999.0F);
        /* The widest rows a float can hold. */
        for (int i = 0; i < b.vocab; i++)
            b.logits[i] = i % 2 ? -3.4e38F : 3.4e38F;
        assert_int_equal(draw(&b, &p, &got), 0);
        assert_int_equal(tr_sample_score(b.s, b.logits, 1, 128, &got), 0);
        assert_true(got.logprob == -9999.0F);
        for (int i = 0; i < got.n_top; i++)
            assert_true(isfinite(got.top[i].logprob));
        p.n_logprobs = -1;
    }
    tear_down(&b);
}

static void test_every_token_can_come(void **state)
{
    (void)state;
    static struct bench b;
    static int count[MAX_VOCAB];
    set_up(&b, 1500, 4, 100); /* two blocks of sums; 1400 * 3/4 ids */
    struct tr_sampling p = neutral;
    enum { N = 40000 };
    memset(count, 0, sizeof count);
    for (p.seed = 0; p.seed < N; p.seed++) {
        struct tr_sample got;
        assert_int_equal(draw(&b, &p, &got), 0);
        count[got.id]++;
    }
    double expected = N / 1050.0, chi2 = 0;
    for (int i = 0; i < b.vocab; i++) {
        if (tr_idset_has(b.valid, i))
            chi2 += (count[i] - expected) * (count[i] - expected) / expected;
        else
            assert_int_equal(count[i], 0);
    }
    /* 1049 degrees of freedom: mean 1049, standard deviation 45.8 */
    assert_true(chi2 > 1049 - 5 * 45.8 && chi2 < 1049 + 5 * 45.8);
    tear_down(&b);
}

/* Runs n greedy tokens of a job over a fixed row; out [n]. */
static void run_greedy(struct bench *b, struct tr_job *job, int n, int32_t *out)
{
    struct tr_choice *c;
    assert_int_equal(tr_choice_open(&c, job, 0, n, b->vocab, NULL, 0), 0);
    for (int i = 0; i < n; i++) {
        struct tr_sample got;
        assert_int_equal(tr_sample(b->s, c, b->logits, NULL, &got), 0);
        out[i] = got.id;
        tr_choice_accept(c, got.id);
    }
    tr_choice_close(c);
}

/* B63: PA = 81, PB = 82. */
static void test_penalties(void **state)
{
    (void)state;
    static const struct {
        float presence, frequency, repetition;
        const char *text;
    } cases[] = {
        {1.0F, 0, 1, "ABAAAAA"},
        {0, 0.3F, 1, "AABABAB"},
        {0, 0, 1.1F, "BAAAAAA"},
        {0, 0, 1, "AAAAAAA"},
    };
    static struct bench b;
    set_up(&b, 100, 0, 0);
    for (int i = 0; i < 100; i++)
        b.logits[i] = -20;
    b.logits[81] = 35.0F;
    b.logits[82] = 34.5F;
    int32_t prompt[] = {81, 81, 81, 15};
    for (size_t k = 0; k < TR_ARRAY_LEN(cases); k++) {
        struct tr_job job = {.prompt = prompt, .n_prompt = 4, .n = 1, .sampling = neutral};
        job.sampling.temperature = 0;
        job.sampling.presence_penalty = cases[k].presence;
        job.sampling.frequency_penalty = cases[k].frequency;
        job.sampling.repetition_penalty = cases[k].repetition;
        int32_t out[7];
        run_greedy(&b, &job, 7, out);
        for (int i = 0; i < 7; i++)
            assert_int_equal(out[i], cases[k].text[i] == 'A' ? 81 : 82);
    }
    /* Negative logits are multiplied. */
    b.logits[81] = -1.0F;
    b.logits[82] = -1.05F;
    struct tr_job job = {.prompt = prompt, .n_prompt = 4, .n = 1, .sampling = neutral};
    job.sampling.temperature = 0;
    job.sampling.repetition_penalty = 1.1F;
    int32_t out[1];
    run_greedy(&b, &job, 1, out);
    assert_int_equal(out[0], 82);
    tear_down(&b);
}

/* The counts hold for as many different ids as a job can have. */
static void test_many_occurrences(void **state)
{
    (void)state;
    static struct bench b;
    static int32_t prompt[2000], out[2000];
    set_up(&b, 4000, 0, 0);
    for (int i = 0; i < 2000; i++)
        prompt[i] = 2 * i;
    struct tr_job job = {.prompt = prompt, .n_prompt = 2000, .n = 1, .sampling = neutral};
    job.sampling.temperature = 0;
    job.sampling.repetition_penalty = 2;
    job.sampling.presence_penalty = 2;
    for (int i = 0; i < 4000; i++)
        b.logits[i] = 100;
    run_greedy(&b, &job, 2000, out);
    for (int i = 0; i < 2000; i++) /* the odd ids are the ones not yet seen */
        assert_int_equal(out[i], 2 * i + 1);
    tear_down(&b);
}

static void test_bias_and_masks(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b, 200, 0, 10);
    for (int i = 0; i < 200; i++)
        b.logits[i] = (float)-i;
    struct tr_sampling p = neutral;
    struct tr_sample got;
    p.temperature = 0;
    struct tr_bias bias[] = {{0, -100}, {7, 100}};
    p.bias = bias;
    p.n_bias = 1;
    assert_int_equal(draw(&b, &p, &got), 0);
    assert_int_equal(got.id, 1);
    p.n_bias = 2;
    assert_int_equal(draw(&b, &p, &got), 0);
    assert_int_equal(got.id, 7);

    p = neutral;
    int32_t allowed[] = {3, 64, 189};
    p.allowed = allowed;
    p.n_allowed = 3;
    p.temperature = 1e30F;
    int seen = 0;
    for (p.seed = 0; p.seed < 100; p.seed++) {
        assert_int_equal(draw(&b, &p, &got), 0);
        assert_true(got.id == 3 || got.id == 64 || got.id == 189);
        seen |= got.id == 3 ? 1 : got.id == 64 ? 2 : 4;
    }
    assert_int_equal(seen, 7);

    /* The caller's mask and the job's together. */
    int32_t prompt[] = {0};
    struct tr_job job = {.prompt = prompt, .n_prompt = 1, .n = 1, .sampling = p};
    struct tr_choice *c;
    uint64_t mask[4] = {0};
    tr_idset_add(mask, 64);
    tr_idset_add(mask, 5);
    assert_int_equal(tr_choice_open(&c, &job, 0, 1, b.vocab, NULL, 0), 0);
    assert_int_equal(tr_sample(b.s, c, b.logits, mask, &got), 0);
    assert_int_equal(got.id, 64);
    memset(mask, 0, sizeof mask);
    tr_idset_add(mask, 199); /* padding */
    assert_int_equal(tr_sample(b.s, c, b.logits, mask, &got), TR_EINVAL);
    tr_choice_close(c);
    tear_down(&b);
}

/* Ids at hand: few of them, long stretches, or nearly all. */
static void random_mask(uint64_t *mask, int vocab, int kind)
{
    memset(mask, 0, (MAX_VOCAB / 64 + 1) * sizeof *mask);
    bool in = true;
    for (int i = 0; i < vocab; i++) {
        double u = random_unit();
        in = kind == 1 ? in == (u > 0.005) : kind == 2 ? u > 0.003 : u < 0.003;
        if (in)
            tr_idset_add(mask, i);
    }
}

/* Under a mask the other logits are as good as -inf, and nobody looks at them. */
static void test_masked_logits_do_not_matter(void **state)
{
    (void)state;
    static struct bench b;
    static float garbage[MAX_VOCAB];
    static uint64_t mask[MAX_VOCAB / 64 + 1];
    int32_t prompt[] = {5, 700, 5, 1300};
    struct tr_bias bias[] = {{700, 3}, {1301, -2}};
    int drawn = 0;
    set_up(&b, 4900, 7, 37);
    for (int i = 0; i < 3000; i++) {
        fill_random(&b, 1 + i % 5);
        struct tr_job job = {.prompt = prompt, .n_prompt = 4, .n = 1, .sampling = neutral};
        struct tr_sampling *p = &job.sampling;
        p->temperature = i % 3 == 0 ? 1.0F : (float)(i % 4) * 0.7F;
        p->top_k = i % 7 ? 0 : 1 + i % 90;
        p->top_p = i % 5 ? 1.0F : 0.9F;
        p->min_p = i % 11 ? 0.0F : 0.05F;
        p->typical_p = i % 13 ? 1.0F : 0.8F;
        p->repetition_penalty = i % 2 ? 1.0F : 1.4F;
        p->bias = bias;
        p->n_bias = i % 3;
        p->seed = (uint64_t)i;
        random_mask(mask, b.vocab, i % 4);
        for (int k = 0; k < b.vocab; k++) {
            garbage[k] = tr_idset_has(mask, k) ? b.logits[k] : k % 2 ? NAN : INFINITY;
            b.logits[k] = tr_idset_has(mask, k) ? b.logits[k] : -INFINITY;
        }
        struct tr_choice *c;
        struct tr_sample with = {.id = -1}, without = {.id = -1};
        assert_int_equal(tr_choice_open(&c, &job, 0, 1, b.vocab, NULL, 0), 0);
        int r = tr_sample(b.s, c, garbage, mask, &with);
        assert_int_equal(tr_sample(b.s, c, b.logits, NULL, &without), r);
        assert_int_equal(with.id, without.id);
        drawn += r == 0;
        tr_choice_close(c);
    }
    assert_true(drawn > 2900);
    tear_down(&b);
}

/* Where a choice takes the only id for certain, drawing it gives the same. */
static void test_the_only_id(void **state)
{
    (void)state;
    static struct bench b;
    int32_t prompt[] = {0}, stop[] = {3}, eog[] = {4}, word[] = {1, 5};
    set_up(&b, 200, 0, 0);
    fill_random(&b, 3);
    for (int kind = 0; kind < 6; kind++) {
        struct tr_job job = {.prompt = prompt, .n_prompt = 1, .n = 1, .sampling = neutral};
        job.stop_ids = stop;
        job.n_stop_ids = 1;
        job.min_tokens = kind == 1;
        job.sampling.n_logprobs = kind == 2 ? 0 : -1;
        job.sampling.bad_words = word;
        job.sampling.n_bad_words = kind == 3 ? 2 : 0;
        job.sampling.allowed = eog;
        job.sampling.n_allowed = kind == 4;
        job.sampling.repetition_penalty = kind == 5 ? 1e-38F : 1.0F;
        struct tr_choice *c;
        assert_int_equal(tr_choice_open(&c, &job, 0, 1, b.vocab, eog, 1), 0);
        int taken = 0;
        for (int32_t id = 0; id < 200; id++) {
            uint64_t mask[4] = {0};
            struct tr_sample got = {.id = -1};
            tr_idset_add(mask, id);
            if (!tr_choice_takes(c, id))
                continue;
            taken++;
            assert_int_equal(tr_sample(b.s, c, b.logits, mask, &got), 0);
            assert_int_equal(got.id, id);
        }
        assert_int_equal(taken, kind == 0 ? 200 : kind == 1 ? 198 : 0);
        tr_choice_close(c);
    }
    tear_down(&b);
}

static void test_bad_words(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b, 10, 0, 0);
    for (int i = 0; i < 10; i++)
        b.logits[i] = (float)-i;
    int32_t prompt[] = {2, 1};
    int32_t words[] = {1, 0, 2, 1, 1, 3, 1, 2, 1};
    struct tr_job job = {.prompt = prompt, .n_prompt = 2, .n = 1, .sampling = neutral};
    job.sampling.temperature = 0;
    job.sampling.bad_words = words;
    job.sampling.n_bad_words = (int)TR_ARRAY_LEN(words);
    int32_t out[6];
    run_greedy(&b, &job, 6, out);
    /* never 0, never 1 1, never 1 2 1; the prompt's own ids do not count */
    static const int32_t want[] = {1, 2, 2, 1, 2, 2};
    assert_memory_equal(out, want, sizeof want);
    tear_down(&b);
}

static void test_min_tokens(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b, 10, 0, 0);
    for (int i = 0; i < 10; i++)
        b.logits[i] = (float)-i;
    int32_t prompt[] = {2}, stop[] = {1}, eog[] = {0};
    struct tr_job job = {.prompt = prompt,
                         .n_prompt = 1,
                         .n = 1,
                         .min_tokens = 2,
                         .stop_ids = stop,
                         .n_stop_ids = 1,
                         .sampling = neutral};
    job.sampling.temperature = 0;
    struct tr_choice *c;
    assert_int_equal(tr_choice_open(&c, &job, 0, 3, b.vocab, eog, 1), 0);
    static const int32_t want[] = {2, 2, 0};
    for (int i = 0; i < 3; i++) {
        struct tr_sample got;
        assert_int_equal(tr_sample(b.s, c, b.logits, NULL, &got), 0);
        assert_int_equal(got.id, want[i]);
        tr_choice_accept(c, got.id);
    }
    tr_choice_close(c);
    tear_down(&b);
}

static void test_draw_depends_on_seed_choice_position(void **state)
{
    (void)state;
    static struct bench b;
    set_up(&b, 4096, 0, 0);
    fill_random(&b, 1);
    int32_t prompt[] = {0};
    int differ = 0;
    for (int k = 0; k < 20; k++) {
        struct tr_job job = {.prompt = prompt, .n_prompt = 1, .n = 2, .sampling = neutral};
        job.sampling.seed = (uint64_t)k;
        struct tr_choice *a, *again, *other;
        struct tr_sample x, y, z, next;
        assert_int_equal(tr_choice_open(&a, &job, 0, 2, b.vocab, NULL, 0), 0);
        assert_int_equal(tr_choice_open(&again, &job, 0, 2, b.vocab, NULL, 0), 0);
        assert_int_equal(tr_choice_open(&other, &job, 1, 2, b.vocab, NULL, 0), 0);
        assert_int_equal(tr_sample(b.s, a, b.logits, NULL, &x), 0);
        assert_int_equal(tr_sample(b.s, again, b.logits, NULL, &y), 0);
        assert_int_equal(tr_sample(b.s, other, b.logits, NULL, &z), 0);
        assert_int_equal(x.id, y.id);
        tr_choice_accept(a, x.id);
        assert_int_equal(tr_sample(b.s, a, b.logits, NULL, &next), 0);
        differ += (x.id != z.id) + (x.id != next.id);
        tr_choice_close(a);
        tr_choice_close(again);
        tr_choice_close(other);
    }
    assert_true(differ >= 38);
    tear_down(&b);
}

static void test_check(void **state)
{
    (void)state;
    uint64_t valid[2] = {UINT64_MAX, 0xFFFF};
    int32_t good_ids[] = {0, 79}, beyond[] = {100}, padding[] = {80}, falling[] = {5, 4},
            twice[] = {5, 5};
    int32_t good_words[] = {2, 1, 2, 1, 3}, empty_word[] = {0}, cut_word[] = {3, 1, 2},
            negative[] = {-1, 3};
    struct tr_bias good_bias[] = {{3, 100}, {4, -100}}, large[] = {{3, 101}},
                   nan_bias[] = {{3, NAN}}, lost[] = {{-1, 5}};
    const struct {
        const char *param; /* NULL = good */
        struct tr_sampling p;
    } cases[] = {
#define WITH(...)                                                                                  \
    {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, __VA_ARGS__}
        {NULL, WITH(.min_p = 0)},
        {NULL, WITH(.allowed = twice, .n_allowed = 2)},
        {NULL, WITH(.bias = good_bias, .n_bias = 2, .allowed = good_ids, .n_allowed = 2,
                    .bad_words = good_words, .n_bad_words = 5, .n_logprobs = 128)},
        {"temperature", {.temperature = -1}},
        {"temperature", {.temperature = NAN}},
        {"temperature", {.temperature = INFINITY, .top_p = 1, .typical_p = 1}},
        {"top_p", {.temperature = 1, .top_p = 1.5F}},
        {"top_p", {.temperature = 1, .top_p = NAN}},
        {"min_p", WITH(.min_p = 2)},
        {"typical_p", {.temperature = 1, .typical_p = -1}},
        {"presence_penalty", WITH(.presence_penalty = 2.1F)},
        {"frequency_penalty", WITH(.frequency_penalty = -2.1F)},
        {"repetition_penalty", {.temperature = 1, .repetition_penalty = 0}},
        {"top_k", WITH(.top_k = -1)},
        {"logprobs", WITH(.n_logprobs = 129)},
        {"logprobs", WITH(.n_logprobs = -2)},
        {"logit_bias", WITH(.bias = large, .n_bias = 1)},
        {"logit_bias", WITH(.bias = nan_bias, .n_bias = 1)},
        {"logit_bias", WITH(.bias = lost, .n_bias = 1)},
        {"allowed_token_ids", WITH(.allowed = beyond, .n_allowed = 1)},
        {"allowed_token_ids", WITH(.allowed = padding, .n_allowed = 1)},
        {"allowed_token_ids", WITH(.allowed = falling, .n_allowed = 2)},
        {"bad_words", WITH(.bad_words = empty_word, .n_bad_words = 1)},
        {"bad_words", WITH(.bad_words = cut_word, .n_bad_words = 3)},
        {"bad_words", WITH(.bad_words = negative, .n_bad_words = 2)},
#undef WITH
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_err err = {0};
        int r = tr_sampling_check(&cases[i].p, 100, valid, &err);
        if (cases[i].param) {
            assert_int_equal(r, TR_EINVAL);
            assert_string_equal(err.param, cases[i].param);
        } else {
            assert_int_equal(r, 0);
        }
    }
}

int main(void)
{
    tr_fp_enter();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filters_against_plain),
        cmocka_unit_test(test_logprobs_against_plain),
        cmocka_unit_test(test_edges_of_filters),
        cmocka_unit_test(test_ties_go_to_the_lowest_id),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_every_token_can_come),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_many_occurrences),
        cmocka_unit_test(test_bias_and_masks),
        cmocka_unit_test(test_masked_logits_do_not_matter),
        cmocka_unit_test(test_the_only_id),
        cmocka_unit_test(test_bad_words),
        cmocka_unit_test(test_min_tokens),
        cmocka_unit_test(test_draw_depends_on_seed_choice_position),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
