/*
 * Panel products of the quantised types with AVX2.
 *
 * VPMADDUBSW multiplies unsigned with signed bytes and adds pairs in int16, which saturates: as
 * many of its results are added there as the type's values allow (nibbles 8, 5 bits 4, 6 bits 2)
 * before VPMADDWD widens. Q8_0 has no room at all, and needs |w| against the activation with w's
 * sign; so do the types whose codes stand for signed values.
 *
 * A panel's sixteen columns are two registers; up to four rows share what was unpacked, and a
 * single one has code of its own (row_avx2_body.h). Three groups of rows and more share an unpacked
 * copy of the panel in L1, while the next panel is fetched.
 */
#include <string.h>

#include "engine/kernels/blocks_avx2_body.h"
#include "engine/kernels/levels.h"
#include "engine/kernels/row_avx2_body.h"

enum { ROWS = 4, QUADS = TR_BLOCK / 4, HALF_LINE = TR_LINE / 2 };

/* Rows from which a panel is unpacked once for all of them, blocks of it at a time. */
enum { MANY_ROWS = 3 * ROWS + 1, DEEP = 32 };

/* DEEP blocks of a panel, ready for use: 24 KB, which stays in L1. */
struct ready {
    _Alignas(64) uint8_t quads[DEEP][QUADS][TR_LINE]; /* as unpack gives them */
    float scale[DEEP][4][TR_PANEL];                   /* of struct scales: v, min */
};

/* How many VPMADDUBSW results fit an int16, 2 * 127 * the largest weight each, and divide the quads
 * of a sum; of all layouts that are multiplied as this type is, see ready_type. */
INLINE int addable(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q8_0:
        return 1;
    case TR_W_Q6_K:
    case TR_W_NVFP4:
        return 2;
    default:
        return tr__codes(type) == TR_CODES_5 || tr__has_halves(tr__scales(type)) ? 4 : 8;
    }
}

/* What the dot over part h starts at: minus the offset times the sum. */
INLINE __m256i start(enum tr_wtype type, int offset, int32_t halves, int h, int parts)
{
    if (is_signed(type) || tr__offset(type) == 0)
        return _mm256_setzero_si256();
    return sums_times(halves, -offset * counts(0, h, parts), -offset * counts(1, h, parts));
}

/* A block of a panel: as it is stored, or unpacked. */
struct block {
    bool ready; /* a constant to the compiler */
    const uint8_t *packed;
    const uint8_t *scales; /* of the group */
    int in_group;
    const uint8_t (*quads)[TR_LINE];
    const float (*scale)[TR_PANEL]; /* see struct ready */
    struct values values;
};

INLINE __m256i block_quad(enum tr_wtype type, const struct block *b, int i, int col)
{
    return b->ready ? load(b->quads[i] + 4 * col)
                    : unpack(type, b->values.table, b->packed + 4 * col, i);
}

INLINE struct scales block_scales(enum tr_wtype type, const struct block *b, int col)
{
    if (!b->ready)
        return read_scales(type, b->scales, b->in_group, col, b->values.unit);
    struct scales ret = {{_mm256_load_ps(b->scale[0] + col), _mm256_load_ps(b->scale[1] + col)},
                         {_mm256_setzero_ps(), _mm256_setzero_ps()}};
    if (tr__has_min(tr__scales(type))) {
        ret.min[0] = _mm256_load_ps(b->scale[2] + col);
        ret.min[1] = _mm256_load_ps(b->scale[3] + col);
    }
    return ret;
}

/* Rows of activations, the pointers in registers. */
struct rows {
    const int8_t *q8;
    const float *scale;
    const int32_t *sum;
    size_t stride; /* blocks from row to row */
};

/* dot[r] += quads [from, to) of the panel's two halves times n_r rows' bytes at a[r]. */
INLINE void dot_quads(enum tr_wtype type, int n_r, const struct block *b, const int8_t *const *a,
                      int from, int to, __m256i dot[ROWS][2])
{
    const __m256i ones = _mm256_set1_epi16(1);
    const int many = addable(type);
    __m256i s[ROWS][2];
    UNROLL
    for (int i = from; i < to; i++) {
        ORDER;
        __m256i w[2] = {block_quad(type, b, i, 0), block_quad(type, b, i, 8)};
        UNROLL
        for (int r = 0; r < n_r; r++) {
            int32_t bytes;
            memcpy(&bytes, a[r] + 4 * i, sizeof bytes);
            __m256i quad = _mm256_set1_epi32(bytes);
            UNROLL
            for (int c = 0; c < 2; c++) {
                __m256i product =
                    is_signed(type)
                        ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[c]), _mm256_sign_epi8(quad, w[c]))
                        : _mm256_maddubs_epi16(w[c], quad);
                s[r][c] = (i - from) % many == 0 ? product : _mm256_add_epi16(s[r][c], product);
                IN_REGISTER(s[r][c]);
                if ((i - from) % many == many - 1) {
                    dot[r][c] = _mm256_add_epi32(dot[r][c], _mm256_madd_epi16(s[r][c], ones));
                    IN_REGISTER(dot[r][c]);
                }
            }
        }
    }
}

/* acc[r] moved on by a block, which is the block at `at` of the rows. */
INLINE void step(enum tr_wtype type, int n_r, const struct block *b, struct rows x, size_t at,
                 __m256 acc[ROWS][2])
{
    const int parts = tr__has_halves(tr__scales(type)) ? 2 : 1;
    const int8_t *a[ROWS];
    UNROLL
    for (int r = 0; r < n_r; r++)
        a[r] = x.q8 + (r * x.stride + at) * TR_BLOCK;
    UNROLL
    for (int h = 0; h < parts; h++) {
        __m256i dot[ROWS][2];
        UNROLL
        for (int r = 0; r < n_r; r++)
            dot[r][0] = dot[r][1] =
                start(type, b->values.offset, x.sum[r * x.stride + at], h, parts);
        dot_quads(type, n_r, b, a, h * QUADS / parts, (h + 1) * QUADS / parts, dot);
        ORDER;
        UNROLL
        for (int c = 0; c < 2; c++) {
            struct scales s = block_scales(type, b, 8 * c);
            UNROLL
            for (int r = 0; r < n_r; r++) {
                __m256 scale = _mm256_set1_ps(x.scale[r * x.stride + at]);
                acc[r][c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][c]),
                                            _mm256_mul_ps(s.v[h], scale), acc[r][c]);
                if (tr__has_min(tr__scales(type)))
                    acc[r][c] = _mm256_fnmadd_ps(
                        _mm256_cvtepi32_ps(sums_times(x.sum[r * x.stride + at], counts(0, h, parts),
                                                      counts(1, h, parts))),
                        _mm256_mul_ps(s.min[h], scale), acc[r][c]);
            }
        }
    }
}

INLINE void store_rows(int n_r, __m256 acc[ROWS][2], float *y, size_t ldy)
{
    UNROLL
    for (int r = 0; r < n_r; r++) {
        _mm256_storeu_ps(y + r * ldy, acc[r][0]);
        _mm256_storeu_ps(y + r * ldy + 8, acc[r][1]);
    }
}

/* One panel of n_blocks for n_r rows; `fetch`: it comes from memory. */
INLINE void packed_rows(enum tr_wtype type, struct values v, int n_r, bool fetch,
                        const uint8_t *panel, int n_blocks, struct rows x, float *y, size_t ldy)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    __m256 acc[ROWS][2];
    UNROLL
    for (int r = 0; r < n_r; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (int b0 = 0; b0 < n_blocks; b0 += shape.blocks, panel += tr__group_bytes(type)) {
        int blocks = TR_MIN(shape.blocks, n_blocks - b0);
        const uint8_t *scales = panel + tr__scales_at(type);
        for (int b = 0; b < blocks; b++) {
            struct block block = {.packed = panel + (size_t)(b * shape.block_lines) * TR_LINE,
                                  .scales = scales,
                                  .in_group = b,
                                  .values = v};
            if (fetch) {
                prefetch_lines(block.packed, shape.block_lines);
                if (b == shape.blocks - 1)
                    prefetch_lines(scales, shape.scale_lines);
            }
            step(type, n_r, &block, x, (size_t)(b0 + b), acc);
        }
    }
    store_rows(n_r, acc, y, ldy);
}

/* One panel for one row, from memory. */
INLINE void one_row(enum tr_wtype type, const struct row_values *v, const uint8_t *panel,
                    int n_blocks, struct rows x, float *y)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    _Alignas(32) int8_t abs[TR_BLOCK];
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int b0 = 0; b0 < n_blocks; b0 += shape.blocks, panel += tr__group_bytes(type)) {
        int blocks = TR_MIN(shape.blocks, n_blocks - b0);
        const uint8_t *scales = panel + tr__scales_at(type);
        struct row_d d[2] = {row_d_of(type, v, scales, 0), row_d_of(type, v, scales, 8)};
        for (int b = 0; b < blocks; b++) {
            const uint8_t *block = panel + (size_t)(b * shape.block_lines) * TR_LINE;
            prefetch_from(block, shape.block_lines, AHEAD_OF_ONE);
            if (b == shape.blocks - 1)
                prefetch_from(scales, shape.scale_lines, AHEAD_OF_ONE);
            size_t at = (size_t)(b0 + b);
            struct row_block here = {.a = x.q8 + at * TR_BLOCK,
                                     .abs = abs,
                                     .scale = _mm256_set1_ps(x.scale[at]),
                                     .sums = x.sum[at]};
            if (row_is_signed(type))
                _mm256_store_si256((__m256i *)(void *)abs,
                                   _mm256_abs_epi8(load((const uint8_t *)(const void *)here.a)));
            row_step(type, v, d, block, scales, b, &here, acc);
        }
    }
    _mm256_storeu_ps(y, acc[0]);
    _mm256_storeu_ps(y + 8, acc[1]);
}

/* n_blocks of a panel, from a whole group on, made ready. */
INLINE void make_ready(enum tr_wtype type, struct values v, const uint8_t *group, int n_blocks,
                       struct ready *ret)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    for (int i = 0; i < n_blocks; i++) {
        const uint8_t *at = group + (size_t)(i / shape.blocks) * tr__group_bytes(type);
        int b = i % shape.blocks;
        struct block block = {.packed = at + (size_t)(b * shape.block_lines) * TR_LINE,
                              .values = v};
        UNROLL
        for (int col = 0; col < TR_PANEL; col += 8) {
            UNROLL
            for (int q = 0; q < QUADS; q++)
                _mm256_store_si256((__m256i *)(void *)(ret->quads[i][q] + 4 * col),
                                   block_quad(type, &block, q, col));
            struct scales s = read_scales(type, at + tr__scales_at(type), b, col, v.unit);
            UNROLL
            for (int h = 0; h < 2; h++) {
                _mm256_store_ps(ret->scale[i][h] + col, s.v[h]);
                if (tr__has_min(tr__scales(type)))
                    _mm256_store_ps(ret->scale[i][2 + h] + col, s.min[h]);
            }
        }
    }
}

/* Lines still to be fetched. */
struct fetch {
    const uint8_t *at, *end;
    int per_block;
};

INLINE struct rows rows_from(const struct tr_rows *x, int row, int block)
{
    size_t stride = (size_t)tr_rows_stride(x->k) / TR_BLOCK;
    size_t at = row * stride + block;
    return (struct rows){x->q8 + at * TR_BLOCK, x->q8_scale + at, x->q8_sum + at, stride};
}

/* y (+)= n_blocks made ready, for n_r rows; `first`: y is only written. */
INLINE void ready_rows(enum tr_wtype type, int offset, int n_r, const struct ready *w, int n_blocks,
                       struct rows x, bool first, struct fetch *next, float *y, size_t ldy)
{
    const uint8_t *ahead = next->at;
    __m256 acc[ROWS][2];
    UNROLL
    for (int r = 0; r < n_r; r++) {
        acc[r][0] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(y + r * ldy);
        acc[r][1] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(y + r * ldy + 8);
    }
    for (int b = 0; b < n_blocks; b++) {
        struct block block = {.ready = true,
                              .quads = w->quads[b],
                              .scale = w->scale[b],
                              .values = {.offset = offset}};
        for (int i = 0; i < next->per_block && ahead < next->end; i++, ahead += TR_LINE)
            _mm_prefetch((const char *)ahead, _MM_HINT_T1);
        step(type, n_r, &block, x, (size_t)b, acc);
    }
    next->at = ahead;
    store_rows(n_r, acc, y, ldy);
}

/* Once it is unpacked, a layout is multiplied like any other whose codes are signed and added, and
 * whose scales apply, in the same way. */
INLINE enum tr_wtype ready_type(enum tr_wtype type)
{
    const enum tr_scales s = tr__scales(type);
    if (is_signed(type))
        return tr__has_halves(s) ? TR_W_NVFP4 : TR_W_Q8_0;
    if (tr__has_min(s) && tr__has_halves(s))
        return TR_W_Q2_K;
    if (tr__has_min(s))
        return tr__codes(type) == TR_CODES_5 ? TR_W_Q5_K : TR_W_Q4_K;
    if (tr__has_halves(s))
        return TR_W_Q6_K;
    return tr__codes(type) == TR_CODES_5 ? TR_W_Q5_0 : TR_W_Q4_0;
}

/* Blocks [b0, b0 + n_blocks) of the rows, from those made ready. */
#define READY(name)                                                                                \
    static void ready_##name(int offset, const struct ready *w, int b0, int n_blocks,              \
                             const struct tr_rows *x, int m, struct fetch *next, float *y,         \
                             size_t ldy)                                                           \
    {                                                                                              \
        for (int r = 0; r < m; r += ROWS) {                                                        \
            struct rows at = rows_from(x, r, b0);                                                  \
            float *out = y + r * ldy;                                                              \
            ROWS_SWITCH_4(m - r, CALL_##name)                                                      \
        }                                                                                          \
    }
#define CALL(name, n) ready_rows(TR_W_##name, offset, n, w, n_blocks, at, b0 == 0, next, out, ldy)
#define CALL_Q8_0(n)  CALL(Q8_0, n)
#define CALL_Q4_0(n)  CALL(Q4_0, n)
#define CALL_Q5_0(n)  CALL(Q5_0, n)
#define CALL_Q4_K(n)  CALL(Q4_K, n)
#define CALL_Q5_K(n)  CALL(Q5_K, n)
#define CALL_Q6_K(n)  CALL(Q6_K, n)
#define CALL_Q2_K(n)  CALL(Q2_K, n)
#define CALL_NVFP4(n) CALL(NVFP4, n)
READY(Q8_0)
READY(Q4_0)
READY(Q5_0)
READY(Q4_K)
READY(Q5_K)
READY(Q6_K)
READY(Q2_K)
READY(NVFP4)
#undef CALL

/* One panel for many rows. */
INLINE void many_rows(enum tr_wtype type, struct values v, const uint8_t *panel, int n_blocks,
                      const struct tr_rows *x, int m, float *y, size_t ldy)
{
    static void (*const products[])(int, const struct ready *, int, int, const struct tr_rows *,
                                    int, struct fetch *, float *, size_t) = {
        [TR_W_Q8_0] = ready_Q8_0, [TR_W_Q4_0] = ready_Q4_0,  [TR_W_Q5_0] = ready_Q5_0,
        [TR_W_Q4_K] = ready_Q4_K, [TR_W_Q5_K] = ready_Q5_K,  [TR_W_Q6_K] = ready_Q6_K,
        [TR_W_Q2_K] = ready_Q2_K, [TR_W_NVFP4] = ready_NVFP4};
    struct ready ready;
    for (int b0 = 0; b0 < n_blocks; b0 += DEEP) {
        int blocks = TR_MIN(DEEP, n_blocks - b0);
        size_t bytes =
            (size_t)TR_CEIL_DIV(blocks, tr__panel_shape(type).blocks) * tr__group_bytes(type);
        struct fetch next = {panel + bytes, panel + 2 * bytes, 0};
        next.per_block = (int)TR_CEIL_DIV(bytes / TR_LINE, (size_t)(blocks * TR_CEIL_DIV(m, ROWS)));
        make_ready(type, v, panel, blocks, &ready);
        panel += bytes;
        products[ready_type(type)](v.offset, &ready, b0, blocks, x, m, &next, y, ldy);
    }
}

/* One panel for n_r rows at once. */
INLINE void several_rows(enum tr_wtype type, struct values v, int n_r, bool fetch,
                         const uint8_t *panel, int n_blocks, struct rows x, float *y, size_t ldy)
{
    if (n_r > 1 || type == TR_W_Q8_0) {
        packed_rows(type, v, n_r, fetch, panel, n_blocks, x, y, ldy);
        return;
    }
    struct row_values row = row_values_of(type, v);
    one_row(type, &row, panel, n_blocks, x, y);
}

INLINE void gemm(enum tr_wtype type, struct values v, const void *panels, int k, int p0, int p1,
                 const struct tr_rows *x, int m, float *y, size_t ldy)
{
    for (int p = p0; p < p1; p++) {
        const uint8_t *panel = (const uint8_t *)panels + (size_t)p * tr__panel_bytes(type, k);
        float *column = y + (size_t)p * TR_PANEL;
        if (m >= (tr__common(type) ? MANY_ROWS : 2)) {
            many_rows(type, v, panel, k / TR_BLOCK, x, m, column, ldy);
            continue;
        }
        for (int r = 0; r < m; r += ROWS) {
            struct rows at = rows_from(x, r, 0);
            float *out = column + r * ldy;
#define CALL(n) several_rows(type, v, n, r == 0, panel, k / TR_BLOCK, at, out, ldy)
            if (tr__common(type)) {
                ROWS_SWITCH_4(m - r, CALL)
            } else {
                CALL(1);
            }
#undef CALL
        }
    }
}

TR__LAYOUTS(TR__LAYOUT_OF)
TR__QUANTS(TR__GEMM_OF)

void tr__add_avx2_gemm(struct tr_kernels *k)
{
    TR__QUANTS(TR__ADD_GEMM)
}
