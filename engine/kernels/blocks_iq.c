/*
 * The blocks of 256 whose values come from grids: groups of eight (IQ1, IQ2) or four (IQ3) values
 * that are stored as one number. d is fp16; ls is the scale of a run of 32 or of 16; all words are
 * little-endian.
 *
 *   IQ2_XXS d, 8 x {u8 g[4], u32 s}      w = d/8 (2 ls + 1) +-v, v one of 8, 25, 43. Four sign
 *                                        indices of 7 bits in s from bit 0, ls in its top 4
 *   IQ2_XS  d, u16 g[32], u8 scales[8]   the same: 9 bits of g are the grid index, 7 the sign
 *                                        index; ls: nibbles, one every 16
 *   IQ2_S   d, u8 g[32], u8 signs[32],   the same: two more bits of the index in qh; a byte of
 *           u8 qh[8], u8 scales[8]       signs for eight values
 *   IQ3_XXS d, u8 g[64], u32 s[8]        w = d/4 (2 ls + 1) +-v, v one of 4, 12, .. 62; s as above
 *   IQ3_S   d, u8 g[64], u8 qh[8],       w = d (2 ls + 1) +-v, v one of 1, 3, .. 15; one more bit
 *           u8 signs[32], u8 scales[4]   of the index in qh; ls: nibbles, one every 32
 *   IQ1_S   d, u8 g[32], u16 qh[8]       w = d/8 (2 ls + 1) (8 v +- 1), v one of -1, 0, 1. qh: four
 *                                        times three bits of the index, ls in bits 12..14, bit 15
 *                                        set for -
 *   IQ1_M   u8 g[32], u8 qh[16],         the same: a nibble of qh is three bits of the index and
 *           u16 scales[4]                the sign; ls: four times three bits of each word, one
 *                                        every 16; the words' top nibbles are d, the first lowest
 *
 * A sign index is seven signs; the eighth makes their number even. Code and sign become one code:
 * bit 2 (IQ1, IQ2) or bit 3 (IQ3) is the sign.
 */
#include "engine/kernels/iq_grids.h"
#include "engine/kernels/quants.h"

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t read_u32(const uint8_t *p)
{
    return read_u16(p) | (uint32_t)read_u16(p + 2) << 16;
}

static unsigned signs_of(unsigned index)
{
    return (index & 127) | (unsigned)__builtin_parity(index & 127) << 7;
}

/* Eight codes of two bits, with their signs. */
static void put_eight(uint16_t grid, unsigned signs, uint8_t q[8])
{
    for (int i = 0; i < 8; i++)
        q[i] = (uint8_t)((grid >> 2 * i & 3) | (signs >> i & 1) << 2);
}

/* Four codes of three bits. */
static void put_four(uint16_t grid, unsigned signs, uint8_t q[4])
{
    for (int i = 0; i < 4; i++)
        q[i] = (uint8_t)((grid >> 4 * i & 7) | (signs >> i & 1) << 3);
}

static uint8_t odd(unsigned ls)
{
    return (uint8_t)(2 * ls + 1);
}

static void read_iq2_xxs(const uint8_t *b, int s, struct tr_file_block *ret)
{
    const uint8_t *g = b + 2 + 8 * s;
    uint32_t word = read_u32(g + 4);
    ret->sc[0] = ret->sc[1] = odd(word >> 28);
    for (int i = 0; i < 4; i++)
        put_eight(iq2_xxs_grid[g[i]], signs_of(word >> 7 * i), ret->q + 8 * i);
}

/* The nibbles of byte s are the scales of its run's halves. */
static void read_scale_pair(const uint8_t *scales, int s, struct tr_file_block *ret)
{
    ret->sc[0] = odd(scales[s] & 15);
    ret->sc[1] = odd(scales[s] >> 4);
}

static void read_iq2_xs(const uint8_t *b, int s, struct tr_file_block *ret)
{
    read_scale_pair(b + 66, s, ret);
    for (int i = 0; i < 4; i++) {
        unsigned g = read_u16(b + 2 + 2 * (4 * s + i));
        put_eight(iq2_xs_grid[g & 511], signs_of(g >> 9), ret->q + 8 * i);
    }
}

static void read_iq2_s(const uint8_t *b, int s, struct tr_file_block *ret)
{
    read_scale_pair(b + 74, s, ret);
    for (int i = 0; i < 4; i++) {
        unsigned g = b[2 + 4 * s + i] | (unsigned)(b[66 + s] >> 2 * i & 3) << 8;
        put_eight(iq2_s_grid[g], b[34 + 4 * s + i], ret->q + 8 * i);
    }
}

static void read_iq3_xxs(const uint8_t *b, int s, struct tr_file_block *ret)
{
    uint32_t word = read_u32(b + 66 + 4 * s);
    ret->sc[0] = ret->sc[1] = odd(word >> 28);
    for (int i = 0; i < 8; i++) {
        unsigned signs = signs_of(word >> 7 * (i / 2)) >> 4 * (i % 2);
        put_four(iq3_xxs_grid[b[2 + 8 * s + i]], signs, ret->q + 4 * i);
    }
}

static void read_iq3_s(const uint8_t *b, int s, struct tr_file_block *ret)
{
    ret->sc[0] = ret->sc[1] = odd(b[106 + s / 2] >> 4 * (s % 2) & 15);
    for (int i = 0; i < 8; i++) {
        unsigned g = b[2 + 8 * s + i] | (unsigned)(b[66 + s] >> i & 1) << 8;
        unsigned signs = (unsigned)b[74 + 4 * s + i / 2] >> 4 * (i % 2);
        put_four(iq3_s_grid[g], signs, ret->q + 4 * i);
    }
}

static void read_iq1_s(const uint8_t *b, int s, struct tr_file_block *ret)
{
    unsigned high = read_u16(b + 34 + 2 * s);
    ret->sc[0] = ret->sc[1] = odd(high >> 12 & 7);
    for (int i = 0; i < 4; i++) {
        unsigned g = b[2 + 4 * s + i] | (high >> 3 * i & 7) << 8;
        put_eight(iq1_grid[g], high & 0x8000 ? 255 : 0, ret->q + 8 * i);
    }
}

static void read_iq1_m(const uint8_t *b, int s, struct tr_file_block *ret)
{
    const uint8_t *scales = b + 48;
    unsigned word = read_u16(scales + 2 * (s / 2)) >> 6 * (s % 2);
    for (int i = 0; i < 4; i++)
        ret->d |= (uint16_t)(read_u16(scales + 2 * i) >> 12 << 4 * i);
    ret->sc[0] = odd(word & 7);
    ret->sc[1] = odd(word >> 3 & 7);
    for (int i = 0; i < 4; i++) {
        unsigned high = (unsigned)b[32 + 2 * s + i / 2] >> 4 * (i % 2);
        put_eight(iq1_grid[b[4 * s + i] | (high & 7) << 8], high & 8 ? 255 : 0, ret->q + 8 * i);
    }
}

void tr__iq_block_read(enum tr_wtype type, const uint8_t *b, int s, struct tr_file_block *ret)
{
    if (type != TR_W_IQ1_M)
        ret->d = read_u16(b);
    switch (type) {
    case TR_W_IQ2_XXS:
        read_iq2_xxs(b, s, ret);
        break;
    case TR_W_IQ2_XS:
        read_iq2_xs(b, s, ret);
        break;
    case TR_W_IQ2_S:
        read_iq2_s(b, s, ret);
        break;
    case TR_W_IQ3_XXS:
        read_iq3_xxs(b, s, ret);
        break;
    case TR_W_IQ3_S:
        read_iq3_s(b, s, ret);
        break;
    case TR_W_IQ1_S:
        read_iq1_s(b, s, ret);
        break;
    default: /* TR_W_IQ1_M */
        read_iq1_m(b, s, ret);
        break;
    }
}
