/* Packing rows of a file's matrix into P16 panels (panel.h), one panel at a time. */
#include <limits.h>
#include <string.h>

#include "engine/kernels/kernels.h"
#include "engine/kernels/panel.h"
#include "engine/kernels/quants.h"

size_t tr_packed_bytes(enum tr_wtype type, int n, int k)
{
    size_t row = tr_file_row_bytes(type, k);
    if (n <= 0 || row == 0)
        return 0;
    size_t panels = ((size_t)n + TR_PANEL - 1) / TR_PANEL;
    size_t total;
    if (type == TR_W_F32)
        return __builtin_mul_overflow((size_t)n, row, &total) ? 0 : total;
    return __builtin_mul_overflow(panels, tr__panel_bytes(type, k), &total) ? 0 : total;
}

/* Sixteen rows of 2-byte elements; rows [n, 16) are zero. */
static void pack_f16(const uint8_t *src, int n, int k, uint8_t *panel)
{
    memset(panel, 0, tr__panel_bytes(TR_W_F16, k));
    for (int j = 0; j < n; j++) {
        const uint8_t *row = src + (size_t)j * k * 2;
        for (int i = 0; i < k; i++)
            memcpy(panel + ((size_t)i * TR_PANEL + j) * 2, row + (size_t)i * 2, 2);
    }
}

static void pack_bf16(const uint8_t *src, int n, int k, uint8_t *panel)
{
    memset(panel, 0, tr__panel_bytes(TR_W_BF16, k));
    for (int j = 0; j < n; j++) {
        const uint8_t *row = src + (size_t)j * k * 2;
        for (int i = 0; i < k; i += 2)
            memcpy(panel + ((size_t)i / 2 * TR_PANEL + j) * 4, row + (size_t)i * 2,
                   i + 1 < k ? 4 : 2);
    }
}

/* Nibbles of quads i and i + 4, and the bits above them. */
static void place_nibbles(const uint8_t q[32], bool fifth, bool sixth, uint8_t *col)
{
    for (int i = 0; i < 4; i++) {
        uint32_t low;
        uint32_t high;
        memcpy(&low, q + 4 * i, 4);
        memcpy(&high, q + 4 * i + 16, 4);
        uint32_t both = (low & 0x0F0F0F0FU) | (high & 0x0F0F0F0FU) << 4;
        memcpy(col + i * TR_LINE, &both, 4);
    }
    uint32_t upper[2] = {0, 0}; /* bits 4 and 5 */
    for (int quad = 0; quad < 8; quad++) {
        uint32_t word;
        memcpy(&word, q + 4 * quad, 4);
        word = word >> 4 & 0x03030303U;
        if (fifth)
            upper[0] |= word << quad;
        else
            upper[quad / 4] |= word << 2 * (quad % 4);
    }
    for (int i = 0; i < fifth + 2 * sixth; i++)
        memcpy(col + (4 + i) * TR_LINE, &upper[i], 4);
}

/* Two bits of every quad, and the third. */
static void place_pairs(const uint8_t q[32], bool third, uint8_t *col)
{
    uint32_t words[3] = {0, 0, 0};
    for (int quad = 0; quad < 8; quad++) {
        uint32_t word;
        memcpy(&word, q + 4 * quad, 4);
        words[quad / 4] |= (word & 0x03030303U) << 2 * (quad % 4);
        words[2] |= (word >> 2 & 0x01010101U) << quad;
    }
    for (int i = 0; i < 2 + third; i++)
        memcpy(col + i * TR_LINE, &words[i], 4);
}

/* Puts column j of a block in place. */
static void place_quants(enum tr_wtype type, const uint8_t q[32], int j, uint8_t *block)
{
    uint8_t *col = block + 4 * j;
    switch (tr__codes(type)) {
    case TR_CODES_8:
        for (int i = 0; i < 8; i++)
            memcpy(col + i * TR_LINE, q + 4 * i, 4);
        break;
    case TR_CODES_4:
        place_nibbles(q, false, false, col);
        break;
    case TR_CODES_5:
        place_nibbles(q, true, false, col);
        break;
    case TR_CODES_6:
        place_nibbles(q, false, true, col);
        break;
    case TR_CODES_3:
        place_pairs(q, true, col);
        break;
    case TR_CODES_2:
        place_pairs(q, false, col);
        break;
    }
}

/* The factor of a matrix of NVFP4. A power of two apart: the kernels read the scales as fp16. */
static void place_factor(float factor, int j, uint8_t *scales)
{
    factor *= 128.0F;
    memcpy(scales + TR_E4M3_FACTOR + 4 * j, &factor, 4);
}

/* Puts column j of the scales of block b of a group in place. */
static void place_scales(enum tr_wtype type, const struct tr_file_block *f, int b, int j,
                         uint8_t *scales)
{
    uint8_t *halves = scales + 2 * b * TR_PANEL + j; /* of 16 k */
    switch (tr__scales(type)) {
    case TR_SCALES_F16_MIN:
        memcpy(scales + TR_F16_MINS + 2 * (b * TR_PANEL + j), &f->dmin, 2);
        memcpy(scales + 2 * (b * TR_PANEL + j), &f->d, 2);
        break;
    case TR_SCALES_F16:
        memcpy(scales + 2 * (b * TR_PANEL + j), &f->d, 2);
        break;
    case TR_SCALES_K:
        scales[b * TR_PANEL + j] = f->sc[0];
        scales[TR_K_MINS + b * TR_PANEL + j] = f->mn[0];
        memcpy(scales + TR_K_D + 2 * j, &f->d, 2);
        memcpy(scales + TR_K_DMIN + 2 * j, &f->dmin, 2);
        break;
    case TR_SCALES_K_HALF:
        halves[0] = (uint8_t)(f->sc[0] | f->mn[0] << 4);
        halves[TR_PANEL] = (uint8_t)(f->sc[1] | f->mn[1] << 4);
        memcpy(scales + TR_K_D + 2 * j, &f->d, 2);
        memcpy(scales + TR_K_DMIN + 2 * j, &f->dmin, 2);
        break;
    case TR_SCALES_S32:
        scales[b * TR_PANEL + j] = f->sc[0];
        memcpy(scales + TR_S32_D + 2 * j, &f->d, 2);
        break;
    case TR_SCALES_S16:
        halves[0] = f->sc[0];
        halves[TR_PANEL] = f->sc[1];
        memcpy(scales + TR_K_D + 2 * j, &f->d, 2);
        break;
    case TR_SCALES_E8:
        scales[b * TR_PANEL + j] = (uint8_t)(TR_MAX(f->sc[0], 1) - 1);
        break;
    case TR_SCALES_E4M3:
        halves[0] = f->sc[0];
        halves[TR_PANEL] = f->sc[1];
        place_factor(1.0F, j, scales);
        break;
    }
}

/* Q8_0, Q4_0 and IQ4_NL need no taking apart: the words of a file block are those of a panel's
 * lines, those of Q8_0 with the sign bits turned. */
static inline __attribute__((always_inline)) void pack_plain(enum tr_wtype type, const uint8_t *src,
                                                             int n, int k, uint8_t *panel)
{
    enum { BLOCKS = 2 };
    const int words = tr__panel_shape(type).block_lines;
    const uint32_t flip = type == TR_W_Q8_0 ? 0x80808080U : 0U;
    const size_t block_bytes = 2 + 4 * (size_t)words;
    const size_t row_bytes = (size_t)(k / TR_BLOCK) * block_bytes;
    for (int b = 0; b < k / TR_BLOCK; b++) {
        uint8_t *group = panel + (size_t)(b / BLOCKS) * tr__group_bytes(type);
        if (b % BLOCKS == 0 && (n < TR_PANEL || b + BLOCKS > k / TR_BLOCK))
            memset(group, 0, tr__group_bytes(type));
        uint8_t *block = group + (size_t)(b % BLOCKS * words) * TR_LINE;
        uint8_t *scales = group + tr__scales_at(type) + (size_t)(b % BLOCKS) * TR_PANEL * 2;
        for (int j = 0; j < n; j++) {
            const uint8_t *from = src + j * row_bytes + b * block_bytes;
            memcpy(scales + 2 * j, from, 2);
            for (int i = 0; i < words; i++) {
                uint32_t word;
                memcpy(&word, from + 2 + 4 * i, 4);
                word ^= flip;
                memcpy(block + i * TR_LINE + 4 * j, &word, 4);
            }
        }
    }
}

static void pack_blocks(enum tr_wtype type, const uint8_t *src, int n, int k, uint8_t *panel)
{
    struct tr_panel_shape shape = tr__panel_shape(type);
    size_t row_bytes = tr_file_row_bytes(type, k);
    for (int b = 0; b < k / TR_BLOCK; b++) {
        uint8_t *group = panel + (size_t)(b / shape.blocks) * tr__group_bytes(type);
        int in_group = b % shape.blocks;
        if (in_group == 0)
            memset(group, 0, tr__group_bytes(type));
        uint8_t *block = group + (size_t)in_group * shape.block_lines * TR_LINE;
        uint8_t *scales = group + tr__scales_at(type);
        for (int j = 0; j < n; j++) {
            struct tr_file_block f;
            tr__file_block_read(type, src + j * row_bytes, b, &f);
            place_quants(type, f.q, j, block);
            place_scales(type, &f, in_group, j, scales);
        }
    }
}

static void pack_panel(enum tr_wtype type, const uint8_t *src, int n, int k, uint8_t *panel)
{
    switch (type) {
    case TR_W_F16:
        pack_f16(src, n, k, panel);
        break;
    case TR_W_BF16:
        pack_bf16(src, n, k, panel);
        break;
    case TR_W_Q8_0:
        pack_plain(TR_W_Q8_0, src, n, k, panel);
        break;
    case TR_W_Q4_0:
    case TR_W_IQ4_NL:
        pack_plain(TR_W_Q4_0, src, n, k, panel);
        break;
    default:
        pack_blocks(type, src, n, k, panel);
        break;
    }
}

void tr_pack_rows(enum tr_wtype type, const void *src, int row0, int rows, int n, int k,
                  void *packed)
{
    const uint8_t *from = src;
    size_t row_bytes = tr_file_row_bytes(type, k);
    if (type == TR_W_F32) {
        memcpy((uint8_t *)packed + (size_t)row0 * row_bytes, from, (size_t)rows * row_bytes);
        return;
    }
    size_t panel_bytes = tr__panel_bytes(type, k);
    for (int r = 0; r < rows; r += TR_PANEL) {
        uint8_t *panel = (uint8_t *)packed + (size_t)((row0 + r) / TR_PANEL) * panel_bytes;
        int here = TR_MIN(TR_PANEL, TR_MIN(rows - r, n - row0 - r));
        pack_panel(type, from + (size_t)r * row_bytes, here, k, panel);
    }
}

void tr_pack_factor(float factor, int row0, int rows, int k, void *packed)
{
    for (int r = row0; r < row0 + rows; r++) {
        uint8_t *panel =
            (uint8_t *)packed + (size_t)(r / TR_PANEL) * tr__panel_bytes(TR_W_NVFP4, k);
        for (int b = 0; b < k / TR_BLOCK; b += tr__panel_shape(TR_W_NVFP4).blocks)
            place_factor(factor, r % TR_PANEL,
                         panel +
                             (size_t)(b / tr__panel_shape(TR_W_NVFP4).blocks) *
                                 tr__group_bytes(TR_W_NVFP4) +
                             tr__scales_at(TR_W_NVFP4));
    }
}
