/*
 * The tables of all levels: no kernel is missing from any, and each level stands in its own table
 * with kernels of its own.
 */
#include <string.h>

#include "tests/kernels/kit.h"

enum { N_ISA = TR_ISA_AMX + 1 };

/* The members of a table that are functions lie behind its name, one pointer each. */
static void test_nothing_is_missing(void **state)
{
    (void)state;
    size_t first = offsetof(struct tr_kernels, rmsnorm);
    size_t f32 = offsetof(struct tr_kernels, gemm[TR_W_F32]);
    assert_int_equal((sizeof(struct tr_kernels) - first) % sizeof(void *), 0);
    for (int isa = TR_ISA_GENERIC; isa < N_ISA; isa++) {
        const struct tr_kernels *kn = tr_kernels_select((enum tr_isa)isa);
        for (size_t at = first; at < sizeof *kn; at += sizeof(void *)) {
            void *member;
            memcpy(&member, (const char *)kn + at, sizeof member);
            if (!member != (at == f32)) /* F32 is OpenBLAS's */
                fail_msg("%s: the member at byte %zu is %p", kn->name, at, member);
        }
    }
}

static void test_each_level_is_chosen(void **state)
{
    (void)state;
    static const char *const names[N_ISA] = {"generic", "avx2", "avx512", "amx"};
    enum tr_isa best = tr_isa_detect();
    for (int isa = TR_ISA_GENERIC; isa < N_ISA; isa++) {
        const struct tr_kernels *kn = tr_kernels_select((enum tr_isa)isa);
        assert_int_equal(kn->level, TR_MIN(isa, (int)best));
        assert_string_equal(kn->name, names[kn->level]);
    }
    assert_ptr_equal(tr_kernels_select(TR_ISA_AUTO), tr_kernels_select(best));
}

/* A level that forgot to add itself would be that below. */
static void test_each_level_adds(void **state)
{
    (void)state;
    for (int isa = TR_ISA_AVX2; isa <= (int)tr_isa_detect(); isa++) {
        const struct tr_kernels *kn = tr_kernels_select((enum tr_isa)isa);
        const struct tr_kernels *below = tr_kernels_select((enum tr_isa)(isa - 1));
        for (int type = TR_W_Q8_0; type <= TR_W_Q6_K; type++)
            assert_true(kn->gemm[type] != below->gemm[type]);
        assert_int_equal(kn->rmsnorm == below->rmsnorm, isa == TR_ISA_AMX);
        assert_int_equal(kn->attn[TR_KV_Q8] == below->attn[TR_KV_Q8], isa == TR_ISA_AMX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_missing),
        cmocka_unit_test(test_each_level_is_chosen),
        cmocka_unit_test(test_each_level_adds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
