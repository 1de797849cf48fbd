/* Products with matrices of any type: which form of the rows they read, and each thread's share. */
#include "engine/kernels/blas.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/panel.h"

struct tr_rows tr_rows_at(const struct tr_rows *rows, int row)
{
    size_t at = (size_t)row * (size_t)tr_rows_stride(rows->k);
    struct tr_rows v = {.k = rows->k};
    v.f32 = rows->f32 ? rows->f32 + at : NULL;
    v.bf16 = rows->bf16 ? rows->bf16 + at : NULL;
    v.q8 = rows->q8 ? rows->q8 + at : NULL;
    v.q8_scale = rows->q8_scale ? rows->q8_scale + at / TR_BLOCK : NULL;
    v.q8_sum = rows->q8_sum ? rows->q8_sum + at / TR_BLOCK : NULL;
    return v;
}

enum tr_form tr_wtype_form(enum tr_wtype type)
{
    switch (type) {
    case TR_W_F32:
    case TR_W_F16:
        return TR_FORM_F32;
    case TR_W_BF16:
        return TR_FORM_BF16;
    default:
        return TR_FORM_Q8;
    }
}

void tr_rows_prepare(const struct tr_kernels *kn, const struct tr_rows *rows, int row,
                     unsigned forms)
{
    struct tr_rows v = tr_rows_at(rows, row);
    if (forms & TR_FORM_BF16)
        kn->to_bf16(v.f32, v.k, v.bf16);
    if (forms & TR_FORM_Q8)
        kn->quantize(v.f32, v.k, v.q8, v.q8_scale, v.q8_sum);
}

/* The first of `units` that belongs to thread tid. */
static int share(int units, int tid, int n_threads)
{
    return (int)((int64_t)units * tid / n_threads);
}

int tr_matmul_unit(enum tr_wtype type)
{
    return type == TR_W_F32 ? TR_BLAS_CUT : TR_PANEL;
}

void tr_matmul_units(const struct tr_kernels *kn, const struct tr_matrix *w,
                     const struct tr_rows *x, int m, float *y, size_t ldy, int u0, int u1,
                     void *scratch)
{
    if (u0 >= u1 || m <= 0)
        return;
    if (w->type == TR_W_F32)
        tr_blas_matmul(w->data, w->n, w->k, u0 * TR_BLAS_CUT, TR_MIN(u1 * TR_BLAS_CUT, w->n),
                       x->f32, (size_t)tr_rows_stride(x->k), m, y, ldy, scratch);
    else
        kn->gemm[w->type](w->data, w->k, u0, u1, x, m, y, ldy);
}

void tr_matmul(const struct tr_kernels *kn, const struct tr_matrix *w, const struct tr_rows *x,
               int m, float *y, size_t ldy, int tid, int n_threads, void *scratch)
{
    int units = TR_CEIL_DIV(w->n, tr_matmul_unit(w->type));
    tr_matmul_units(kn, w, x, m, y, ldy, share(units, tid, n_threads),
                    share(units, tid + 1, n_threads), scratch);
}

size_t tr_matmul_scratch(int max_n, int max_k)
{
    return (size_t)TR_BLAS_M * ((size_t)max_k + (size_t)TR_MIN(max_n, TR_BLAS_CUT)) * sizeof(float);
}

static void warm(const void *p)
{
    enum { LINES = 32 }; /* 2 KiB: what the memory delivers between two phases */
    for (int i = 0; i < LINES; i++)
        __builtin_prefetch((const char *)p + 64 * i, 0, 2);
}

void tr_matmul_warm(const struct tr_matrix *w, int tid, int n_threads)
{
    if (w->type == TR_W_F32 || w->n == 0)
        return;
    int panels = TR_CEIL_DIV(w->n, TR_PANEL);
    size_t panel = tr_packed_bytes(w->type, w->n, w->k) / (size_t)panels;
    warm((const char *)w->data + (size_t)share(panels, tid, n_threads) * panel);
}
