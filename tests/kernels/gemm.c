/*
 * Panel products: every level against plain C bit for bit; plain C against a sum in double over
 * weights read straight from the file format; rows independent of their company.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels/quants.h"
#include "tests/kernels/kit.h"

static const char *const names[TR_W_COUNT] = {
    "f32",    "f16",    "bf16",  "q8_0",  "q4_0",  "q4_k",  "q5_k",   "q6_k",    "q4_1",  "q5_0",
    "q5_1",   "iq4_nl", "mxfp4", "nvfp4", "q2_k",  "q3_k",  "iq4_xs", "iq3_xxs", "iq3_s", "iq2_xxs",
    "iq2_xs", "iq2_s",  "iq1_s", "iq1_m", "tq1_0", "tq2_0", "q1_0",   "q2_0"};

static int k_step(enum tr_wtype type)
{
    return tr__file_block_len(type);
}

static float *product(const struct tr_kernels *kn, const struct kit_matrix *w,
                      const struct tr_rows *x, int m, int p0, int p1, size_t ldy)
{
    float *y = kit_alloc((size_t)m * ldy * sizeof *y, 0);
    kn->gemm[w->m.type](w->m.data, w->m.k, p0, p1, x, m, y, ldy);
    return y;
}

/* All levels over one problem; ldy leaves a gap behind each row, which nobody may touch. */
static void compare_levels(const struct kit_matrix *w, const struct tr_rows *x, int m)
{
    int panels = (w->m.n + 15) / 16;
    size_t ldy = (size_t)panels * 16 + 16;
    float *want = product(kit_generic(), w, x, m, 0, panels, ldy);
    for (int l = 0; kit_level(l); l++) {
        const struct tr_kernels *kn = kit_level(l);
        float *got = product(kn, w, x, m, 0, panels, ldy);
        for (int r = 0; r < m; r++)
            kit_same(got + r * ldy, want + r * ldy, ldy, "%s %s n %d k %d m %d row %d", kn->name,
                     names[w->m.type], w->m.n, w->m.k, m, r);
        kit_free(got);
    }
    kit_free(want);
}

static void test_levels_agree(void **state)
{
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    int step = k_step(type);
    for (int i = 1; i <= 40; i++) {
        int k = step == 1 ? (i <= 34 ? i : 37 * i) : step * (i % 9 + 1);
        int n = kit_between(1, 50);
        struct kit_matrix w;
        struct tr_rows x;
        kit_matrix_init(&w, type, n, k);
        kit_rows_init(&x, kit_generic(), i, k, kit_uniform);
        compare_levels(&w, &x, i);
        kit_rows_done(&x);
        kit_matrix_done(&w);
    }
}

/* More rows and k than a tile of widened rows holds. */
static void test_large(void **state)
{
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    struct kit_matrix w;
    struct tr_rows x;
    kit_matrix_init(&w, type, 16, 2304);
    kit_rows_init(&x, kit_generic(), 70, 2304, kit_uniform);
    compare_levels(&w, &x, 70);
    kit_rows_done(&x);
    kit_matrix_done(&w);
}

static void test_hostile_rows(void **state)
{
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    struct kit_matrix w;
    struct tr_rows x;
    kit_matrix_init(&w, type, 33, 512);
    kit_rows_init(&x, kit_generic(), 11, 512, kit_hostile);
    compare_levels(&w, &x, 11);
    kit_rows_done(&x);
    kit_matrix_done(&w);
}

static float extreme(void)
{
    return kit_random() % 2 ? 1.0F : -1.0F;
}

/* Every byte of the file is 0x00, 0xFF, 0x80 or 0x7F: the quants of largest magnitude (-128 in
 * Q8_0), infinite and NaN scales and weights; the rows are +-127 throughout. */
static void test_hostile_weights(void **state)
{
    static const uint8_t bytes[] = {0x00, 0xFF, 0x80, 0x7F};
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    struct tr_rows x;
    kit_rows_init(&x, kit_generic(), 9, 512, extreme);
    for (int round = 0; round < 6; round++) {
        struct kit_matrix w;
        kit_matrix_init(&w, type, 32, 512);
        size_t size = 32 * tr_file_row_bytes(type, 512);
        for (size_t i = 0; i < size; i++)
            w.file[i] = bytes[round < 4 ? round : (int)(kit_random() % 4)];
        kit_matrix_repack(&w);
        compare_levels(&w, &x, 9);
        /* and the same quants with sound scales */
        size_t block = tr__file_block_bytes(type);
        for (size_t at = 0; at < size && type >= TR_W_Q8_0; at += block) {
            kit_sound_scales(type, w.file + at, 0.04F);
            if (type == TR_W_Q4_K || type == TR_W_Q5_K)
                memcpy(w.file + at + 2, "\x01\x00", 2); /* a denormal minimum */
        }
        kit_matrix_repack(&w);
        compare_levels(&w, &x, 9);
        kit_matrix_done(&w);
    }
    kit_rows_done(&x);
}

/* A row's result is the same alone, at any place, and in any slice of the panels. */
static void test_rows_are_independent(void **state)
{
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    enum { N = 48, K = 768, M = 40 };
    struct kit_matrix w;
    struct tr_rows x;
    kit_matrix_init(&w, type, N, K);
    kit_rows_init(&x, kit_generic(), M, K, kit_uniform);
    for (int l = -1; l < 0 || kit_level(l); l++) {
        const struct tr_kernels *kn = l < 0 ? kit_generic() : kit_level(l);
        float *all = product(kn, &w, &x, M, 0, N / 16, N);
        for (int m = 1; m <= M; m++) {
            int row = kit_between(0, M - m);
            struct tr_rows part = tr_rows_at(&x, row);
            float *y = product(kn, &w, &part, m, 0, N / 16, N);
            kit_same(y, all + row * N, (size_t)m * N, "%s %s rows %d+%d", kn->name, names[type],
                     row, m);
            kit_free(y);
        }
        for (int p = 0; p < N / 16; p++) {
            float *y = product(kn, &w, &x, M, p, p + 1, N);
            for (int r = 0; r < M; r++)
                kit_same(y + r * N + 16 * p, all + r * N + 16 * p, 16, "%s %s panel %d", kn->name,
                         names[type], p);
            kit_free(y);
        }
        kit_free(all);
    }
    kit_rows_done(&x);
    kit_matrix_done(&w);
}

/* Element i of a row as the type's kernel reads it. */
static double activation(enum tr_wtype type, const struct tr_rows *x, int row, int i)
{
    size_t at = (size_t)row * tr_rows_stride(x->k) + i;
    float f = 0;
    switch (tr_wtype_form(type)) {
    case TR_FORM_F32:
        return (double)x->f32[at];
    case TR_FORM_BF16:
        memcpy((uint8_t *)&f + 2, x->bf16 + at, 2);
        return (double)f;
    default:
        return (double)x->q8[at] * (double)x->q8_scale[at / 32];
    }
}

static void test_against_double(void **state)
{
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    enum { N = 37, M = 3 };
    int k = k_step(type) == 1 ? 333 : 512;
    struct kit_matrix w;
    struct tr_rows x;
    kit_matrix_init(&w, type, N, k);
    kit_rows_init(&x, kit_generic(), M, k, kit_uniform);
    float *y = product(kit_generic(), &w, &x, M, 0, 3, 48);
    for (int r = 0; r < M; r++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            double magnitude = 0;
            for (int i = 0; i < k; i++) {
                double v = kit_weight(&w, j, i) * activation(type, &x, r, i);
                sum += v;
                magnitude += fabs(v);
            }
            /* the minimum's share of a K type is added apart: twice the terms */
            double bound = 2.0 * k * 0x1p-24 * magnitude + 1e-30;
            if (!(fabs((double)y[r * 48 + j] - sum) <= bound))
                fail_msg("%s: %a is not %a", names[type], (double)y[r * 48 + j], sum);
        }
        for (int j = N; j < 48; j++)
            assert_true(y[r * 48 + j] == 0.0F);
    }
    kit_free(y);
    kit_rows_done(&x);
    kit_matrix_done(&w);
}

/* dequantised rows are the format's values to a rounding or two */
static void test_dequantize(void **state)
{
    enum tr_wtype type = *(const enum tr_wtype *)*state;
    struct kit_matrix w;
    kit_matrix_init(&w, type, 5, 512);
    float *y = kit_alloc(512 * sizeof *y, 4);
    for (int r = 0; r < 5; r++) {
        tr_dequantize_row(type, w.file + r * tr_file_row_bytes(type, 512), 512, y);
        for (int i = 0; i < 512; i++) {
            double want = kit_weight(&w, r, i);
            assert_true(fabs((double)y[i] - want) <= 0x1p-21 * (fabs(want) + 1e-2));
        }
    }
    kit_free(y);
    kit_matrix_done(&w);
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction fn;
    } tests[] = {
        {"levels agree", test_levels_agree},
        {"large", test_large},
        {"hostile rows", test_hostile_rows},
        {"hostile weights", test_hostile_weights},
        {"rows are independent", test_rows_are_independent},
        {"against double", test_against_double},
        {"dequantize", test_dequantize},
    };
    enum { TYPES = TR_W_COUNT - TR_W_F16 }; /* all that have panels */
    enum tr_wtype types[TYPES];
    struct CMUnitTest list[TR_ARRAY_LEN(tests) * TYPES];
    char labels[TR_ARRAY_LEN(list)][64];
    for (size_t i = 0; i < TYPES; i++)
        types[i] = (enum tr_wtype)(TR_W_F16 + i);
    for (size_t i = 0; i < TR_ARRAY_LEN(list); i++) {
        const enum tr_wtype *type = &types[i % TYPES];
        snprintf(labels[i], sizeof labels[i], "%s: %s", names[*type], tests[i / TYPES].name);
        list[i] = (struct CMUnitTest){.name = labels[i],
                                      .test_func = tests[i / TYPES].fn,
                                      .initial_state = (void *)(uintptr_t)type};
    }
    return cmocka_run_group_tests(list, NULL, NULL);
}
