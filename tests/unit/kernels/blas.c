/*
 * OpenBLAS with fixed calls: a row's bits don't depend on how many rows there are, on its place, or
 * on its neighbours, with every core type of the library that this machine can run. The library
 * reads its core type when it is loaded, so the program runs itself once for each.
 */
#include "engine/kernels/blas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 19 };

struct problem {
    int n, k;
    float *w, *x, *y, *z, *scratch;
};

static float *numbers(size_t n)
{
    static uint32_t state = 1;
    float *p = malloc(n * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        p[i] = (float)(int32_t)state / 2147483648.0F;
    }
    return p;
}

static void product(const struct problem *p, const float *x, int m, float *y)
{
    tr_blas_matmul(p->w, p->n, p->k, 0, p->n, x, (size_t)p->k, m, y, (size_t)p->n, p->scratch);
}

static void check_rows(const struct problem *p)
{
    size_t row = (size_t)p->n * sizeof(float);
    product(p, p->x, ROWS, p->y);
    for (int m = 1; m < ROWS; m++) { /* fewer rows, starting anywhere */
        int first = (m * 7) % (ROWS - m);
        product(p, p->x + (size_t)first * p->k, m, p->z);
        assert_memory_equal(p->z, p->y + (size_t)first * p->n, m * row);
    }
    /* the first row in every place */
    for (int r = 1; r < ROWS; r++)
        memcpy(p->x + (size_t)r * p->k, p->x, (size_t)p->k * sizeof(float));
    product(p, p->x, ROWS, p->z);
    for (int r = 0; r < ROWS; r++)
        assert_memory_equal(p->z + (size_t)r * p->n, p->y, row);
}

/* Columns computed in two shares, at a cut, are those of one. */
static void check_cuts(const struct problem *p)
{
    if (p->n <= TR_BLAS_CUT)
        return;
    size_t k = (size_t)p->k;
    size_t n = (size_t)p->n;
    product(p, p->x, 3, p->y);
    tr_blas_matmul(p->w, p->n, p->k, TR_BLAS_CUT, p->n, p->x, k, 3, p->z, n, p->scratch);
    tr_blas_matmul(p->w, p->n, p->k, 0, TR_BLAS_CUT, p->x, k, 3, p->z, n, p->scratch);
    assert_memory_equal(p->z, p->y, 3 * n * sizeof(float));
}

static void check_sums(const struct problem *p)
{
    product(p, p->x, 2, p->y);
    for (int r = 0; r < 2; r++) {
        for (int j = 0; j < p->n; j++) {
            double sum = 0;
            for (int i = 0; i < p->k; i++)
                sum += (double)p->x[(size_t)r * p->k + i] * (double)p->w[(size_t)j * p->k + i];
            assert_true(fabs((double)p->y[(size_t)r * p->n + j] - sum) < 1e-6 * p->k + 1e-6);
        }
    }
}

static void test_rows(void **state)
{
    (void)state;
    static const int ks[] = {1, 3, 16, 33, 64, 127, 256, 385, 1024, 1500};
    static const int ns[] = {1, 4, 7, 16, 33, 64, 129, 256, 257, 600};
    for (size_t i = 0; i < TR_ARRAY_LEN(ks); i++) {
        for (size_t j = 0; j < TR_ARRAY_LEN(ns); j++) {
            size_t k = (size_t)ks[i];
            size_t n = (size_t)ns[j];
            struct problem p = {
                .n = ns[j],
                .k = ks[i],
                .w = numbers(n * k),
                .x = numbers(ROWS * k),
                .y = numbers(ROWS * n),
                .z = numbers(ROWS * n),
                .scratch = malloc(tr_matmul_scratch(ns[j], ks[i])),
            };
            assert_non_null(p.scratch);
            check_sums(&p);
            check_cuts(&p);
            check_rows(&p);
            free(p.w);
            free(p.x);
            free(p.y);
            free(p.z);
            free(p.scratch);
        }
    }
}

static const char *program;

static void with_core(const char *core)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("OPENBLAS_CORETYPE", core, 1);
        execl(program, program, core, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("core type %s: status %x", core, status);
}

static void test_core_types(void **state)
{
    (void)state;
    with_core("Prescott");
    with_core("Nehalem");
    if (tr_isa_detect() >= TR_ISA_AVX2) {
        with_core("Haswell");
        with_core("Zen");
    }
    if (tr_isa_detect() >= TR_ISA_AVX512)
        with_core("SkylakeX");
}

/* The child with a core type that wastes this machine must say so. */
static void test_better_core(void **state)
{
    const char *core = *state;
    enum tr_isa isa = tr_isa_detect();
    assert_string_equal(tr_blas_core(), core);
    const char *better = tr_blas_better_core();
    bool old = strcmp(core, "Prescott") == 0 || strcmp(core, "Nehalem") == 0;
    if (isa >= TR_ISA_AVX512 && strcmp(core, "SkylakeX") != 0)
        assert_string_equal(better, "SkylakeX");
    else if (isa == TR_ISA_AVX2 && old)
        assert_string_equal(better, "Haswell");
    else
        assert_null(better);
}

/* The library begins threads when it is loaded. */
static void test_threads(void **state)
{
    (void)state;
    struct stat st;
    tr_blas_init(); /* again */
    assert_int_equal(stat("/proc/self/task", &st), 0);
    assert_int_equal(st.st_nlink, 2 + 1); /* ., .. and one task */
}

int main(int argc, char **argv)
{
    program = argv[0];
    tr_blas_init();
    if (argc == 2) {
        const struct CMUnitTest child[] = {
            cmocka_unit_test(test_rows),
            cmocka_unit_test_prestate(test_better_core, argv[1]),
        };
        return cmocka_run_group_tests_name(argv[1], child, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_threads),
#endif
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_core_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
