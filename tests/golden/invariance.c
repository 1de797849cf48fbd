/* The forward pass against itself, bit for bit, over chunk sizes, page sizes, threads and batch mates. */
#include "tests/golden/run.h"

#include <string.h>

/* Every weight type the golden folder has. */
static const char *const checkpoints[] = {
    "plain",          "plain-bf16",     "irregular",        "wide-tied",      "gguf/bf16.gguf",
    "gguf/q8_0.gguf", "gguf/q4_0.gguf", "gguf/q4_k_m.gguf", "gguf/q6_k.gguf", "gguf/q5_k_m.gguf"};

/* Chunking, page size, threads and how they are given work change no bit. */
static void one_order(void **state)
{
    static const int chunks[] = {1, 2, 3, 7, 8, 9, 16, 39, 40};
    static const int pages[] = {16, 64, 256};
    static const int threads[] = {1, 2, 3, 8};
    (void)state;
    for (size_t n = 0; n < TR_ARRAY_LEN(checkpoints); n++) {
        struct golden g;
        struct run first;
        golden_read(&g, "plain"); /* its prompt */
        run_open_golden(&first, checkpoints[n], 1, 16, TR_WEIGHTS_AUTO);
        run_prefill(&first, g.prompt, g.n, g.n);
        size_t bytes = (size_t)g.n * first.weights->config.vocab_size * sizeof(float);
        for (size_t t = 0; t < TR_ARRAY_LEN(threads); t++)
            for (size_t p = 0; p < TR_ARRAY_LEN(pages); p++) {
                struct run r;
                run_open_golden(&r, checkpoints[n], threads[t], pages[p], TR_WEIGHTS_AUTO);
                for (size_t c = 0; c < TR_ARRAY_LEN(chunks); c++) {
                    bool tickets = (c + p) % 2;
                    tr_pool_set_mode(r.pool, threads[t], tickets);
                    memset(r.logits, 0, bytes);
                    run_prefill(&r, g.prompt, g.n, chunks[c]);
                    if (memcmp(r.logits, first.logits, bytes) != 0)
                        fail_msg("%s: chunk %d, page %d, %d threads%s", checkpoints[n], chunks[c],
                                 pages[p], threads[t], tickets ? ", tickets" : "");
                }
                run_close(&r);
            }
        run_close(&first);
        golden_done(&g);
    }
}

/* Rows of other sequences in the same step change no bit, and neither does the row's place. */
static void batch_mates(void **state)
{
    (void)state;
    for (size_t n = 0; n < TR_ARRAY_LEN(checkpoints); n++) {
        struct golden g;
        struct run alone;
        struct run r;
        struct run mate;
        golden_read(&g, "plain"); /* its prompt */
        run_open_golden(&alone, checkpoints[n], 1, 16, TR_WEIGHTS_AUTO);
        run_open_golden(&r, checkpoints[n], 2, 16, TR_WEIGHTS_AUTO);
        run_open_golden(&mate, checkpoints[n], 1, 16, TR_WEIGHTS_AUTO); /* lends its pages */
        size_t vocab = (size_t)alone.weights->config.vocab_size;
        run_prefill(&alone, g.prompt, g.n, g.n);
        int32_t other[MAX_TOKENS];
        for (int i = 0; i < g.n; i++)
            other[i] = g.prompt[(i * 7 + 3) % g.n];
        for (int at = 0; at + 4 < g.n; at += 4) {
            struct tr_span spans[2] = {
                {other + at, 3, at, &mate.local, &mate.global, 3},
                {g.prompt + at, 4, at, &r.local, &r.global, 4},
            };
            /* the mate's rows must be contiguous too: its fourth token goes alone */
            struct tr_span rest = {other + at + 3, 1, at + 3, &mate.local, &mate.global, 1};
            struct tr_batch both = {spans, 2};
            struct tr_batch last = {&rest, 1};
            int rows = 0;
            tr_forward_run(r.forward, &both, &rows);
            assert_int_equal(rows, 7);
            tr_forward_head(r.forward, 0, rows, NULL);
            for (int i = 0; i < 4; i++)
                assert_memory_equal(tr_forward_logits(r.forward, 3 + i),
                                    alone.logits + ((size_t)at + i) * vocab,
                                    vocab * sizeof *alone.logits);
            tr_forward_run(r.forward, &last, &rows);
        }
        run_close(&alone);
        run_close(&r);
        run_close(&mate);
        golden_done(&g);
    }
}

/* Ids at random places, ascending; few, or enough that the row is computed whole. */
static int some_ids(int32_t *ids, int vocab, uint32_t *seed)
{
    int n = 0;
    int step = (*seed >> 20 & 3) ? vocab / 2 : 3;
    for (int32_t id = 0;;) {
        *seed = *seed * 1664525u + 1013904223u;
        id += (int32_t)((*seed >> 8) % (uint32_t)step);
        if (id >= vocab)
            return n;
        ids[n++] = id++;
    }
}

/* The logits of a few ids have the bits that they have among all. */
static void parts_of_the_head(void **state)
{
    enum { ROWS = 9, IDS = 2048 };
    static int32_t ids[ROWS][IDS];
    (void)state;
    uint32_t seed = 1;
    for (size_t n = 0; n < TR_ARRAY_LEN(checkpoints); n++)
        for (int threads = 1; threads <= 3; threads++) {
            struct golden g;
            struct run r;
            golden_read(&g, "plain");
            run_open_golden(&r, checkpoints[n], threads, 16, TR_WEIGHTS_AUTO);
            int vocab = r.weights->config.vocab_size;
            assert_in_range(vocab, 1, IDS);
            run_prefill(&r, g.prompt, ROWS, ROWS);
            for (int round = 0; round < 40; round++) {
                struct tr_head_part parts[ROWS] = {0};
                int first = round % 3;
                for (int i = 0; i < ROWS - first; i++)
                    if ((seed >> (8 + i) & 3) || round % 8 == 0)
                        parts[i] = (struct tr_head_part){ids[i], some_ids(ids[i], vocab, &seed)};
                tr_forward_head(r.forward, first, ROWS - first, parts);
                for (int i = 0; i < ROWS - first; i++) {
                    const float *got = tr_forward_logits(r.forward, i);
                    const float *all = r.logits + (size_t)(first + i) * (size_t)vocab;
                    for (int k = 0; k < parts[i].n; k++)
                        assert_memory_equal(got + ids[i][k], all + ids[i][k], sizeof *got);
                    if (!parts[i].ids)
                        assert_memory_equal(got, all, (size_t)vocab * sizeof *got);
                }
            }
            run_close(&r);
            golden_done(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_order),
        cmocka_unit_test(batch_mates),
        cmocka_unit_test(parts_of_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
