/*
 * Speed of the kernels, one thread: `kernels [LEVEL]` (generic, avx2, avx512, amx; default: all the
 * machine has).
 *
 * One line for each level, kernel and number of rows: time on the thread's own clock (median of
 * several), GB/s of weights or keys, GMAC/s, and how many times faster than plain C. "near": the
 * matrix fits L2; "far": it comes from memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/checkpoint/plan.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/kv_q8.h"
#include "server/commands/bandwidth.h"
#include "tests/bench/kit.h"

enum { REPEAT = 9, MAX_ROWS = 128 };

static const char *const kv_names[] = {"f32", "bf16", "q8"};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One thing to time: call(arg) does `macs` multiply-adds and reads `bytes`. */
struct work {
    void (*call)(const struct work *w, const struct tr_kernels *kn);
    double macs, bytes;
    const void *problem;
    int m;
};

/* Median time of one call; short calls are repeated within a measurement. */
static double time_of(const struct work *w, const struct tr_kernels *kn)
{
    double runs[REPEAT];
    int inner = 1;
    w->call(w, kn);
    for (;;) {
        double start = seconds();
        for (int i = 0; i < inner; i++)
            w->call(w, kn);
        if (seconds() - start > 2e-3)
            break;
        inner *= 2;
    }
    int repeat = kn->level == TR_ISA_GENERIC ? 1 : REPEAT;
    for (int r = 0; r < repeat; r++) {
        double start = seconds();
        for (int i = 0; i < inner; i++)
            w->call(w, kn);
        runs[r] = (seconds() - start) / inner;
    }
    return srv_median(runs, repeat);
}

static void report(const struct tr_kernels *kn, const char *what, const struct work *w,
                   double generic)
{
    double t = kn->level == TR_ISA_GENERIC ? generic : time_of(w, kn);
    printf("%-8s %-16s rows %-4d %10.2f us %7.2f GB/s %8.2f GMAC/s %7.1fx\n", kn->name, what, w->m,
           t * 1e6, w->bytes / t * 1e-9, w->macs / t * 1e-9, generic / t);
    fflush(stdout);
}

struct gemm {
    enum tr_wtype type;
    int n, k;
    const void *packed;
    struct tr_rows x;
    float *y;
};

static void call_gemm(const struct work *w, const struct tr_kernels *kn)
{
    const struct gemm *g = w->problem;
    kn->gemm[g->type](g->packed, g->k, 0, g->n / 16, &g->x, w->m, g->y, (size_t)g->n);
}

static void bench_gemm(const struct tr_kernels *const *levels, enum tr_wtype type, int n, int k,
                       const char *where, const int *ms)
{
    size_t bytes = tr_packed_bytes(type, n, k);
    size_t count = (size_t)MAX_ROWS * k;
    struct gemm g = {
        .type = type,
        .n = n,
        .k = k,
        .packed = must_alloc(bytes),
        .x = {.k = k,
              .f32 = must_alloc(count * 4),
              .bf16 = must_alloc(count * 2),
              .q8 = must_alloc(count),
              .q8_scale = must_alloc(count / 8),
              .q8_sum = must_alloc(count / 8)},
        .y = must_alloc((size_t)MAX_ROWS * n * 4),
    };
    char what[32];
    snprintf(what, sizeof what, "%s %s", tr__wtype_name(type), where);
    for (int i = 0; ms[i]; i++) {
        struct work w = {call_gemm, (double)ms[i] * n * k, (double)bytes, &g, ms[i]};
        /* plain C is as slow per row for many rows as for a few */
        struct work few = w;
        few.m = TR_MIN(ms[i], 4);
        double generic = time_of(&few, tr_kernels_select(TR_ISA_GENERIC)) * ms[i] / few.m;
        for (int l = 0; levels[l]; l++)
            report(levels[l], what, &w, generic);
    }
    free((void *)(uintptr_t)g.packed);
    free(g.x.f32);
    free(g.x.bf16);
    free(g.x.q8);
    free(g.x.q8_scale);
    free(g.x.q8_sum);
    free(g.y);
}

struct attn {
    enum tr_kv_type type;
    struct tr_attn_block block;
};

static void call_attn(const struct work *w, const struct tr_kernels *kn)
{
    const struct attn *a = w->problem;
    struct tr_attn_block b = a->block;
    b.m = w->m;
    kn->attn[a->type](&b);
}

static void bench_attn(const struct tr_kernels *const *levels, enum tr_kv_type type)
{
    enum { DIM = 128 };
    static const int ms[] = {1, 4, 8, 32, 64, 0};
    static const double bytes[] = {4, 2, 1.0625};
    struct tr_attn_block b = {
        .q = must_alloc(64 * DIM * 4),
        .head_dim = DIM,
        .scale = 0.088F,
        .hi = TR_ATTN_KEYS,
        .max = must_alloc(64 * 4),
        .sum = must_alloc(64 * 4),
        .o = must_alloc(64 * DIM * 4),
    };
    void *kv[8];
    for (int i = 0; i < 8; i++)
        kv[i] = must_alloc(16 * DIM * 4 + 256);
    for (int i = 0; i < 4; i++) {
        b.k[i] = kv[i];
        b.v[i] = kv[i + 4];
    }
    char what[32];
    snprintf(what, sizeof what, "attn %s", kv_names[type]);
    for (int i = 0; ms[i]; i++) {
        struct attn a = {type, b};
        struct work w = {call_attn, 2.0 * ms[i] * 64 * DIM, bytes[type] * 64 * DIM * 2, &a, ms[i]};
        double generic = time_of(&w, tr_kernels_select(TR_ISA_GENERIC));
        for (int l = 0; levels[l]; l++)
            report(levels[l], what, &w, generic);
    }
    for (int i = 0; i < 8; i++)
        free(kv[i]);
    free((void *)(uintptr_t)b.q);
    free(b.max);
    free(b.sum);
    free(b.o);
}

struct lanes {
    float *x, *w, *y;
    int8_t *q;
    float *scale;
    int32_t *sum;
    uint16_t *bf16;
};

static void call_rmsnorm(const struct work *w, const struct tr_kernels *kn)
{
    const struct lanes *p = w->problem;
    kn->rmsnorm(p->x, p->w, 1024, 1e-5F, p->y);
}

static void call_swiglu(const struct work *w, const struct tr_kernels *kn)
{
    const struct lanes *p = w->problem;
    kn->swiglu(p->x, p->w, 1024, p->y);
}

static void call_quantize(const struct work *w, const struct tr_kernels *kn)
{
    const struct lanes *p = w->problem;
    kn->quantize(p->x, 1024, p->q, p->scale, p->sum);
}

static void call_router(const struct work *w, const struct tr_kernels *kn)
{
    const struct lanes *p = w->problem;
    kn->router_bf16(p->bf16, 1024, 0, 128, p->x, 1024, w->m, p->y, 128);
}

static void call_sum_exp(const struct work *w, const struct tr_kernels *kn)
{
    const struct lanes *p = w->problem;
    kn->sum_exp(p->x, 32768, 1.0F);
}

static void bench_lanes(const struct tr_kernels *const *levels)
{
    struct lanes p = {
        .x = must_alloc(32768 * 4),
        .w = must_alloc(32768 * 4),
        .y = must_alloc(32768 * 4),
        .q = must_alloc(1024),
        .scale = must_alloc(128),
        .sum = must_alloc(128),
        .bf16 = must_alloc(128 * 1024 * 2),
    };
    const struct {
        const char *name;
        struct work work;
    } list[] = {
        {"rmsnorm 1024", {call_rmsnorm, 2048, 8192, &p, 1}},
        {"swiglu 1024", {call_swiglu, 1024, 8192, &p, 1}},
        {"quantize 1024", {call_quantize, 1024, 4096, &p, 1}},
        {"router 128", {call_router, 131072, 262144, &p, 1}},
        {"router 128", {call_router, 8 * 131072, 262144, &p, 8}},
        {"sum_exp 32768", {call_sum_exp, 32768, 131072, &p, 1}},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(list); i++) {
        double generic = time_of(&list[i].work, tr_kernels_select(TR_ISA_GENERIC));
        for (int l = 0; levels[l]; l++)
            report(levels[l], list[i].name, &list[i].work, generic);
    }
    free(p.x);
    free(p.w);
    free(p.y);
    free(p.q);
    free(p.scale);
    free(p.sum);
    free(p.bf16);
}

int main(int argc, char **argv)
{
    static const int near[] = {1, 2, 4, 8, 16, 32, 128, 0};
    static const int far[] = {1, 4, 8, 0};
    const struct tr_kernels *levels[8];
    int n = 0;
    tr_fp_enter();
    for (int isa = TR_ISA_GENERIC; isa < TR_ISA_AUTO; isa++) {
        const struct tr_kernels *kn = tr_kernels_select((enum tr_isa)isa);
        if ((int)kn->level == isa && (argc < 2 || strcmp(argv[1], kn->name) == 0))
            levels[n++] = kn;
    }
    levels[n] = NULL;
    for (enum tr_wtype type = TR_W_F16; type < TR_W_COUNT; type++)
        bench_gemm(levels, type, 512, 1024, "near", near);
    for (enum tr_wtype type = TR_W_F16; type < TR_W_COUNT; type++)
        bench_gemm(levels, type, 65536, 2048, "far", far);
    for (int type = TR_KV_F32; type <= TR_KV_Q8; type++)
        bench_attn(levels, (enum tr_kv_type)type);
    bench_lanes(levels);
    return 0;
}
