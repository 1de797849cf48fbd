/* Guesses come from the last place where the same three tokens stood, and rest after failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/schedule/ngram.h"

static void repeats_what_followed(void **state)
{
    (void)state;
    int32_t ids[64] = {9, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3};
    struct tr_ngram g;
    assert_int_equal(tr_ngram_init(&g, 64), 0);
    assert_int_equal(tr_ngram_draft(&g, ids, 11, 16), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ids[11 + i], 4 + i);
    assert_int_equal(tr_ngram_draft(&g, ids, 11, 2), 2);
    assert_int_equal(tr_ngram_draft(&g, ids, 11, 0), 0);
    assert_int_equal(tr_ngram_draft(&g, ids, 2, 16), 0);
    tr_ngram_done(&g);
}

static void nothing_new(void **state)
{
    (void)state;
    int32_t ids[64];
    struct tr_ngram g;
    for (int i = 0; i < 64; i++)
        ids[i] = i;
    assert_int_equal(tr_ngram_init(&g, 64), 0);
    for (int n = 0; n < 40; n++)
        assert_int_equal(tr_ngram_draft(&g, ids, n, 16), 0);
    tr_ngram_done(&g);
}

static void learns(void **state)
{
    (void)state;
    int32_t ids[128] = {0};
    struct tr_ngram g;
    assert_int_equal(tr_ngram_init(&g, 128), 0);
    assert_int_equal(tr_ngram_draft(&g, ids, 40, 16), 4);
    tr_ngram_learn(&g, 4, 4);
    assert_int_equal(tr_ngram_draft(&g, ids, 45, 16), 8);
    tr_ngram_learn(&g, 8, 8);
    tr_ngram_learn(&g, 16, 16);
    assert_int_equal(tr_ngram_draft(&g, ids, 60, 16), 16);
    tr_ngram_learn(&g, 16, 2);
    assert_int_equal(tr_ngram_draft(&g, ids, 64, 16), 3);
    int tried = 0; /* nothing right: tried ever more seldom */
    for (int step = 0; step < 200; step++) {
        int n = tr_ngram_draft(&g, ids, 70, 16);
        tried += n > 0;
        if (n)
            tr_ngram_learn(&g, n, 0);
    }
    assert_in_range(tried, 3, 10);
    tr_ngram_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_what_followed),
        cmocka_unit_test(nothing_new),
        cmocka_unit_test(learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
