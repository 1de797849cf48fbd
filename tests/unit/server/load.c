/* The option table means what the engine means by its words. */
#include "server/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char program[] = "trinityd", check[] = "check";

/* The engine's options for `trinityd check --NAME=VALUE`. */
static struct tr_engine_options options_of(struct tr_options *o, char *argument)
{
    char *argv[] = {program, check, argument, NULL};
    char *envp[] = {NULL};
    struct tr_engine_options e;
    struct tr_err err;
    assert_int_equal(tr_options_parse(o, argument ? 3 : 2, argv, envp, &err), 0);
    srv_engine_options(&e, o);
    return e;
}

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *argument;
        int weights, isa, kv_type;
    } cases[] = {
        {"--weights=auto", TR_WEIGHTS_AUTO, TR_ISA_AUTO, TR_KV_BF16},
        {"--weights=f32", TR_WEIGHTS_F32, TR_ISA_AUTO, TR_KV_BF16},
        {"--weights=bf16", TR_WEIGHTS_BF16, TR_ISA_AUTO, TR_KV_BF16},
        {"--weights=q8_0", TR_WEIGHTS_Q8_0, TR_ISA_AUTO, TR_KV_BF16},
        {"--weights=q4_0", TR_WEIGHTS_Q4_0, TR_ISA_AUTO, TR_KV_BF16},
        {"--isa=generic", TR_WEIGHTS_AUTO, TR_ISA_GENERIC, TR_KV_BF16},
        {"--isa=avx2", TR_WEIGHTS_AUTO, TR_ISA_AVX2, TR_KV_BF16},
        {"--isa=avx512", TR_WEIGHTS_AUTO, TR_ISA_AVX512, TR_KV_BF16},
        {"--isa=amx", TR_WEIGHTS_AUTO, TR_ISA_AMX, TR_KV_BF16},
        {"--kv-type=f32", TR_WEIGHTS_AUTO, TR_ISA_AUTO, TR_KV_F32},
        {"--kv-type=q8", TR_WEIGHTS_AUTO, TR_ISA_AUTO, TR_KV_Q8},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        char argument[32];
        struct tr_options o;
        strcpy(argument, cases[i].argument);
        struct tr_engine_options e = options_of(&o, argument);
        assert_int_equal(e.weights, cases[i].weights);
        assert_int_equal(e.isa, cases[i].isa);
        assert_int_equal(e.kv_type, cases[i].kv_type);
        tr_options_done(&o);
    }
}

static void test_sizes_as_text(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 bytes"},
        {1023, "1023 bytes"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {1048575, "1.00 MiB"},
        {3ULL << 30, "3.00 GiB"},
        {UINT64_MAX, "16.00 EiB"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        char text[24];
        assert_string_equal(srv_bytes_text(text, cases[i].bytes), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_sizes_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
