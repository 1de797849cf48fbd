/*
 * Panel products of the quantised types with AVX2.
 *
 * VPMADDUBSW multiplies unsigned with signed bytes and adds pairs in int16, which saturates: as
 * many of its results are added there as the type's values allow (nibbles 8, 5 bits 4, 6 bits 2)
 * before VPMADDWD widens. Q8_0 has no room at all, and needs |w| against the activation with w's
 * sign.
 *
 * A panel's sixteen columns are two registers; up to four rows share what was unpacked. Three
 * groups of rows and more share an unpacked copy of the panel in L1, while the next panel is
 * fetched.
 */
#include <string.h>

#include "engine/kernels/levels.h"
#include "engine/kernels/panel.h"
#include "engine/kernels/vec_body.h"

enum { ROWS = 4, QUADS = TR_BLOCK / 4, HALF_LINE = TR_LINE / 2 };

/* Rows from which a panel is unpacked once for all of them, blocks of it at a time. */
enum { MANY_ROWS = 3 * ROWS + 1, DEEP = 32 };

/* DEEP blocks of a panel, ready for use: 20 KB, which stays in L1. */
struct ready {
    _Alignas(64) uint8_t quads[DEEP][QUADS][TR_LINE]; /* as unpack gives them */
    float scale[DEEP][2][TR_PANEL];                   /* see struct scales */
};

INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* How many VPMADDUBSW results fit an int16: 2 * 127 * the largest weight each. */
INLINE int addable(enum tr_wtype type)
{
    switch (type) {
    case TR_W_Q8_0:
        return 1;
    case TR_W_Q6_K:
        return 2;
    case TR_W_Q5_K:
        return 4;
    default:
        return 8;
    }
}

INLINE __m256i shift(__m256i v, int left)
{
    return left >= 0 ? _mm256_slli_epi16(v, left) : _mm256_srli_epi16(v, -left);
}

/* Quad i of eight columns; block points at their half of the first line. Q8_0: signed. */
INLINE __m256i unpack(enum tr_wtype type, const uint8_t *block, int i)
{
    if (type == TR_W_Q8_0)
        return _mm256_xor_si256(load(block + i * TR_LINE), _mm256_set1_epi8(-128));
    __m256i v = load(block + i % 4 * TR_LINE);
    v = _mm256_and_si256(i < 4 ? v : _mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    __m256i high;
    switch (type) {
    case TR_W_Q5_K: /* bit i goes to bit 4 */
        high = shift(load(block + 4 * TR_LINE), 4 - i);
        return _mm256_or_si256(v, _mm256_and_si256(high, _mm256_set1_epi8(0x10)));
    case TR_W_Q6_K: /* bits 2i, 2i+1 go to bits 4, 5 */
        high = shift(load(block + (4 + i / 4) * TR_LINE), 4 - 2 * (i % 4));
        return _mm256_or_si256(v, _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
    default:
        return v;
    }
}

INLINE __m256 f16_scales(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

INLINE __m256 byte_scales(bool is_signed, const uint8_t *p)
{
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
}

/* Of a block: [0] is the scale and, in Q4_K and Q5_K, [1] the minimum; in Q6_K they are the scales
 * of its halves of 16 k. */
struct scales {
    __m256 v[2];
};

/* Of columns [col, col + 8) in block b of a group. */
INLINE struct scales read_scales(enum tr_wtype type, const uint8_t *s, int b, int col)
{
    struct scales ret = {{_mm256_setzero_ps(), _mm256_setzero_ps()}};
    if (type == TR_W_Q8_0 || type == TR_W_Q4_0) {
        ret.v[0] = f16_scales(s + (b * TR_PANEL + col) * 2);
        return ret;
    }
    __m256 d = f16_scales(s + TR_K_D + 2 * col);
    if (type == TR_W_Q6_K) {
        ret.v[0] = _mm256_mul_ps(d, byte_scales(true, s + 2 * b * TR_PANEL + col));
        ret.v[1] = _mm256_mul_ps(d, byte_scales(true, s + (2 * b + 1) * TR_PANEL + col));
    } else {
        ret.v[0] = _mm256_mul_ps(d, byte_scales(false, s + b * TR_PANEL + col));
        ret.v[1] = _mm256_mul_ps(f16_scales(s + TR_K_DMIN + 2 * col),
                                 byte_scales(false, s + TR_K_MINS + b * TR_PANEL + col));
    }
    return ret;
}

/* low * the sum of the first half + high * the sum of the second, in every lane. */
INLINE __m256i sums_times(int32_t halves, int low, int high)
{
    int32_t factors = (int32_t)((uint32_t)high << 16 | (uint16_t)low);
    return _mm256_madd_epi16(_mm256_set1_epi32(halves), _mm256_set1_epi32(factors));
}

/* What the dot over a block's half h (or all of it) starts at: minus the offset times the sum. */
INLINE __m256i start(enum tr_wtype type, int32_t halves, int h)
{
    switch (type) {
    case TR_W_Q4_0:
        return sums_times(halves, -8, -8);
    case TR_W_Q6_K:
        return h == 0 ? sums_times(halves, -32, 0) : sums_times(halves, 0, -32);
    default:
        return _mm256_setzero_si256();
    }
}

/* What lies before stays before. Without it the compiler unpacks a whole block ahead of its use,
 * and spends more time spilling registers than multiplying. */
#define ORDER __asm__ volatile("" ::: "memory")

/* Keeps a sum a chain: as a tree it needs more registers than there are. */
#define IN_REGISTER(v) __asm__("" : "+x"(v))

/* A block of a panel: as it is stored, or unpacked. */
struct block {
    bool ready; /* a constant to the compiler */
    const uint8_t *packed;
    const uint8_t *scales; /* of the group */
    int in_group;
    const uint8_t (*quads)[TR_LINE];
    const float (*scale)[TR_PANEL];
};

INLINE __m256i block_quad(enum tr_wtype type, const struct block *b, int i, int col)
{
    return b->ready ? load(b->quads[i] + 4 * col) : unpack(type, b->packed + 4 * col, i);
}

INLINE struct scales block_scales(enum tr_wtype type, const struct block *b, int col)
{
    if (!b->ready)
        return read_scales(type, b->scales, b->in_group, col);
    return (struct scales){{_mm256_load_ps(b->scale[0] + col), _mm256_load_ps(b->scale[1] + col)}};
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
                    type == TR_W_Q8_0
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
    const int parts = type == TR_W_Q6_K ? 2 : 1;
    const int8_t *a[ROWS];
    UNROLL
    for (int r = 0; r < n_r; r++)
        a[r] = x.q8 + (r * x.stride + at) * TR_BLOCK;
    UNROLL
    for (int h = 0; h < parts; h++) {
        __m256i dot[ROWS][2];
        UNROLL
        for (int r = 0; r < n_r; r++)
            dot[r][0] = dot[r][1] = start(type, x.sum[r * x.stride + at], h);
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
                if (type == TR_W_Q4_K || type == TR_W_Q5_K)
                    acc[r][c] = _mm256_fnmadd_ps(
                        _mm256_cvtepi32_ps(sums_times(x.sum[r * x.stride + at], 1, 1)),
                        _mm256_mul_ps(s.v[1], scale), acc[r][c]);
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
INLINE void packed_rows(enum tr_wtype type, int n_r, bool fetch, const uint8_t *panel, int n_blocks,
                        struct rows x, float *y, size_t ldy)
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
                                  .in_group = b};
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

/* n_blocks of a panel, from a whole group on, made ready. */
INLINE void make_ready(enum tr_wtype type, const uint8_t *group, int n_blocks, struct ready *ret)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    for (int i = 0; i < n_blocks; i++) {
        const uint8_t *at = group + (size_t)(i / shape.blocks) * tr__group_bytes(type);
        int b = i % shape.blocks;
        struct block block = {.packed = at + (size_t)(b * shape.block_lines) * TR_LINE};
        UNROLL
        for (int col = 0; col < TR_PANEL; col += 8) {
            UNROLL
            for (int q = 0; q < QUADS; q++)
                _mm256_store_si256((__m256i *)(void *)(ret->quads[i][q] + 4 * col),
                                   block_quad(type, &block, q, col));
            struct scales s = read_scales(type, at + tr__scales_at(type), b, col);
            _mm256_store_ps(ret->scale[i][0] + col, s.v[0]);
            _mm256_store_ps(ret->scale[i][1] + col, s.v[1]);
        }
    }
}

/* Lines still to be fetched. */
struct fetch {
    const uint8_t *at, *end;
    int per_block;
};

/* y (+)= n_blocks made ready, for n_r rows; `first`: y is only written. */
INLINE void ready_rows(enum tr_wtype type, int n_r, const struct ready *w, int n_blocks,
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
        struct block block = {.ready = true, .quads = w->quads[b], .scale = w->scale[b]};
        for (int i = 0; i < next->per_block && ahead < next->end; i++, ahead += TR_LINE)
            _mm_prefetch((const char *)ahead, _MM_HINT_T1);
        step(type, n_r, &block, x, (size_t)b, acc);
    }
    next->at = ahead;
    store_rows(n_r, acc, y, ldy);
}

INLINE struct rows rows_from(const struct tr_rows *x, int row, int block)
{
    size_t stride = (size_t)tr_rows_stride(x->k) / TR_BLOCK;
    size_t at = row * stride + block;
    return (struct rows){x->q8 + at * TR_BLOCK, x->q8_scale + at, x->q8_sum + at, stride};
}

/* One panel for many rows. */
INLINE void many_rows(enum tr_wtype type, const uint8_t *panel, int n_blocks,
                      const struct tr_rows *x, int m, float *y, size_t ldy)
{
    struct ready ready;
    for (int b0 = 0; b0 < n_blocks; b0 += DEEP) {
        int blocks = TR_MIN(DEEP, n_blocks - b0);
        size_t bytes =
            (size_t)TR_CEIL_DIV(blocks, tr__panel_shape(type).blocks) * tr__group_bytes(type);
        struct fetch next = {panel + bytes, panel + 2 * bytes, 0};
        next.per_block = (int)TR_CEIL_DIV(bytes / TR_LINE, (size_t)(blocks * TR_CEIL_DIV(m, ROWS)));
        make_ready(type, panel, blocks, &ready);
        panel += bytes;
        for (int r = 0; r < m; r += ROWS) {
            struct rows at = rows_from(x, r, b0);
            float *out = y + r * ldy;
#define CALL(n) ready_rows(type, n, &ready, blocks, at, b0 == 0, &next, out, ldy)
            ROWS_SWITCH_4(m - r, CALL)
#undef CALL
        }
    }
}

INLINE void gemm(enum tr_wtype type, const void *panels, int k, int p0, int p1,
                 const struct tr_rows *x, int m, float *y, size_t ldy)
{
    for (int p = p0; p < p1; p++) {
        const uint8_t *panel = (const uint8_t *)panels + (size_t)p * tr__panel_bytes(type, k);
        float *column = y + (size_t)p * TR_PANEL;
        if (m >= MANY_ROWS) {
            many_rows(type, panel, k / TR_BLOCK, x, m, column, ldy);
            continue;
        }
        struct rows first = rows_from(x, 0, 0);
#define CALL(n) packed_rows(type, n, true, panel, k / TR_BLOCK, first, column, ldy)
        ROWS_SWITCH_4(m, CALL)
#undef CALL
        for (int r = ROWS; r < m; r += ROWS) {
            struct rows at = rows_from(x, r, 0);
            float *out = column + r * ldy;
#define CALL(n) packed_rows(type, n, false, panel, k / TR_BLOCK, at, out, ldy)
            ROWS_SWITCH_4(m - r, CALL)
#undef CALL
        }
    }
}

TR__GEMM_OF(Q8_0)
TR__GEMM_OF(Q4_0)
TR__GEMM_OF(Q4_K)
TR__GEMM_OF(Q5_K)
TR__GEMM_OF(Q6_K)

void tr__add_avx2_gemm(struct tr_kernels *k)
{
    k->gemm[TR_W_Q8_0] = gemm_Q8_0;
    k->gemm[TR_W_Q4_0] = gemm_Q4_0;
    k->gemm[TR_W_Q4_K] = gemm_Q4_K;
    k->gemm[TR_W_Q5_K] = gemm_Q5_K;
    k->gemm[TR_W_Q6_K] = gemm_Q6_K;
}
