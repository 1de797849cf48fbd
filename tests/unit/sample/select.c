/* Radix selection against a sort. */
#include "engine/sample/select.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_N = 3000 };

static uint64_t state = 1;

static uint32_t random_u32(void)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(state >> 32);
}

static const uint32_t *sort_keys;

static int compare(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    if (sort_keys[i] != sort_keys[j])
        return sort_keys[i] < sort_keys[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

/* The cut by sorting everything. Weights are small integers, so every order of summing gives the
 * same. */
static struct tr_cut sorted_cut(const uint32_t *keys, const float *weights, int n, double target)
{
    static int order[MAX_N];
    for (int i = 0; i < n; i++)
        order[i] = i;
    sort_keys = keys;
    qsort(order, (size_t)n, sizeof *order, compare);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += weights ? (double)weights[order[i]] : 1.0;
        if (sum >= target)
            return (struct tr_cut){keys[order[i]], order[i]};
    }
    return (struct tr_cut){keys[order[n - 1]], order[n - 1]};
}

static void test_against_sort(void **unused)
{
    (void)unused;
    static uint32_t keys[MAX_N];
    static float weights[MAX_N];
    static int scratch[MAX_N];
    static const uint32_t masks[] = {0xFFFFFFFF, 0xFF, 0xFF000000, 0x3, 0, 0x00FFFF00};
    static const int sizes[] = {1, 2, 3, 64, 257, MAX_N};
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
            for (int round = 0; round < 40; round++) {
                int n = sizes[z];
                double total = 0;
                for (int i = 0; i < n; i++) {
                    keys[i] = random_u32() & masks[m];
                    weights[i] = (float)(random_u32() % 8);
                    total += (double)weights[i];
                }
                bool counted = round % 2;
                double target = counted ? random_u32() % (unsigned)(n + 2)
                                        : (double)(random_u32() % (unsigned)(total + 2));
                const float *w = counted ? NULL : weights;
                struct tr_cut got = tr_select(keys, w, n, target, scratch);
                struct tr_cut want = sorted_cut(keys, w, n, target);
                for (int i = 0; i < n; i++)
                    if (tr_cut_keeps(got, keys[i], i) != tr_cut_keeps(want, keys[i], i))
                        fail_msg("n %d target %g: entry %d", n, target, i);
            }
}

static void test_order_of_keys(void **unused)
{
    (void)unused;
    static const float ordered[] = {INFINITY, 3.4e38F, 2.0F,  1.0F,     1e-45F,   0.0F,
                                    -1e-45F,  -1.0F,   -2.0F, -3.4e38F, -INFINITY};
    for (size_t i = 1; i < sizeof ordered / sizeof *ordered; i++)
        assert_true(tr_key_descending(ordered[i - 1]) < tr_key_descending(ordered[i]));
    assert_int_equal(tr_key_descending(0.0F), tr_key_descending(-0.0F));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_sort),
        cmocka_unit_test(test_order_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
