/*
 * One dispatch table of compute kernels for each level of instruction sets, filled once: plain C
 * first (the specification), then each level adds what it betters. A kernel that a level has no
 * body for is that of the level below; every level gives the same bits, only speed differs.
 *
 * Numeric rules, the contract of all levels (spec: the C bodies in generic.c):
 *  - "lanes": a reduction over n elements keeps 16 partial results, lane j taking elements j, j+16,
 *    … in order; the lanes are then added as a tree: lane j += lane j+8, then +4, +2, +1. Missing
 *    tail elements count as +0.
 *  - every multiply-add that the rules call fma is one fused operation; nothing else is fused.
 *  - FTZ and DAZ are on in every compute thread (tr_fp_enter).
 */
#ifndef TR_ENGINE_KERNELS_KERNELS_H
#define TR_ENGINE_KERNELS_KERNELS_H

#include "engine/types.h"

/* How a matrix is stored, in a file (quants.h) and in memory: all but F32 become "P16" panels, 16
 * output columns side by side, k ascending, with the file's own codes and scales. */
enum tr_wtype {
    TR_W_F32,  /* row-major [n][k], for OpenBLAS */
    TR_W_F16,  /* fp32 activations; one fma chain a column, k ascending */
    TR_W_BF16, /* bf16 activations; the order of TDPBF16PS, see gemm */
    TR_W_Q8_0, /* int8 activations per block of 32 from here on */
    TR_W_Q4_0,
    TR_W_Q4_K,
    TR_W_Q5_K,
    TR_W_Q6_K,
    TR_W_Q4_1,
    TR_W_Q5_0,
    TR_W_Q5_1,
    TR_W_IQ4_NL,
    TR_W_MXFP4,
    TR_W_NVFP4,
    TR_W_Q2_K,
    TR_W_Q3_K,
    TR_W_IQ4_XS,
    TR_W_IQ3_XXS,
    TR_W_IQ3_S,
    TR_W_IQ2_XXS,
    TR_W_IQ2_XS,
    TR_W_IQ2_S,
    TR_W_IQ1_S,
    TR_W_IQ1_M,
    TR_W_TQ1_0,
    TR_W_TQ2_0,
    TR_W_Q1_0,
    TR_W_Q2_0,
    TR_W_COUNT
};

/* A linear map y = W x, W being [n][k]. Immutable; data is owned by struct tr_weights. */
struct tr_matrix {
    enum tr_wtype type;
    int n; /* outputs */
    int k; /* inputs */
    /* F32: row-major [n][k]; else tr_packed_bytes(type, n, k) bytes, 64-byte aligned */
    const void *data;
};

/* Activations of m rows in the forms that matrices read. Row strides are those of
 * tr_rows_stride(k). A form that no consumer needs may be NULL. */
struct tr_rows {
    int k;           /* columns */
    float *f32;      /* [m][stride] */
    uint16_t *bf16;  /* [m][stride], rounded to nearest even, zero-padded to stride */
    int8_t *q8;      /* [m][stride], zero-padded */
    float *q8_scale; /* [m][stride / 32] */
    /* [m][stride / 32]: sums of the block's two halves of 16 as two int16, the first half in the
     * low bits: one multiply-add of words gives any multiple of either or of both */
    int32_t *q8_sum;
};

/* k rounded up to a multiple of 64. */
static inline int tr_rows_stride(int k)
{
    return TR_ROUND_UP(k, 64);
}

/* The view that starts at row `row`. */
struct tr_rows tr_rows_at(const struct tr_rows *rows, int row);

/* Sixteen keys by `head_dim`, transposed, and sixteen value rows: what a page holds for one layer
 * and KV head. The block is cut at absolute positions that are multiples of 64. */
enum { TR_ATTN_KEYS = 64, TR_ATTN_SUB = 16, TR_MAX_HEAD_DIM = 512 };

struct tr_attn_block {
    const float *q; /* [m][head_dim], already rotated on local layers */
    int m;          /* query rows; all of them see the keys [lo, hi) of this block */
    int head_dim;   /* multiple of 2 */
    float scale;    /* 1 / sqrt(head_dim) */
    /* [head_dim][16] each; NULL where no key is visible */
    const void *k[TR_ATTN_KEYS / TR_ATTN_SUB];
    /* [16][head_dim] each */
    const void *v[TR_ATTN_KEYS / TR_ATTN_SUB];
    /* the keys of the block that comes next, only to be fetched early; NULL = not known */
    const void *next[TR_ATTN_KEYS / TR_ATTN_SUB];
    int lo, hi; /* 0 <= lo < hi <= 64 */
    float *max; /* [m] running maximum, -inf at first */
    float *sum; /* [m] running sum of p, +0 at first */
    float *o;   /* [m][head_dim] running output, +0 at first */
};

typedef void tr_gemm_fn(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                        float *y, size_t ldy);
typedef void tr_attn_fn(const struct tr_attn_block *block);

/* No member is NULL at any level, but for gemm[TR_W_F32]. */
struct tr_kernels {
    enum tr_isa level;
    const char *name; /* "generic", "avx2", "avx512", "amx" */

    /* y = w * x / sqrt(mean(x^2) + eps); mean by lanes (fma); y may be x. Order: r = 1 / sqrtf(sum
     * / n + eps); y = (x * r) * w. */
    void (*rmsnorm)(const float *x, const float *w, int n, float eps, float *y);
    /* x[i] += y[i] */
    void (*add)(float *x, const float *y, int n);
    /* y[i] = fma(s[j], x[j][i], y[i]) for j = 0 .. n_x - 1 in order: the sum over experts */
    void (*combine)(const float *s, const float *const *x, int n_x, float *y, int n);
    /* y[i] = (gate[i] * sigmoid(gate[i])) * up[i] */
    void (*swiglu)(const float *gate, const float *up, int n, float *y);
    /* x[i] = sigmoid(x[i]): router scores */
    void (*sigmoid)(float *x, int n);
    /* o[i] = o[i] * sigmoid(z[i]): the attention gate */
    void (*gate)(float *o, const float *z, int n);
    /* y = bf16(x), zero-padded to tr_rows_stride(n) */
    void (*to_bf16)(const float *x, int n, uint16_t *y);
    /* Per block of 32: amax = max |x|; scale = amax / 127; q = round-half-even(x * (127 / amax)),
     * all 0, the scale too, if amax < 1e-30; sum as in struct tr_rows. Zero-padded to
     * tr_rows_stride(n). */
    void (*quantize)(const float *x, int n, int8_t *q, float *scale, int32_t *sum);
    /* Router scores: y[r][e] = lanes sum of fma(x[r][i], w[e][i]); w is fp32 or bf16 (widened: same
     * bits), [n][k] row-major. e in [e0, e1). */
    void (*router_f32)(const float *w, int k, int e0, int e1, const float *x, size_t ldx, int m,
                       float *y, size_t ldy);
    void (*router_bf16)(const uint16_t *w, int k, int e0, int e1, const float *x, size_t ldx, int m,
                        float *y, size_t ldy);
    /* sum over i of e^(x[i] - max), by lanes in float within each run of 1024, the runs added in
     * double in order */
    double (*sum_exp)(const float *x, int n, float max);

    /* Panels [p0, p1) of packed matrix data times m rows: y[r][16 p + j]. Whole panels are written:
     * y has ldy >= 16 * ceil(n / 16). The result of a row does not depend on m or on the row's
     * place. NULL for TR_W_F32 (blas.h). BF16: per 32 k: e = chain over even k from +0 of fma(a, w,
     * e), o likewise over odd k, acc += (e + o). Quantised types: per 32 k, or per 16 where the
     * type has a scale for that few: d = the exact integer dot of the codes' values; acc = fma(d, s
     * * as, acc), where s is the block's fp16, e8m0 or (dw * sc), sc being the sub-block's integer,
     * or (e4m3 * factor). Then, in types with a minimum: acc = fma(sum_a, -(min * as), acc), where
     * min is dmin * mn, or -m of Q4_1 and Q5_1. */
    tr_gemm_fn *gemm[TR_W_COUNT];

    /* One key block of online softmax for m rows. Per row: s_j = chain over d of fma(q[d], k[d][j])
     * from +0, times scale, for lo <= j < hi; new = max(old, max s); c = old is -inf ? 0 : expf(old
     * - new); p_j = expf(s_j - new), +0 outside [lo, hi); sum = fma(sum, c, lanes sum of p); o[d] =
     * o[d] * c, then for j = lo..hi-1 in order o[d] = fma(p_j, v[j][d], o[d]). Keys outside [lo,
     * hi) are never read into a result (they may be NaN). A maximum of -0 is stored as +0. Q8
     * (kv_q8.h): s_j = over runs of 32 dims in order fma(chain of the run, the key's scale, s_j);
     * p_j is multiplied by the value's scale before its fma. Indexed by enum tr_kv_type. */
    tr_attn_fn *attn[TR_KV_Q8 + 1];
};

/* The table of the best level that this machine has and that is not above `limit`; never changes.
 * Any thread. */
const struct tr_kernels *tr_kernels_select(enum tr_isa limit);
/* The best level the machine has; TR_ISA_AMX only after the kernel granted tiles. */
enum tr_isa tr_isa_detect(void);

/* FTZ and DAZ on, rounding to nearest: once in every thread that computes. */
void tr_fp_enter(void);

/* ---- packing (pack.c, quants.c) ---- */

/* Bytes of a packed [n][k] matrix of a type; 0 = the type can't hold that k (whole blocks of the
 * file's format: quants.h) or the size overflows. n is padded to 16 with zero rows. F32: n
 * * k * 4. */
size_t tr_packed_bytes(enum tr_wtype type, int n, int k);
/* Bytes of one row of k in the file's own format (safetensors or GGUF blocks); 0 as above. */
size_t tr_file_row_bytes(enum tr_wtype type, int k);
/* Packs rows [row0, row0 + rows) of a matrix of n rows; row0 is a multiple of 16; src holds those
 * rows in file format. Different row ranges may be packed by different threads. */
void tr_pack_rows(enum tr_wtype type, const void *src, int row0, int rows, int n, int k,
                  void *packed);
/* Rows that have been packed as TR_W_NVFP4 are multiplied by a factor (before it, by 1). */
void tr_pack_factor(float factor, int row0, int rows, int k, void *packed);
/* File format <-> float, row by row. Quantising follows ggml's reference (Q8_0: amax / 127, RNE;
 * Q4_0: the value of largest magnitude / -8); only F16, BF16, Q8_0, Q4_0 can be made. */
void tr_dequantize_row(enum tr_wtype type, const void *src, int k, float *y);
TR_NODISCARD int tr_quantize_row(enum tr_wtype type, const float *x, int k, void *dst);
/* One row from a file format to another that holds the same codes and scales, without a rounding:
 * Q4_0, Q5_0, IQ4_NL, MXFP4 and the ternary types to Q8_0, these last to Q4_0. TR_EUNSUPPORTED for
 * other types, or if a scale of this row does not fit. */
TR_NODISCARD int tr_copy_row(enum tr_wtype from, const void *src, int k, enum tr_wtype to,
                             void *dst);

/* ---- products (matmul.c) ---- */

/* Which form of activations a type reads. */
enum tr_form { TR_FORM_F32 = 1, TR_FORM_BF16 = 2, TR_FORM_Q8 = 4 };
enum tr_form tr_wtype_form(enum tr_wtype type);
/* Fills the forms of `rows` row [row] that `forms` (a set of enum tr_form) names, from its f32. */
void tr_rows_prepare(const struct tr_kernels *kn, const struct tr_rows *rows, int row,
                     unsigned forms);
/* y[r][0..n) = W x[r] for r < m: this thread's share of the columns, cut at fixed places (tid of
 * n_threads). Waits for nobody. y has ldy >= 16 * ceil(n / 16). `scratch` (tr_matmul_scratch
 * bytes) is this thread's own. */
void tr_matmul(const struct tr_kernels *kn, const struct tr_matrix *w, const struct tr_rows *x,
               int m, float *y, size_t ldy, int tid, int n_threads, void *scratch);
size_t tr_matmul_scratch(int max_n, int max_k);
/* A product can be had in parts: units of so many columns each, with the same bits. */
int tr_matmul_unit(enum tr_wtype type);
/* Units [u0, u1) of it, all by this thread. */
void tr_matmul_units(const struct tr_kernels *kn, const struct tr_matrix *w,
                     const struct tr_rows *x, int m, float *y, size_t ldy, int u0, int u1,
                     void *scratch);
/* Asks for the first lines of this thread's share, so that the product in the next phase finds
 * its stream begun. */
void tr_matmul_warm(const struct tr_matrix *w, int tid, int n_threads);

#endif
