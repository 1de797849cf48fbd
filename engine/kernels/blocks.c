/* Taking the blocks of files apart; their layouts are told in quants.h. */
#include <string.h>

#include "engine/kernels/quants.h"

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* ---- blocks of 32 ---- */

/* 16 bytes: elements i and i + 16. */
static void read_nibbles(const uint8_t *qs, struct tr_file_block *ret)
{
    for (int i = 0; i < 16; i++) {
        ret->q[i] = qs[i] & 15;
        ret->q[i + 16] = qs[i] >> 4;
    }
}

static void read_fifth_bits(const uint8_t *qh, struct tr_file_block *ret)
{
    for (int i = 0; i < 32; i++)
        ret->q[i] |= (uint8_t)((qh[i / 8] >> i % 8 & 1) << 4);
}

static void read_q8_0(const uint8_t *b, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    for (int i = 0; i < 32; i++)
        ret->q[i] = b[2 + i] ^ 0x80;
}

static void read_q5(bool has_min, const uint8_t *b, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    if (has_min)
        ret->dmin = read_u16(b + 2);
    b += has_min ? 4 : 2;
    read_nibbles(b + 4, ret);
    read_fifth_bits(b, ret);
}

static void read_q4_1(const uint8_t *b, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    ret->dmin = read_u16(b + 2);
    read_nibbles(b + 4, ret);
}

/* Exponents 0 and 1 make numbers that no compute thread distinguishes from 0. */
static void read_mxfp4(const uint8_t *b, struct tr_file_block *ret)
{
    ret->sc[0] = ret->sc[1] = b[0];
    read_nibbles(b + 1, ret);
}

/* Run s = 0, 1 of 64. 0x7F, which is no number, is 0; the sign is not looked at. */
static void read_nvfp4(const uint8_t *b, int s, struct tr_file_block *ret)
{
    for (int h = 0; h < 2; h++) {
        const uint8_t *qs = b + 4 + 8 * (2 * s + h);
        uint8_t scale = b[2 * s + h];
        ret->sc[h] = scale == 0x7F ? 0 : scale & 0x7F;
        for (int i = 0; i < 8; i++) {
            ret->q[16 * h + i] = qs[i] & 15;
            ret->q[16 * h + i + 8] = qs[i] >> 4;
        }
    }
}

/* Run s of 128: a bit is a code of 0 or 2. */
static void read_q1_0(const uint8_t *b, int s, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    for (int i = 0; i < 32; i++)
        ret->q[i] = (uint8_t)((b[2 + 4 * s + i / 8] >> i % 8 & 1) << 1);
}

/* Run s of 64. */
static void read_q2_0(const uint8_t *b, int s, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    for (int i = 0; i < 32; i++)
        ret->q[i] = b[2 + 8 * s + i / 4] >> 2 * (i % 4) & 3;
}

/* ---- blocks of 256, run s = 0..7 of 32 ---- */

/* Sub-block s of Q4_K and Q5_K: the first four scales and minima fill six bits of a byte each; the
 * last four have their low nibbles in bytes 8..11 and their two high bits on top of the first. */
static void read_k_scale(const uint8_t *scales, int s, struct tr_file_block *ret)
{
    int sc;
    int mn;
    if (s < 4) {
        sc = scales[s] & 63;
        mn = scales[s + 4] & 63;
    } else {
        sc = (scales[s + 4] & 15) | (scales[s - 4] >> 6) << 4;
        mn = scales[s + 4] >> 4 | (scales[s] >> 6) << 4;
    }
    ret->sc[0] = ret->sc[1] = (uint8_t)sc;
    ret->mn[0] = ret->mn[1] = (uint8_t)mn;
}

static void read_q4_q5_k(enum tr_wtype type, const uint8_t *b, int s, struct tr_file_block *ret)
{
    ret->d = read_u16(b);
    ret->dmin = read_u16(b + 2);
    read_k_scale(b + 4, s, ret);
    const uint8_t *high = b + 16; /* Q5_K */
    const uint8_t *low = b + 16 + (type == TR_W_Q5_K ? 32 : 0) + 32 * (s / 2);
    int shift = 4 * (s % 2);
    for (int i = 0; i < 32; i++)
        ret->q[i] = low[i] >> shift & 15;
    for (int i = 0; i < 32 && type == TR_W_Q5_K; i++)
        ret->q[i] |= (uint8_t)((high[i] >> s & 1) << 4);
}

static void read_q6_k(const uint8_t *b, int s, struct tr_file_block *ret)
{
    const uint8_t *low = b + 64 * (s / 4) + 32 * (s % 2);
    const uint8_t *high = b + 128 + 32 * (s / 4);
    int low_shift = s % 4 < 2 ? 0 : 4;
    int high_shift = 2 * (s % 4);
    for (int i = 0; i < 32; i++)
        ret->q[i] = (uint8_t)((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4);
    memcpy(ret->sc, b + 192 + 2 * s, 2);
    ret->d = read_u16(b + 208);
}

/* Two bits an element: bits 2s, 2s+1 of the 32 bytes of its half of the 256. */
static void read_pairs(const uint8_t *qs, int s, struct tr_file_block *ret)
{
    for (int i = 0; i < 32; i++)
        ret->q[i] = qs[32 * (s / 4) + i] >> 2 * (s % 4) & 3;
}

static void read_q2_k(const uint8_t *b, int s, struct tr_file_block *ret)
{
    for (int h = 0; h < 2; h++) {
        ret->sc[h] = b[2 * s + h] & 15;
        ret->mn[h] = b[2 * s + h] >> 4;
    }
    read_pairs(b + 16, s, ret);
    ret->d = read_u16(b + 80);
    ret->dmin = read_u16(b + 82);
}

/* Scale j of 16: its low nibble is that of byte j, or the high one of byte j - 8; its two high bits
 * are bits 2 (j / 4) of byte 8 + j % 4. */
static void read_q3_k(const uint8_t *b, int s, struct tr_file_block *ret)
{
    const uint8_t *scales = b + 96;
    for (int h = 0; h < 2; h++) {
        int j = 2 * s + h;
        int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
        int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
        ret->sc[h] = (uint8_t)((low | high << 4) - 32);
    }
    read_pairs(b + 32, s, ret);
    for (int i = 0; i < 32; i++)
        ret->q[i] |= (uint8_t)((b[i] >> s & 1) << 2);
    ret->d = read_u16(b + 108);
}

static void read_iq4_xs(const uint8_t *b, int s, struct tr_file_block *ret)
{
    int low = b[4 + s / 2] >> 4 * (s % 2) & 15;
    int high = read_u16(b + 2) >> 2 * s & 3;
    ret->d = read_u16(b);
    ret->sc[0] = ret->sc[1] = (uint8_t)((low | high << 4) - 32);
    read_nibbles(b + 8 + 16 * s, ret);
}

/* Trit j of byte q: the byte is the fraction q / 256 in base 3. The elements are trit 0 of the
 * first 32 bytes, trit 1 of these, .. trit 4; then likewise the five of the next 16 bytes and the
 * four of the last 4. */
static void read_tq1_0(const uint8_t *b, int s, struct tr_file_block *ret)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    for (int i = 0; i < 32; i++) {
        int at = 32 * s + i;
        int wide = at < 160 ? 32 : at < 240 ? 16 : 4;
        int base = at < 160 ? 0 : at < 240 ? 32 : 48; /* of the bytes */
        int in = at - (at < 160 ? 0 : at < 240 ? 160 : 240);
        uint8_t q = (uint8_t)(b[base + in % wide] * powers[in / wide]);
        ret->q[i] = (uint8_t)(q * 3 >> 8);
    }
    ret->d = read_u16(b + 52);
}

void tr__file_block_read(enum tr_wtype type, const uint8_t *row, int index,
                         struct tr_file_block *ret)
{
    int per = tr__file_block_len(type) / 32;
    const uint8_t *b = row + (size_t)(index / per) * (size_t)tr__file_block_bytes(type);
    int s = index % per;
    *ret = (struct tr_file_block){0};
    switch (type) {
    case TR_W_Q8_0:
        read_q8_0(b, ret);
        break;
    case TR_W_Q4_0:
    case TR_W_IQ4_NL:
        ret->d = read_u16(b);
        read_nibbles(b + 2, ret);
        break;
    case TR_W_Q4_1:
        read_q4_1(b, ret);
        break;
    case TR_W_Q5_0:
    case TR_W_Q5_1:
        read_q5(type == TR_W_Q5_1, b, ret);
        break;
    case TR_W_MXFP4:
        read_mxfp4(b, ret);
        break;
    case TR_W_NVFP4:
        read_nvfp4(b, s, ret);
        break;
    case TR_W_Q1_0:
        read_q1_0(b, s, ret);
        break;
    case TR_W_Q2_0:
        read_q2_0(b, s, ret);
        break;
    case TR_W_Q4_K:
    case TR_W_Q5_K:
        read_q4_q5_k(type, b, s, ret);
        break;
    case TR_W_Q6_K:
        read_q6_k(b, s, ret);
        break;
    case TR_W_Q2_K:
        read_q2_k(b, s, ret);
        break;
    case TR_W_Q3_K:
        read_q3_k(b, s, ret);
        break;
    case TR_W_IQ4_XS:
        read_iq4_xs(b, s, ret);
        break;
    case TR_W_TQ1_0:
        read_tq1_0(b, s, ret);
        break;
    case TR_W_TQ2_0:
        read_pairs(b, s, ret);
        ret->d = read_u16(b + 64);
        break;
    default:
        tr__iq_block_read(type, b, s, ret);
        break;
    }
}
