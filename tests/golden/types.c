/*
 * Weight types on real text: how far a type is from fp32, and that every instruction set gives the same bits.
 *
 * The text is 2,000 tokens of the demo checkpoint's own kind (make_stories.py). hashes.txt holds one line a case: a
 * 64-bit FNV-1a hash over all logits. The numeric contract makes it one number for every machine: a change of it is a
 * change of the contract, and must be said in the commit that makes it.
 */
#include "tests/golden/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 2048, HASH_TOKENS = 96 };

static void open_demo(struct run *r, enum tr_weights_choice choice)
{
    struct run_options o = {.path = "config/demo",
                            .max_tokens = ROOM,
                            .threads = 2,
                            .page = 64,
                            .choice = choice,
                            .isa = TR_ISA_AUTO,
                            .kv = TR_KV_F32};
    run_open(r, &o);
}

static double kl(const float *want, const float *got, int n)
{
    double z_want = 0;
    double z_got = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        z_want += exp((double)want[i]);
        z_got += exp((double)got[i]);
    }
    for (int i = 0; i < n; i++)
        sum += exp((double)want[i]) / z_want *
               ((double)want[i] - log(z_want) - (double)got[i] + log(z_got));
    return sum;
}

static void distance_to_fp32(void **state)
{
    static const struct {
        const char *name;
        enum tr_weights_choice choice;
        double max_kl;
    } types[] = {
        {"bf16", TR_WEIGHTS_BF16, 0.0005},
        {"q8_0", TR_WEIGHTS_Q8_0, 0.0005},
        {"q4_0", TR_WEIGHTS_Q4_0, 0.01},
    };
    (void)state;
    struct golden g;
    struct run exact;
    golden_read(&g, "demo-stories");
    open_demo(&exact, TR_WEIGHTS_F32);
    run_prefill(&exact, g.prompt, g.n, 256);
    int vocab = exact.weights->config.vocab_size;
    for (size_t t = 0; t < TR_ARRAY_LEN(types); t++) {
        struct run r;
        double sum = 0;
        int agree = 0;
        open_demo(&r, types[t].choice);
        run_prefill(&r, g.prompt, g.n, 256);
        for (int i = 0; i < g.n; i++) {
            const float *want = exact.logits + (size_t)i * vocab;
            const float *got = r.logits + (size_t)i * vocab;
            sum += kl(want, got, vocab);
            agree += argmax(want, vocab) == argmax(got, vocab);
        }
        print_message("%s: mean KL to fp32 %.2g, best token equal %.1f %%\n", types[t].name,
                      sum / g.n, 100.0 * agree / g.n);
        assert_true(sum / g.n < types[t].max_kl);
        run_close(&r);
    }
    run_close(&exact);
    golden_done(&g);
}

struct hash_case {
    char path[64];
    char weights[8];
    char kv[8];
    unsigned long long hash;
};

static int by_name(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    fail_msg("hashes.txt: what is %s?", name);
    return 0;
}

static uint64_t hash_logits(const struct hash_case *c, enum tr_isa isa, const int32_t *tokens)
{
    static const char *const weights[] = {"auto", "f32", "bf16", "q8_0", "q4_0"};
    static const char *const kv[] = {"f32", "bf16", "q8"};
    struct run r;
    struct run_options o = {
        .path = c->path,
        .max_tokens = HASH_TOKENS,
        .threads = 2,
        .page = 16,
        .choice = (enum tr_weights_choice)by_name(c->weights, weights, TR_ARRAY_LEN(weights)),
        .isa = isa,
        .kv = (enum tr_kv_type)by_name(c->kv, kv, TR_ARRAY_LEN(kv)),
    };
    run_open(&r, &o);
    int vocab = r.weights->config.vocab_size;
    int32_t mine[HASH_TOKENS];
    for (int i = 0; i < HASH_TOKENS; i++)
        mine[i] = tokens[i] % vocab;
    run_prefill(&r, mine, HASH_TOKENS - 8, 40);
    for (int i = HASH_TOKENS - 8; i < HASH_TOKENS; i++)
        run_step(&r, mine, i, 1);
    uint64_t hash = 0xCBF29CE484222325U;
    const unsigned char *bytes = (const unsigned char *)r.logits;
    for (size_t i = 0; i < (size_t)HASH_TOKENS * vocab * sizeof *r.logits; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3U;
    run_close(&r);
    return hash;
}

static void same_bits_on_every_level(void **state)
{
    static const enum tr_isa levels[] = {TR_ISA_GENERIC, TR_ISA_AVX2, TR_ISA_AVX512, TR_ISA_AMX};
    (void)state;
    struct golden g;
    struct hash_case c;
    int cases = 0;
    FILE *f = fopen("tests/golden/hashes.txt", "r");
    assert_non_null(f);
    golden_read(&g, "demo-stories");
    while (fscanf(f, "%63s %7s %7s %llx", c.path, c.weights, c.kv, &c.hash) == 4) {
        cases++;
        for (size_t i = 0; i < TR_ARRAY_LEN(levels); i++) {
            const struct tr_kernels *kn = tr_kernels_select(levels[i]);
            if (kn->level != levels[i])
                continue;
            uint64_t hash = hash_logits(&c, levels[i], g.prompt);
            if (hash != c.hash)
                fail_msg("%s weights=%s kv_type=%s at level %s: %016llx, not %016llx", c.path,
                         c.weights, c.kv, kn->name, (unsigned long long)hash, c.hash);
        }
    }
    assert_true(feof(f));
    assert_in_range(cases, 10, 100);
    fclose(f);
    golden_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_to_fp32),
        cmocka_unit_test(same_bits_on_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
