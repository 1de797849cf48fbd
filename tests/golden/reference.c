/* The dense reference pass against transformers' logits: it must be right on its own to check anything. */
#include "tests/golden/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/forward/reference.h"

static void equals_transformers(void **state)
{
    static const char *const names[] = {"plain", "plain-bf16", "irregular", "wide-tied"};
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(names); i++) {
        struct golden g;
        char path[256];
        struct tr_err err;
        struct tr_pool *pool;
        struct tr_weights *w;
        golden_read(&g, names[i]);
        snprintf(path, sizeof path, "tests/golden/%s", names[i]);
        assert_int_equal(tr_pool_open(&pool, 1, &err), 0);
        struct tr_checkpoint *checkpoint;
        struct tr_weights_options o = {.choice = TR_WEIGHTS_F32, .use_mmap = true, .pool = pool};
        assert_int_equal(tr_checkpoint_open(&checkpoint, path, &err), 0);
        assert_int_equal(tr_weights_open(&w, checkpoint, &o, &err), 0);
        tr_checkpoint_close(checkpoint);
        int vocab = w->config.vocab_size;
        float *logits = malloc((size_t)g.n * vocab * sizeof *logits);
        assert_int_equal(tr_reference_logits(w, g.prompt, g.n, logits), 0);
        struct tr_json rows = tr_json_get(&g.root, "logits");
        double worst = 0;
        for (int t = 0; t < g.n; t++) {
            struct tr_json row = tr_json_at(&rows, (size_t)t);
            for (int j = 0; j < vocab; j++) {
                struct tr_json v = tr_json_at(&row, (size_t)j);
                double d = fabs(golden_number(&v) - (double)logits[(size_t)t * vocab + j]);
                worst = d <= worst ? worst : d;
            }
        }
        print_message("%s: %.2g\n", names[i], worst);
        assert_true(worst <= 1e-4);
        free(logits);
        tr_weights_close(w);
        tr_pool_close(pool);
        golden_done(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
