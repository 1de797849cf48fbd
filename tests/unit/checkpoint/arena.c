/* Memory for weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/checkpoint/arena.h"

static void is_zeroed_and_aligned(void **state)
{
    static const uint64_t sizes[] = {1, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        struct tr_arena a;
        assert_int_equal(tr_arena_init(&a, sizes[i], NULL), 0);
        assert_int_equal((uintptr_t)a.data % (2 << 20), 0);
        assert_int_equal(a.data[0] | a.data[sizes[i] / 2] | a.data[sizes[i] - 1], 0);
        memset(a.data, 0xFF, sizes[i]);
        tr_arena_done(&a);
        assert_null(a.data);
    }
}

static void of_nothing_is_nothing(void **state)
{
    struct tr_arena a;
    (void)state;
    assert_int_equal(tr_arena_init(&a, 0, NULL), 0);
    assert_null(a.data);
    tr_arena_done(&a);
}

static void refuses_more_than_there_is(void **state)
{
    static const uint64_t sizes[] = {(uint64_t)1 << 50, INT64_MAX, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(sizes); i++) {
        struct tr_arena a;
        struct tr_err err;
        assert_int_equal(tr_arena_init(&a, sizes[i], &err), TR_ENOMEM);
        assert_non_null(strstr(err.msg, "GiB are left"));
        tr_arena_done(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_zeroed_and_aligned),
        cmocka_unit_test(of_nothing_is_nothing),
        cmocka_unit_test(refuses_more_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
