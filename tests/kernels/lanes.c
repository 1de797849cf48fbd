/*
 * Element-wise kernels and lane sums: every level against plain C bit for bit, for all small sizes,
 * unaligned starts and hostile values; plain C against double.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kit.h"

enum { SIZES = 140, MAX = 2200 };

static float *numbers(int n, size_t offset, float (*value)(void))
{
    float *x = kit_alloc((size_t)n * sizeof *x, offset);
    for (int i = 0; i < n; i++)
        x[i] = value();
    return x;
}

static float *copy(const float *x, int n)
{
    float *y = kit_alloc((size_t)n * sizeof *y, 4);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

static float wide(void)
{
    return kit_uniform() * 100.0F;
}

/* Calls check(kn, n, values) for each level, size and kind of value. */
static void each(void (*check)(const struct tr_kernels *kn, int n, float (*value)(void)))
{
    for (int l = 0; kit_level(l); l++) {
        for (int n = 0; n < SIZES; n++) {
            check(kit_level(l), n, kit_uniform);
            check(kit_level(l), n, wide);
            check(kit_level(l), n, kit_hostile);
        }
        check(kit_level(l), MAX - 3, kit_uniform);
    }
}

static void check_rmsnorm(const struct tr_kernels *kn, int n, float (*value)(void))
{
    float *x = numbers(n, 4, value);
    float *w = numbers(n, 12, kit_uniform);
    float *a = numbers(n, 8, kit_uniform);
    float *b = numbers(n, 0, kit_uniform);
    if (n > 0) {
        kit_generic()->rmsnorm(x, w, n, 1e-5F, a);
        kn->rmsnorm(x, w, n, 1e-5F, b);
        kit_same(b, a, (size_t)n, "%s rmsnorm %d", kn->name, n);
        kn->rmsnorm(x, w, n, 1e-5F, x); /* in place */
        kit_same(x, a, (size_t)n, "%s rmsnorm in place %d", kn->name, n);
    }
    kit_free(x);
    kit_free(w);
    kit_free(a);
    kit_free(b);
}

static void check_two(const struct tr_kernels *kn, int n, float (*value)(void))
{
    const struct tr_kernels *c = kit_generic();
    float *x = numbers(n, 4, value);
    float *y = numbers(n, 8, value);
    float *a = copy(x, n);
    float *b = copy(x, n);
    c->add(a, y, n);
    kn->add(b, y, n);
    kit_same(b, a, (size_t)n, "%s add %d", kn->name, n);
    static const float s[] = {0.3F, -1.7F, 0.9F};
    const float *const many[] = {y, x, y};
    c->combine(s, many, 3, a, n);
    kn->combine(s, many, 3, b, n);
    kit_same(b, a, (size_t)n, "%s combine %d", kn->name, n);
    c->swiglu(x, y, n, a);
    kn->swiglu(x, y, n, b);
    kit_same(b, a, (size_t)n, "%s swiglu %d", kn->name, n);
    c->gate(a, y, n);
    kn->gate(b, y, n);
    kit_same(b, a, (size_t)n, "%s gate %d", kn->name, n);
    c->sigmoid(a, n);
    kn->sigmoid(b, n);
    kit_same(b, a, (size_t)n, "%s sigmoid %d", kn->name, n);
    double ea = c->sum_exp(x, n, 0.9F);
    double eb = kn->sum_exp(x, n, 0.9F);
    assert_memory_equal(&ea, &eb, sizeof ea);
    kit_free(x);
    kit_free(y);
    kit_free(a);
    kit_free(b);
}

static void check_forms(const struct tr_kernels *kn, int n, float (*value)(void))
{
    size_t stride = (size_t)tr_rows_stride(n);
    float *x = numbers(n, 4, value);
    struct {
        uint16_t *bf16;
        int8_t *q;
        float *scale;
        int32_t *sum;
    } out[2];
    for (int i = 0; i < 2; i++) {
        const struct tr_kernels *k = i ? kn : kit_generic();
        out[i].bf16 = kit_alloc(stride * 2, 0);
        out[i].q = kit_alloc(stride, 0);
        out[i].scale = kit_alloc(stride / 32 * 4, 0);
        out[i].sum = kit_alloc(stride / 32 * 4, 0);
        k->to_bf16(x, n, out[i].bf16);
        k->quantize(x, n, out[i].q, out[i].scale, out[i].sum);
    }
    assert_memory_equal(out[0].bf16, out[1].bf16, stride * 2);
    assert_memory_equal(out[0].q, out[1].q, stride);
    kit_same(out[1].scale, out[0].scale, stride / 32, "%s scale %d", kn->name, n);
    assert_memory_equal(out[0].sum, out[1].sum, stride / 32 * 4);
    for (int i = 0; i < 2; i++) {
        kit_free(out[i].bf16);
        kit_free(out[i].q);
        kit_free(out[i].scale);
        kit_free(out[i].sum);
    }
    kit_free(x);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    each(check_rmsnorm);
}

static void test_elementwise(void **state)
{
    (void)state;
    each(check_two);
}

static void test_forms(void **state)
{
    (void)state;
    each(check_forms);
}

static float broken(void)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 1.0F, -1.0F, 0.0F, 3e38F, 1e-40F};
    return values[kit_random() % TR_ARRAY_LEN(values)];
}

static void test_not_finite(void **state)
{
    (void)state;
    for (int l = 0; kit_level(l); l++) {
        for (int n = 1; n < 100; n++) {
            check_forms(kit_level(l), n, broken);
            check_rmsnorm(kit_level(l), n, broken);
        }
    }
}

static void test_router(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        int k = kit_between(1, round < 40 ? 70 : 600);
        int e = kit_between(1, 19);
        int e0 = kit_between(0, e - 1);
        int m = kit_between(1, 11);
        size_t ldx = (size_t)k + 3;
        size_t ldy = (size_t)e + 2;
        float (*value)(void) = round % 4 ? kit_uniform : kit_hostile;
        float *x = numbers(m * (int)ldx, 4, value);
        float *w = numbers(e * k, 4, value);
        uint16_t *h = kit_alloc((size_t)(e * k) * 2, 2);
        for (int i = 0; i < e * k; i++) {
            memcpy(&h[i], (char *)&w[i] + 2, 2);
            memset(&w[i], 0, 2); /* exactly bf16 */
        }
        float *a = numbers(m * (int)ldy, 4, kit_uniform);
        float *b = copy(a, m * (int)ldy);
        float *c = copy(a, m * (int)ldy);
        kit_generic()->router_f32(w, k, e0, e, x, ldx, m, a, ldy);
        kit_generic()->router_bf16(h, k, e0, e, x, ldx, m, b, ldy);
        kit_same(b, a, (size_t)m * ldy, "generic router_bf16 against f32");
        for (int l = 0; kit_level(l); l++) {
            const struct tr_kernels *kn = kit_level(l);
            memcpy(b, c, (size_t)m * ldy * sizeof *b);
            kn->router_f32(w, k, e0, e, x, ldx, m, b, ldy);
            kit_same(b, a, (size_t)m * ldy, "%s router_f32 k %d e %d m %d", kn->name, k, e, m);
            memcpy(b, c, (size_t)m * ldy * sizeof *b);
            kn->router_bf16(h, k, e0, e, x, ldx, m, b, ldy);
            kit_same(b, a, (size_t)m * ldy, "%s router_bf16 k %d e %d m %d", kn->name, k, e, m);
        }
        kit_free(x);
        kit_free(w);
        kit_free(h);
        kit_free(a);
        kit_free(b);
        kit_free(c);
    }
}

static void assert_near(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%a is not %a", got, want);
}

/* Plain C against the formulas in double. */
static void test_against_double(void **state)
{
    (void)state;
    enum { N = 1000 };
    const struct tr_kernels *c = kit_generic();
    float *x = numbers(N, 0, kit_uniform);
    float *w = numbers(N, 0, kit_uniform);
    float *y = numbers(N, 0, kit_uniform);
    double square = 0;
    double exps = 0;
    for (int i = 0; i < N; i++) {
        square += (double)x[i] * (double)x[i];
        exps += exp((double)x[i] - 1.0);
    }
    c->rmsnorm(x, w, N, 1e-5F, y);
    double r = 1.0 / sqrt(square / N + 1e-5);
    for (int i = 0; i < N; i++)
        assert_near((double)y[i], (double)x[i] * r * (double)w[i], 1e-5);
    c->swiglu(x, w, N, y);
    for (int i = 0; i < N; i++)
        assert_near((double)y[i], (double)x[i] / (1.0 + exp(-(double)x[i])) * (double)w[i], 1e-6);
    memcpy(y, w, N * sizeof *y);
    c->gate(y, x, N);
    for (int i = 0; i < N; i++)
        assert_near((double)y[i], (double)w[i] / (1.0 + exp(-(double)x[i])), 1e-6);
    assert_near(c->sum_exp(x, N, 1.0F), exps, exps * 1e-6);
    double dot = 0;
    for (int i = 0; i < N; i++)
        dot += (double)x[i] * (double)w[i];
    c->router_f32(w, N, 0, 1, x, N, 1, y, 1);
    assert_near((double)y[0], dot, 1e-4);
    kit_free(x);
    kit_free(w);
    kit_free(y);
}

/* The definition of the int8 form, element by element. */
static void test_quantize_definition(void **state)
{
    (void)state;
    enum { N = 96 };
    float *x = numbers(N, 0, wide);
    memset(x + 64, 0, 32 * sizeof *x); /* a block of zeros */
    int8_t q[128];
    float scale[4];
    int32_t sum[4];
    kit_generic()->quantize(x, N, q, scale, sum);
    for (int b = 0; b < 3; b++) {
        float amax = 0;
        int half[2] = {0, 0};
        for (int i = 0; i < 32; i++) {
            amax = fmaxf(amax, fabsf(x[32 * b + i]));
            half[i / 16] += q[32 * b + i];
        }
        assert_true(scale[b] == amax / 127.0F);
        assert_int_equal((int16_t)(sum[b] & 0xFFFF), half[0]);
        assert_int_equal(sum[b] >> 16, half[1]);
        for (int i = 0; i < 32; i++) {
            float want = amax > 0 ? x[32 * b + i] * (127.0F / amax) : 0.0F;
            assert_int_equal(q[32 * b + i], (int)nearbyintf(want));
        }
    }
    for (int i = N; i < 128; i++)
        assert_int_equal(q[i], 0);
    assert_true(scale[3] == 0.0F && sum[3] == 0);
    kit_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_router),
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_quantize_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
