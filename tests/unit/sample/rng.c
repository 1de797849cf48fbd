/* The generator against the published vector of Philox 4x32-10 for zero key and counter
 * (Random123's kat_vectors: 6627e8d5 e169c58d bc57ac4c 9b00dbd8) and others computed by a second
 * implementation that was checked against all of the published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/sample/sampler.h"

static void test_vectors(void **state)
{
    (void)state;
    assert_true(tr_uniform(0, 0, 0) == (double)(0xe169c58d6627e8d5U >> 11) * 0x1p-53);
    assert_true(tr_uniform(1, 0, 0) == (double)0x1ca141d79c7d00 * 0x1p-53);
    assert_true(tr_uniform(0xdeadbeefcafef00d, 3, (7ULL << 32) + 5) ==
                (double)0x106d94cdad7915 * 0x1p-53);
    assert_true(tr_uniform(42, 1, 1000) == (double)0x12ed18911042a6 * 0x1p-53);
}

/* Mean and variance of a uniform variable, within five standard errors, along each coordinate. */
static void test_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    for (int axis = 0; axis < 3; axis++) {
        double sum = 0, squares = 0;
        for (unsigned i = 0; i < N; i++) {
            double u = tr_uniform(axis == 0 ? i : 9, axis == 1 ? i : 0, axis == 2 ? i : 0);
            assert_true(u >= 0.0 && u < 1.0);
            sum += u;
            squares += (u - 0.5) * (u - 0.5);
        }
        assert_true(sum / N > 0.5 - 0.0046 && sum / N < 0.5 + 0.0046);
        assert_true(squares / N > 1.0 / 12 - 0.0012 && squares / N < 1.0 / 12 + 0.0012);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
