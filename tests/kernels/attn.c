/*
 * Attention over a block of keys: every level against plain C bit for bit, for every window of the
 * block, head sizes with tails and poisoned keys outside the window; plain C against softmax in
 * double; the 8-bit storage of keys and values.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels/kv_q8.h"
#include "tests/kernels/kit.h"

enum { SUBS = TR_ATTN_KEYS / TR_ATTN_SUB };

static const char *const names[] = {"f32", "bf16", "q8"};

/* One layer's and head's 64 positions as a page stores them, and as floats. */
struct keys {
    enum tr_kv_type type;
    int head_dim;
    void *k[SUBS], *v[SUBS];
    float *plain_k, *plain_v; /* [64][head_dim]: what the store holds */
};

static size_t sub_bytes(enum tr_kv_type type, int head_dim)
{
    return type == TR_KV_Q8 ? tr_kv_q8_sub_bytes(head_dim)
                            : (size_t)head_dim * TR_ATTN_SUB * (type == TR_KV_F32 ? 4 : 2);
}

/* Reads a row as kv_q8.h says that it is stored. */
static void q8_row(const void *block, int first, int step, int slot, int head_dim, float *ret)
{
    const int8_t *values = (const int8_t *)block + tr_kv_q8_scale_bytes(head_dim);
    for (int d = 0; d < head_dim; d++) {
        uint16_t high = ((const uint16_t *)block)[d / TR_KV_Q8_RUN * TR_ATTN_SUB + slot];
        uint32_t bits = (uint32_t)high << 16;
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        ret[d] = (float)values[first + d * step] * scale;
    }
}

static void q8_get(const void *keys, const void *values, int slot, int head_dim, float *k, float *v)
{
    q8_row(keys, slot, TR_ATTN_SUB, slot, head_dim, k);
    q8_row(values, slot * head_dim, 1, slot, head_dim, v);
}

static void put(struct keys *s, int j, const float *k, const float *v)
{
    int n = s->head_dim;
    int lane = j % TR_ATTN_SUB;
    void *keys = s->k[j / TR_ATTN_SUB];
    void *values = s->v[j / TR_ATTN_SUB];
    memcpy(s->plain_k + j * n, k, (size_t)n * sizeof *k);
    memcpy(s->plain_v + j * n, v, (size_t)n * sizeof *v);
    if (s->type == TR_KV_Q8) {
        tr_kv_q8_put(keys, values, lane, n, k, v);
        q8_get(keys, values, lane, n, s->plain_k + j * n, s->plain_v + j * n);
        return;
    }
    for (int d = 0; d < n; d++) {
        float *pk = &s->plain_k[j * n + d];
        float *pv = &s->plain_v[j * n + d];
        if (s->type == TR_KV_F32) {
            ((float *)keys)[d * TR_ATTN_SUB + lane] = *pk;
            ((float *)values)[lane * n + d] = *pv;
        } else { /* cut off to bf16 */
            memset(pk, 0, 2);
            memset(pv, 0, 2);
            memcpy((uint16_t *)keys + d * TR_ATTN_SUB + lane, (char *)pk + 2, 2);
            memcpy((uint16_t *)values + lane * n + d, (char *)pv + 2, 2);
        }
    }
}

static void keys_init(struct keys *s, enum tr_kv_type type, int head_dim, float (*value)(void))
{
    *s = (struct keys){.type = type, .head_dim = head_dim};
    size_t n = (size_t)head_dim;
    s->plain_k = kit_alloc(TR_ATTN_KEYS * n * sizeof(float), 0);
    s->plain_v = kit_alloc(TR_ATTN_KEYS * n * sizeof(float), 0);
    for (int i = 0; i < SUBS; i++) {
        s->k[i] = kit_alloc(sub_bytes(type, head_dim), 0);
        s->v[i] = kit_alloc(sub_bytes(type, head_dim), 0);
    }
    float *row = kit_alloc(2 * n * sizeof *row, 0);
    for (int j = 0; j < TR_ATTN_KEYS; j++) {
        for (size_t d = 0; d < 2 * n; d++)
            row[d] = value();
        put(s, j, row, row + n);
    }
    kit_free(row);
}

static void keys_done(struct keys *s)
{
    for (int i = 0; i < SUBS; i++) {
        kit_free(s->k[i]);
        kit_free(s->v[i]);
    }
    kit_free(s->plain_k);
    kit_free(s->plain_v);
}

/* Rows of queries with their running state. */
struct rows {
    int m, head_dim;
    float *q, *max, *sum, *o;
};

static void rows_init(struct rows *r, int m, int head_dim, float (*value)(void))
{
    size_t n = (size_t)m * head_dim;
    *r = (struct rows){
        .m = m,
        .head_dim = head_dim,
        .q = kit_alloc(n * sizeof(float), 4),
        .max = kit_alloc((size_t)m * sizeof(float), 4),
        .sum = kit_alloc((size_t)m * sizeof(float), 4),
        .o = kit_alloc(n * sizeof(float), 4),
    };
    for (size_t i = 0; i < n; i++)
        r->q[i] = value();
}

static void rows_reset(struct rows *r)
{
    for (int i = 0; i < r->m; i++) {
        r->max[i] = -INFINITY;
        r->sum[i] = 0.0F;
    }
    memset(r->o, 0, (size_t)r->m * r->head_dim * sizeof *r->o);
}

static void rows_done(struct rows *r)
{
    kit_free(r->q);
    kit_free(r->max);
    kit_free(r->sum);
    kit_free(r->o);
}

static void step(const struct tr_kernels *kn, const struct keys *s, const struct rows *r, int lo,
                 int hi)
{
    struct tr_attn_block b = {
        .q = r->q,
        .m = r->m,
        .head_dim = r->head_dim,
        .scale = 1.0F / sqrtf((float)r->head_dim),
        .lo = lo,
        .hi = hi,
        .max = r->max,
        .sum = r->sum,
        .o = r->o,
    };
    for (int i = lo / TR_ATTN_SUB; i * TR_ATTN_SUB < hi; i++) {
        b.k[i] = s->k[i];
        b.v[i] = s->v[i];
    }
    kn->attn[s->type](&b);
}

/* Two blocks in a row: [lo, hi) of s, then all of it. */
static void compare(const struct keys *s, struct rows *want, struct rows *got, int lo, int hi)
{
    for (int l = 0; kit_level(l); l++) {
        const struct tr_kernels *kn = kit_level(l);
        rows_reset(want);
        rows_reset(got);
        memcpy(got->q, want->q, (size_t)want->m * want->head_dim * sizeof *want->q);
        for (int twice = 0; twice < 2; twice++) {
            step(kit_generic(), s, want, twice ? 0 : lo, twice ? TR_ATTN_KEYS : hi);
            step(kn, s, got, twice ? 0 : lo, twice ? TR_ATTN_KEYS : hi);
            size_t n = (size_t)want->m;
            kit_same(got->max, want->max, n, "%s %s max [%d, %d)", kn->name, names[s->type], lo,
                     hi);
            kit_same(got->sum, want->sum, n, "%s %s sum [%d, %d)", kn->name, names[s->type], lo,
                     hi);
            kit_same(got->o, want->o, n * want->head_dim, "%s %s o dim %d m %d [%d, %d)", kn->name,
                     names[s->type], want->head_dim, want->m, lo, hi);
        }
    }
}

static void test_levels_agree(void **state)
{
    enum tr_kv_type type = *(const enum tr_kv_type *)*state;
    static const int dims[] = {2, 4, 6, 14, 16, 18, 30, 32, 34, 48, 64, 66, 80, 96, 128, 130, 256};
    for (size_t i = 0; i < TR_ARRAY_LEN(dims); i++) {
        struct keys s;
        keys_init(&s, type, dims[i], i % 5 == 4 ? kit_hostile : kit_uniform);
        for (int m = 1; m <= 19; m += m < 9 ? 1 : 5) {
            struct rows want;
            struct rows got;
            rows_init(&want, m, dims[i], kit_uniform);
            rows_init(&got, m, dims[i], kit_uniform);
            int lo = kit_between(0, TR_ATTN_KEYS - 1);
            compare(&s, &want, &got, lo, kit_between(lo + 1, TR_ATTN_KEYS));
            compare(&s, &want, &got, 0, TR_ATTN_KEYS);
            rows_done(&want);
            rows_done(&got);
        }
        keys_done(&s);
    }
}

static void test_every_window(void **state)
{
    enum tr_kv_type type = *(const enum tr_kv_type *)*state;
    struct keys s;
    struct rows want;
    struct rows got;
    keys_init(&s, type, 16, kit_uniform);
    rows_init(&want, 3, 16, kit_uniform);
    rows_init(&got, 3, 16, kit_uniform);
    for (int lo = 0; lo < TR_ATTN_KEYS; lo++) {
        for (int hi = lo + 1; hi <= TR_ATTN_KEYS; hi++)
            compare(&s, &want, &got, lo, hi);
    }
    rows_done(&want);
    rows_done(&got);
    keys_done(&s);
}

/* What lies outside the window may be anything. */
static void test_outside_is_not_read(void **state)
{
    enum tr_kv_type type = *(const enum tr_kv_type *)*state;
    enum { LO = 5, HI = 41, DIM = 40, M = 5 };
    float nans[DIM];
    for (int d = 0; d < DIM; d++)
        nans[d] = NAN;
    struct keys s;
    struct rows clean;
    struct rows poisoned;
    keys_init(&s, type, DIM, kit_uniform);
    rows_init(&clean, M, DIM, kit_uniform);
    rows_init(&poisoned, M, DIM, kit_uniform);
    memcpy(poisoned.q, clean.q, M * DIM * sizeof(float));
    for (int l = -1; l < 0 || kit_level(l); l++) {
        const struct tr_kernels *kn = l < 0 ? kit_generic() : kit_level(l);
        struct keys p;
        keys_init(&p, type, DIM, kit_uniform);
        for (int i = 0; i < SUBS; i++) {
            memcpy(p.k[i], s.k[i], sub_bytes(type, DIM));
            memcpy(p.v[i], s.v[i], sub_bytes(type, DIM));
        }
        for (int j = 0; j < TR_ATTN_KEYS; j++) {
            if (j < LO || j >= HI)
                put(&p, j, nans, nans);
        }
        rows_reset(&clean);
        rows_reset(&poisoned);
        step(kn, &s, &clean, LO, HI);
        step(kn, &p, &poisoned, LO, HI);
        assert_memory_equal(clean.o, poisoned.o, M * DIM * sizeof(float));
        assert_memory_equal(clean.sum, poisoned.sum, M * sizeof(float));
        keys_done(&p);
    }
    rows_done(&clean);
    rows_done(&poisoned);
    keys_done(&s);
}

static float loud(void)
{
    return 8.0F * kit_uniform();
}

static void test_against_double(void **state)
{
    enum tr_kv_type type = *(const enum tr_kv_type *)*state;
    enum { DIM = 48, M = 4, LO = 3, HI = 60 };
    struct keys s;
    struct rows r;
    keys_init(&s, type, DIM, loud);
    rows_init(&r, M, DIM, kit_uniform);
    rows_reset(&r);
    step(kit_generic(), &s, &r, LO, 20);
    step(kit_generic(), &s, &r, 20, HI);
    for (int i = 0; i < M; i++) {
        double p[TR_ATTN_KEYS];
        double sum = 0;
        for (int j = LO; j < HI; j++) {
            double dot = 0;
            for (int d = 0; d < DIM; d++)
                dot += (double)r.q[i * DIM + d] * (double)s.plain_k[j * DIM + d];
            p[j] = exp(dot / sqrt(DIM));
            sum += p[j];
        }
        for (int d = 0; d < DIM; d++) {
            double want = 0;
            for (int j = LO; j < HI; j++)
                want += p[j] / sum * (double)s.plain_v[j * DIM + d];
            double got = (double)r.o[i * DIM + d] / (double)r.sum[i];
            if (!(fabs(got - want) < 1e-4))
                fail_msg("%s row %d dim %d: %g is not %g", names[type], i, d, got, want);
        }
    }
    rows_done(&r);
    keys_done(&s);
}

/* Half a step of the scale, which is rounded up by at most 2^-7. */
static void test_q8_error(void **state)
{
    (void)state;
    enum { DIM = 70 };
    float x[DIM];
    float back[2][DIM];
    unsigned char *keys = kit_alloc(tr_kv_q8_sub_bytes(DIM), 0);
    unsigned char *values = kit_alloc(tr_kv_q8_sub_bytes(DIM), 0);
    for (int round = 0; round < 300; round++) {
        for (int d = 0; d < DIM; d++)
            x[d] = round % 3 == 0   ? loud()
                   : round % 3 == 1 ? kit_hostile()
                                    : 3.4e38F * kit_uniform();
        tr_kv_q8_put(keys, values, round % 16, DIM, x, x);
        q8_get(keys, values, round % 16, DIM, back[0], back[1]);
        for (int run = 0; run < DIM; run += TR_KV_Q8_RUN) {
            int end = TR_MIN(run + TR_KV_Q8_RUN, DIM);
            double amax = 0;
            for (int d = run; d < end; d++)
                amax = fmax(amax, fabs((double)x[d]));
            for (int d = run; d < end; d++) {
                double bound = amax / 127 * 0.505 + 1e-30;
                assert_true(fabs((double)back[0][d] - (double)x[d]) <= bound);
                assert_true(fabs((double)back[1][d] - (double)x[d]) <= bound);
            }
        }
    }
    kit_free(keys);
    kit_free(values);
}

int main(void)
{
    static enum tr_kv_type types[] = {TR_KV_F32, TR_KV_BF16, TR_KV_Q8};
#define ALL(fn)                                                                                    \
    cmocka_unit_test_prestate(fn, &types[0]), cmocka_unit_test_prestate(fn, &types[1]),            \
        cmocka_unit_test_prestate(fn, &types[2])
    const struct CMUnitTest tests[] = {
        ALL(test_levels_agree),   ALL(test_every_window),          ALL(test_outside_is_not_read),
        ALL(test_against_double), cmocka_unit_test(test_q8_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
