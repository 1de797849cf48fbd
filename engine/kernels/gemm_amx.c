/*
 * Panel products with AMX tiles; few rows go to the level below, which gives the same bits.
 *
 * BF16: TDPBF16PS defines the order of sums that every level follows (kernels.h). A tile of B is
 * sixteen lines of a panel as they are.
 *
 * Quantised: TDPBSSD multiplies signed bytes, so a panel is unpacked to signed values once for all
 * rows, a stretch of k at a time that stays in L1. Each unit (32 k, or the 16 that share a scale of
 * Q6_K) is one tile product, an exact integer; while the tile unit works on it, the one before is
 * scaled and added in AVX-512 registers.
 *
 * The wrappers are our own: GCC's intrinsics tell the compiler that LDTILECFG reads 8 bytes and the
 * tile loads none, so that it may drop the stores of what they read.
 */
#include <string.h>

#include "engine/kernels/blocks_avx512_body.h"
#include "engine/kernels/levels.h"

struct tile_config {
    uint8_t palette, start_row;
    uint8_t reserved[14];
    uint16_t bytes[16]; /* of a row of tile i */
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

#define TILE_LOAD(t, p, stride)                                                                    \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(t, p, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((size_t)(stride))           \
                     : "memor"                                                                     \
                       "y")
#define TILE_ZERO(t)          __asm__ volatile("tilezero %%tmm" #t ::)
#define TILE_RELEASE()        __asm__ volatile("tilerelease" ::)
#define TILE_DP_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
#define TILE_DP_INT8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

/* Tiles 0..3 are sums [rows][16], 4 is A [rows][a_bytes], 5 is B [b_rows][16 columns of 4
 * bytes]. */
static void configure(int rows, int a_bytes, int b_rows)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 4; i++) {
        c.rows[i] = (uint8_t)rows;
        c.bytes[i] = TR_LINE;
    }
    c.rows[4] = (uint8_t)rows;
    c.bytes[4] = (uint16_t)a_bytes;
    c.rows[5] = (uint8_t)b_rows;
    c.bytes[5] = TR_LINE;
    __asm__ volatile("ldtilecfg %0" ::"m"(c));
}

enum {
    TILE_ROWS = 16,
    FEW_BF16 = 3, /* up to here AVX-512 is as fast */
    FEW_INT8 = 8,
    MOST_ROWS = 256, /* that share an unpacked panel */
    DEPTH = 1024,    /* k unpacked at a time */
    MOST_UNITS = DEPTH / 16,
    MOST_BLOCKS = DEPTH / TR_BLOCK
};

/* The products of the level below, for few rows. */
static tr_gemm_fn *below[TR_W_COUNT];

/* ---- BF16 ---- */

/* One tile of rows against panels p .. p + 3, or one panel. */
static void bf16_four(const uint8_t *w, size_t panel_bytes, int k, const uint16_t *x, size_t stride,
                      float *y, size_t ldy)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int i = 0; i < k; i += TR_BLOCK, w += 16 * TR_LINE) {
        TILE_LOAD(4, x + i, stride * sizeof *x);
        TILE_LOAD(5, w, TR_LINE);
        TILE_DP_BF16(0, 4, 5);
        TILE_LOAD(5, w + panel_bytes, TR_LINE);
        TILE_DP_BF16(1, 4, 5);
        TILE_LOAD(5, w + 2 * panel_bytes, TR_LINE);
        TILE_DP_BF16(2, 4, 5);
        TILE_LOAD(5, w + 3 * panel_bytes, TR_LINE);
        TILE_DP_BF16(3, 4, 5);
    }
    TILE_STORE(0, y, ldy * sizeof *y);
    TILE_STORE(1, y + TR_PANEL, ldy * sizeof *y);
    TILE_STORE(2, y + 2 * TR_PANEL, ldy * sizeof *y);
    TILE_STORE(3, y + 3 * TR_PANEL, ldy * sizeof *y);
}

static void bf16_one(const uint8_t *w, int k, const uint16_t *x, size_t stride, float *y,
                     size_t ldy)
{
    TILE_ZERO(0);
    for (int i = 0; i < k; i += TR_BLOCK, w += 16 * TR_LINE) {
        TILE_LOAD(4, x + i, stride * sizeof *x);
        TILE_LOAD(5, w, TR_LINE);
        TILE_DP_BF16(0, 4, 5);
    }
    TILE_STORE(0, y, ldy * sizeof *y);
}

/* `tiles` tiles of `rows` rows each: several of 16, or one of fewer. */
static void bf16_tiles(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                       int tiles, int rows, float *y, size_t ldy)
{
    size_t stride = (size_t)tr_rows_stride(x->k);
    size_t panel_bytes = tr__panel_bytes(TR_W_BF16, k);
    configure(rows, TR_LINE, 16);
    for (int p = p0; p < p1;) {
        const uint8_t *w = (const uint8_t *)panels + (size_t)p * panel_bytes;
        int n = p1 - p >= 4 ? 4 : 1;
        for (int t = 0; t < tiles; t++) {
            size_t row = (size_t)t * TILE_ROWS;
            const uint16_t *in = x->bf16 + row * stride;
            float *out = y + row * ldy + (size_t)p * TR_PANEL;
            if (n == 4)
                bf16_four(w, panel_bytes, k, in, stride, out, ldy);
            else
                bf16_one(w, k, in, stride, out, ldy);
        }
        p += n;
    }
    TILE_RELEASE();
}

static void gemm_bf16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                      float *y, size_t ldy)
{
    int full = m / TILE_ROWS * TILE_ROWS;
    int rest = m - full;
    struct tr_rows tail = tr_rows_at(x, full);
    float *out = y + (size_t)full * ldy;
    if (full > 0)
        bf16_tiles(panels, k, p0, p1, x, full / TILE_ROWS, TILE_ROWS, y, ldy);
    if (rest > FEW_BF16)
        bf16_tiles(panels, k, p0, p1, &tail, 1, rest, out, ldy);
    else if (rest > 0)
        below[TR_W_BF16](panels, k, p0, p1, &tail, rest, out, ldy);
}

/* ---- quantised ---- */

struct work {
    _Alignas(64) int8_t b[DEPTH * TR_PANEL]; /* the panel's stretch: units of k quads by columns */
    float scale[MOST_UNITS][TR_PANEL];
    float min[MOST_UNITS][TR_PANEL];     /* of types that have it */
    int32_t dot[2][TILE_ROWS][TR_PANEL]; /* of this unit and of the one before */
    float a_scale[MOST_ROWS / TILE_ROWS][MOST_BLOCKS][TILE_ROWS];
    float a_sum[MOST_ROWS / TILE_ROWS][MOST_UNITS][TILE_ROWS]; /* of types that have a minimum */
};

/* k that share a scale. */
INLINE int unit_of(enum tr_wtype type)
{
    return tr__has_halves(tr__scales(type)) ? TR_BLOCK / 2 : TR_BLOCK;
}

/* Blocks [b0, b0 + n) of a panel, signed, and their scales. */
INLINE void unpack_panel(enum tr_wtype type, struct values v, const uint8_t *panel, int b0, int n,
                         struct work *w)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    const __m512i bias = _mm512_set1_epi8((char)bias_of(type));
    const int units = TR_BLOCK / unit_of(type); /* of a block */
    for (int i = 0; i < n; i++) {
        const uint8_t *group = panel + (size_t)((b0 + i) / shape.blocks) * tr__group_bytes(type);
        int b = (b0 + i) % shape.blocks;
        __m512i q[QUADS];
        unpack(type, group + (size_t)(b * shape.block_lines) * TR_LINE, v.table, q);
        UNROLL
        for (int j = 0; j < QUADS; j++)
            _mm512_store_si512(w->b + (i * QUADS + j) * TR_LINE, _mm512_sub_epi8(q[j], bias));
        struct scales s = read_scales(type, group + tr__scales_at(type), b, v.unit);
        UNROLL
        for (int h = 0; h < units; h++) {
            _mm512_storeu_ps(w->scale[units * i + h], s.half[h]);
            if (tr__has_min(tr__scales(type)))
                _mm512_storeu_ps(w->min[units * i + h], s.min[h]);
        }
    }
}

/* The scales and, for minima, the sums of blocks [b0, b0 + n) of `rows` rows, transposed: tiles of
 * rows side by side; rows that a tile lacks are zero. */
INLINE void transpose_scales(enum tr_wtype type, const struct tr_rows *x, int rows, int b0, int n,
                             struct work *w)
{
    const bool split = tr__has_halves(tr__scales(type));
    size_t stride = (size_t)tr_rows_stride(x->k) / TR_BLOCK;
    for (int r = 0; r < TR_ROUND_UP(rows, TILE_ROWS); r++) {
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)r * stride + (size_t)(b0 + i);
            w->a_scale[r / TILE_ROWS][i][r % TILE_ROWS] = r < rows ? x->q8_scale[at] : 0.0F;
            if (!tr__has_min(tr__scales(type)))
                continue;
            int32_t halves = r < rows ? x->q8_sum[at] : 0;
            int32_t low = (int16_t)(halves & 0xFFFF);
            float(*sum)[TILE_ROWS] = w->a_sum[r / TILE_ROWS];
            if (split) {
                sum[2 * i][r % TILE_ROWS] = (float)low;
                sum[2 * i + 1][r % TILE_ROWS] = (float)(halves >> 16);
            } else {
                sum[i][r % TILE_ROWS] = (float)(low + (halves >> 16));
            }
        }
    }
}

/* acc[r] moved on by unit u, whose dots are there. */
INLINE void scale_unit(enum tr_wtype type, const struct work *w, int tile, int u,
                       __m512 acc[TILE_ROWS])
{
    int block = u * unit_of(type) / TR_BLOCK;
    __m512 scale = _mm512_loadu_ps(w->scale[u]);
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        __m512 as = _mm512_set1_ps(w->a_scale[tile][block][r]);
        __m512 dot = _mm512_cvtepi32_ps(_mm512_loadu_si512(w->dot[u % 2][r]));
        acc[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(scale, as), acc[r]);
        if (tr__has_min(tr__scales(type)))
            acc[r] = _mm512_fnmadd_ps(_mm512_set1_ps(w->a_sum[tile][u][r]),
                                      _mm512_mul_ps(_mm512_loadu_ps(w->min[u]), as), acc[r]);
    }
}

/* One tile of rows against the unpacked stretch. `first`: y is only written. */
INLINE void int8_tile(enum tr_wtype type, struct work *w, int tile, int rows, int units,
                      const int8_t *a, size_t stride, bool first, float *y, size_t ldy)
{
    const int unit = unit_of(type);
    __m512 acc[TILE_ROWS];
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        acc[r] = first || r >= rows ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * ldy);
    for (int u = 0; u < units; u++) {
        const int8_t *b = w->b + u * unit * TR_PANEL;
        TILE_LOAD(4, a + u * unit, stride);
        TILE_LOAD(5, b, TR_LINE);
        if (u % 2 == 0) {
            TILE_ZERO(0);
            TILE_DP_INT8(0, 4, 5);
            TILE_STORE(0, w->dot[0], TR_LINE);
        } else {
            TILE_ZERO(1);
            TILE_DP_INT8(1, 4, 5);
            TILE_STORE(1, w->dot[1], TR_LINE);
        }
        if (u > 0)
            scale_unit(type, w, tile, u - 1, acc);
    }
    scale_unit(type, w, tile, units - 1, acc);
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        if (r < rows)
            _mm512_storeu_ps(y + r * ldy, acc[r]);
    }
}

/* m rows, at most MOST_ROWS: a multiple of 16, or fewer than 16. */
INLINE void int8_rows(enum tr_wtype type, struct values v, const void *panels, int k, int p0,
                      int p1, const struct tr_rows *x, int m, float *y, size_t ldy)
{
    struct work w;
    size_t stride = (size_t)tr_rows_stride(x->k);
    int rows = TR_MIN(m, TILE_ROWS);
    memset(w.dot, 0, sizeof w.dot); /* rows that the tiles don't have */
    configure(rows, unit_of(type), unit_of(type) / 4);
    for (int k0 = 0; k0 < k; k0 += DEPTH) {
        int n = TR_MIN(DEPTH, k - k0) / TR_BLOCK;
        transpose_scales(type, x, m, k0 / TR_BLOCK, n, &w);
        for (int p = p0; p < p1; p++) {
            const uint8_t *panel = (const uint8_t *)panels + (size_t)p * tr__panel_bytes(type, k);
            unpack_panel(type, v, panel, k0 / TR_BLOCK, n, &w);
            for (int r = 0; r < m; r += TILE_ROWS)
                int8_tile(type, &w, r / TILE_ROWS, rows, n * TR_BLOCK / unit_of(type),
                          x->q8 + (size_t)r * stride + k0, stride, k0 == 0,
                          y + (size_t)r * ldy + (size_t)p * TR_PANEL, ldy);
        }
    }
    TILE_RELEASE();
}

INLINE void gemm(enum tr_wtype type, struct values v, const void *panels, int k, int p0, int p1,
                 const struct tr_rows *x, int m, float *y, size_t ldy)
{
    int r = 0;
    while (m - r >= TILE_ROWS || m - r > FEW_INT8) {
        struct tr_rows at = tr_rows_at(x, r);
        int n = m - r < TILE_ROWS ? m - r : TR_MIN(m - r, MOST_ROWS) / TILE_ROWS * TILE_ROWS;
        int8_rows(type, v, panels, k, p0, p1, &at, n, y + (size_t)r * ldy, ldy);
        r += n;
    }
    if (r < m) {
        struct tr_rows at = tr_rows_at(x, r);
        below[v.type](panels, k, p0, p1, &at, m - r, y + (size_t)r * ldy, ldy);
    }
}

TR__LAYOUTS(TR__LAYOUT_OF)
TR__QUANTS(TR__GEMM_OF)

void tr__add_amx_gemm(struct tr_kernels *k)
{
    memcpy(below, k->gemm, sizeof below);
    k->gemm[TR_W_BF16] = gemm_bf16;
    TR__QUANTS(TR__ADD_GEMM)
}
