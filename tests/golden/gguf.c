/*
 * GGUF files against the reference on dequantised weights (tests/golden/gguf, made by make_gguf.py, and formats/gguf,
 * whose four files have all other types): computed in fp32 to 1e-3 of the logits' range; computed from the stored types,
 * how far they are.
 */
#include "tests/golden/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 64 };

struct file {
    const char *name;
    double max_kl;    /* mean over the positions, reference to ours */
    double max_error; /* of a logit; the logits span about 9 */
};

static const struct file files[] = {
    {"bf16", 2e-4, 0.05}, {"q8_0", 2e-4, 0.06},   {"q4_0", 5e-4, 0.10},
    {"q6_k", 2e-4, 0.06}, {"q5_k_m", 2e-4, 0.06}, {"q4_k_m", 5e-4, 0.10},
};
static const struct file others[] = {
    {"blocks32", 2e-4, 0.06},
    {"q2k-q3k-iq4xs", 2e-4, 0.06},
    {"iq2-iq3", 2e-4, 0.06},
    {"iq1-tq", 2e-4, 0.10},
};

static void open_file(struct run *r, const char *folder, const char *name,
                      enum tr_weights_choice choice)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s/%s.gguf", folder, name);
    struct run_options o = {.path = path,
                            .max_tokens = ROOM,
                            .threads = 2,
                            .page = 16,
                            .choice = choice,
                            .isa = TR_ISA_AUTO,
                            .kv = TR_KV_F32};
    run_open(r, &o);
}

/* Largest error, the reference's range, and the mean KL divergence over the positions kept. */
static void distance(const struct tr_json *doc, const struct run *r, double *ret_error,
                     double *ret_range, double *ret_kl)
{
    int vocab = r->weights->config.vocab_size;
    struct tr_json positions = tr_json_get(doc, "positions");
    struct tr_json rows = tr_json_get(doc, "logits");
    size_t n = tr_json_size(&positions);
    double low = 1e30;
    double high = -1e30;
    *ret_error = *ret_kl = 0;
    for (size_t i = 0; i < n; i++) {
        struct tr_json position = tr_json_at(&positions, i);
        struct tr_json row = tr_json_at(&rows, i);
        const float *got = r->logits + (size_t)golden_number(&position) * vocab;
        double want[512];
        double z_want = 0;
        double z_got = 0;
        assert_in_range(vocab, 1, TR_ARRAY_LEN(want));
        for (int j = 0; j < vocab; j++) {
            struct tr_json v = tr_json_at(&row, (size_t)j);
            want[j] = golden_number(&v);
            low = fmin(low, want[j]);
            high = fmax(high, want[j]);
            *ret_error = fmax(*ret_error, fabs(want[j] - (double)got[j]));
            z_want += exp(want[j]);
            z_got += exp((double)got[j]);
        }
        for (int j = 0; j < vocab; j++)
            *ret_kl += exp(want[j]) / z_want *
                       (want[j] - log(z_want) - (double)got[j] + log(z_got)) / (double)n;
    }
    *ret_range = high - low;
}

static double margin(const float *x, int n)
{
    int best = argmax(x, n);
    double second = -1e30;
    for (int i = 0; i < n; i++)
        if (i != best)
            second = fmax(second, (double)x[i]);
    return (double)x[best] - second;
}

static void check_file(struct golden *g, const char *folder, const struct file *file)
{
    const char *name = file->name;
    double max_error = file->max_error;
    struct tr_json doc = tr_json_get(&g->root, name);
    struct tr_json greedy = tr_json_get(&doc, "greedy");
    struct run exact;
    struct run stored;
    int32_t tokens[ROOM];
    double error;
    double range;
    double kl;
    golden_prompt(g, &doc);
    memcpy(tokens, g->prompt, (size_t)g->n * sizeof *tokens);
    open_file(&exact, folder, name, TR_WEIGHTS_F32);
    open_file(&stored, folder, name, TR_WEIGHTS_AUTO);
    int vocab = exact.weights->config.vocab_size;

    run_prefill(&exact, tokens, g->n, g->n);
    distance(&doc, &exact, &error, &range, &kl);
    print_message("%s: in fp32 off by %.2g of a range of %.3g", name, error, range);
    assert_true(error <= 1e-3 * range);
    run_prefill(&stored, tokens, g->n, 5);
    distance(&doc, &stored, &error, &range, &kl);
    print_message("; as stored %.2g, KL %.2g\n", error, kl);
    assert_true(error <= max_error);
    assert_true(kl <= file->max_kl);

    int agree = 0;
    for (int i = 0; i < (int)tr_json_size(&greedy); i++) {
        struct tr_json want = tr_json_at(&greedy, (size_t)i);
        int pos = g->n + i;
        const float *row = exact.logits + ((size_t)pos - 1) * vocab;
        const float *row2 = stored.logits + ((size_t)pos - 1) * vocab;
        tokens[pos] = argmax(row, vocab);
        assert_int_equal(tokens[pos], (int)golden_number(&want));
        if (margin(row, vocab) > 2 * max_error)
            assert_int_equal(argmax(row2, vocab), tokens[pos]);
        agree += argmax(row2, vocab) == tokens[pos];
        run_step(&exact, tokens, pos, 1);
        run_step(&stored, tokens, pos, 1);
    }
    print_message("   best token equal at %d of %d\n", agree, (int)tr_json_size(&greedy));
    run_close(&exact);
    run_close(&stored);
}

static void check_files(const char *folder, const struct file *list, size_t n)
{
    char name[64];
    struct golden g;
    snprintf(name, sizeof name, "%s/logits", folder);
    golden_read(&g, name);
    for (size_t i = 0; i < n; i++)
        check_file(&g, folder, &list[i]);
    golden_done(&g);
}

static void common_types(void **state)
{
    (void)state;
    check_files("gguf", files, TR_ARRAY_LEN(files));
}

static void all_other_types(void **state)
{
    (void)state;
    check_files("formats/gguf", others, TR_ARRAY_LEN(others));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(common_types),
                                       cmocka_unit_test(all_other_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
