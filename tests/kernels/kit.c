#include "tests/kernels/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "engine/kernels/quants.h"

enum { GUARD = 256, PATTERN = 0xA5 };

const struct tr_kernels *kit_generic(void)
{
    tr_fp_enter();
    return tr_kernels_select(TR_ISA_GENERIC);
}

const struct tr_kernels *kit_level(int i)
{
    enum tr_isa isa = (enum tr_isa)(TR_ISA_AVX2 + i);
    if (isa > TR_ISA_AMX)
        return NULL;
    const struct tr_kernels *kn = tr_kernels_select(isa);
    return kn->level == isa ? kn : NULL;
}

/* SEED=NUMBER or SEED=random; printed, so that a failure can be had again. */
static uint64_t seed(void)
{
    const char *text = getenv("SEED");
    uint64_t n = 1;
    if (text && strcmp(text, "random") == 0)
        n = (uint64_t)tr_clock_ns();
    else if (text && *text)
        n = strtoull(text, NULL, 0);
    print_message("SEED=%llu\n", (unsigned long long)n);
    return n;
}

uint32_t kit_random(void)
{
    static uint64_t state;
    static bool seeded;
    if (!seeded) {
        state = (0x853C49E6748FEA9BU ^ seed()) * 6364136223846793005U;
        seeded = true;
    }
    state = state * 6364136223846793005U + 1442695040888963407U;
    uint32_t x = (uint32_t)((state >> 18 ^ state) >> 27);
    unsigned rot = (unsigned)(state >> 59);
    return x >> rot | x << (-rot & 31);
}

int kit_between(int low, int high)
{
    return low + (int)(kit_random() % (uint32_t)(high - low + 1));
}

float kit_uniform(void)
{
    return (float)(int32_t)kit_random() / 2147483648.0F;
}

float kit_hostile(void)
{
    float u = kit_uniform();
    switch (kit_random() % 8) {
    case 0:
        return 0.0F;
    case 1:
        return -0.0F;
    case 2:
        return u * 1e-38F; /* mostly denormal */
    case 3:
        return u * 1e-20F;
    case 4:
        return u * 1e18F;
    case 5:
        return u * 1e30F;
    default:
        return u;
    }
}

struct block {
    size_t bytes;
    size_t offset;
    unsigned char *base;
};

void *kit_alloc(size_t bytes, size_t offset)
{
    size_t total = TR_ROUND_UP(GUARD + offset + bytes + GUARD, 64);
    unsigned char *base = aligned_alloc(64, total);
    assert_non_null(base);
    memset(base, PATTERN, total);
    struct block b = {bytes, offset, base};
    memcpy(base, &b, sizeof b);
    unsigned char *p = base + GUARD + offset;
    memcpy(p - sizeof(size_t), &offset, sizeof offset);
    return p;
}

void kit_free(void *p)
{
    if (!p)
        return;
    size_t offset;
    memcpy(&offset, (unsigned char *)p - sizeof offset, sizeof offset);
    struct block b;
    memcpy(&b, (unsigned char *)p - offset - GUARD, sizeof b);
    for (size_t i = sizeof b; i < GUARD + offset - sizeof offset; i++)
        assert_int_equal(b.base[i], PATTERN);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(((unsigned char *)p)[b.bytes + i], PATTERN);
    free(b.base);
}

void kit_same(const float *a, const float *b, size_t n, const char *what, ...)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i])))
            continue;
        char where[256];
        va_list ap;
        va_start(ap, what);
        vsnprintf(where, sizeof where, what, ap);
        va_end(ap);
        fail_msg("%s: element %zu: %a is not %a", where, i, (double)a[i], (double)b[i]);
    }
}

static float half_of(const uint8_t *p)
{
    /* fp16 by its definition, not by the code under test */
    int bits = p[0] | p[1] << 8;
    int e = bits >> 10 & 31;
    float m = (float)(bits & 1023) / 1024.0F;
    float v = e == 31 ? (m != 0.0F ? NAN : INFINITY)
                      : ldexpf(e == 0 ? m : 1.0F + m, (e == 0 ? 1 : e) - 15);
    return bits & 0x8000 ? -v : v;
}

static void put_half(uint8_t *p, float v)
{
    /* a positive normal number, cut off */
    int e;
    float m = frexpf(v, &e);
    int bits = (e + 14) << 10 | ((int)(m * 2048.0F) & 1023);
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* Where a block has its scale, and what is added or subtracted; -1: not there. */
static void scale_places(enum tr_wtype type, int *ret_d, int *ret_m)
{
    *ret_d = 0;
    *ret_m = -1;
    switch (type) {
    case TR_W_Q4_1:
    case TR_W_Q5_1:
    case TR_W_Q4_K:
    case TR_W_Q5_K:
        *ret_m = 2;
        break;
    case TR_W_Q2_K:
        *ret_d = 80;
        *ret_m = 82;
        break;
    case TR_W_Q6_K:
        *ret_d = 208;
        break;
    case TR_W_Q3_K:
        *ret_d = 108;
        break;
    case TR_W_TQ1_0:
        *ret_d = 52;
        break;
    case TR_W_TQ2_0:
        *ret_d = 64;
        break;
    case TR_W_MXFP4:
    case TR_W_NVFP4:
    case TR_W_IQ1_M:
        *ret_d = -1;
        break;
    default:
        break;
    }
}

void kit_sound_scales(enum tr_wtype type, uint8_t *block, float size)
{
    int d;
    int m;
    float v = size * (1.2F + kit_uniform()) * 0.2F;
    uint8_t half[2];
    scale_places(type, &d, &m);
    put_half(half, v);
    if (d >= 0)
        memcpy(block + d, half, 2);
    if (m >= 0)
        put_half(block + m, v * 0.7F);
    if (type == TR_W_MXFP4)
        block[0] = (uint8_t)kit_between(112, 124);
    for (int i = 0; i < 4 && type == TR_W_NVFP4; i++)
        block[i] = (uint8_t)kit_between(0, 48);
    for (int i = 0; i < 4 && type == TR_W_IQ1_M; i++) {
        int nibble = half[i / 2] >> 4 * (i % 2) & 15;
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | nibble << 4);
    }
}

/* Random bytes are sound weights but for the scales, and bf16 and fp16 numbers. */
static void fill_row(enum tr_wtype type, uint8_t *row, int k)
{
    float d = 0.1F / sqrtf((float)k);
    size_t bytes = tr_file_row_bytes(type, k);
    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)kit_random();
    for (int i = 0; i < k; i++) {
        float v = kit_uniform() * d;
        if (type == TR_W_F32) {
            memcpy(row + 4 * i, &v, 4);
        } else if (type == TR_W_BF16) {
            memcpy(row + 2 * i, (uint8_t *)&v + 2, 2);
        } else if (type == TR_W_F16) {
            put_half(row + 2 * i, fabsf(v) + 1e-4F);
            row[2 * i + 1] |= (uint8_t)(v < 0 ? 0x80 : 0);
        }
    }
    size_t block = tr__file_block_bytes(type);
    for (size_t at = 0; at < bytes && type >= TR_W_Q8_0; at += block)
        kit_sound_scales(type, row + at, d);
}

void kit_matrix_init(struct kit_matrix *w, enum tr_wtype type, int n, int k)
{
    size_t row = tr_file_row_bytes(type, k);
    assert_true(row > 0);
    *w = (struct kit_matrix){.m = {.type = type, .n = n, .k = k}};
    w->file = kit_alloc(row * n, 1); /* files are mapped at any address */
    for (int i = 0; i < n; i++)
        fill_row(type, w->file + i * row, k);
    w->packed = kit_alloc(tr_packed_bytes(type, n, k), 0);
    w->m.data = w->packed;
    kit_matrix_repack(w);
}

void kit_matrix_repack(struct kit_matrix *w)
{
    tr_pack_rows(w->m.type, w->file, 0, w->m.n, w->m.n, w->m.k, w->packed);
}

void kit_matrix_done(struct kit_matrix *w)
{
    kit_free(w->file);
    kit_free(w->packed);
}

/* Six-bit scale (min: minimum) number s of the twelve bytes of Q4_K and Q5_K. */
static int k_scale(const uint8_t *q, int s, bool min)
{
    if (s < 4)
        return q[s + (min ? 4 : 0)] & 63;
    int low = min ? q[s + 4] >> 4 : q[s + 4] & 15;
    return low + 16 * (q[min ? s : s - 4] >> 6);
}

static double k_weight(enum tr_wtype type, const uint8_t *b, int i)
{
    if (type == TR_W_Q6_K) {
        int h = i / 128;
        int run = i % 128 / 32;
        int l = i % 32;
        int low = b[64 * h + 32 * (run % 2) + l] >> (run < 2 ? 0 : 4) & 15;
        int high = b[128 + 32 * h + l] >> (2 * run) & 3;
        return (double)half_of(b + 208) * (int8_t)b[192 + i / 16] * (low + 16 * high - 32);
    }
    int s = i / 32;
    bool five = type == TR_W_Q5_K;
    int q = b[(five ? 48 : 16) + 32 * (s / 2) + i % 32] >> (s % 2 ? 4 : 0) & 15;
    if (five)
        q += 16 * (b[16 + i % 32] >> s & 1);
    return (double)half_of(b) * k_scale(b + 4, s, false) * q -
           (double)half_of(b + 2) * k_scale(b + 4, s, true);
}

static float decoded(enum tr_wtype type, const uint8_t *row, int k, int i)
{
    float y[4096];
    assert_in_range(k, 1, TR_ARRAY_LEN(y));
    tr_dequantize_row(type, row, k, y);
    return y[i];
}

double kit_weight(const struct kit_matrix *w, int row, int i)
{
    const uint8_t *p = w->file + (size_t)row * tr_file_row_bytes(w->m.type, w->m.k);
    float f = 0;
    switch (w->m.type) {
    case TR_W_F32:
        memcpy(&f, p + 4 * i, 4);
        return (double)f;
    case TR_W_F16:
        return (double)half_of(p + 2 * i);
    case TR_W_BF16:
        memcpy((uint8_t *)&f + 2, p + 2 * i, 2);
        return (double)f;
    case TR_W_Q8_0:
        p += i / 32 * 34;
        return (double)half_of(p) * (int8_t)p[2 + i % 32];
    case TR_W_Q4_0:
        p += i / 32 * 18;
        return (double)half_of(p) * ((p[2 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15) - 8);
    case TR_W_Q4_K:
        return k_weight(w->m.type, p + i / 256 * 144, i % 256);
    case TR_W_Q5_K:
        return k_weight(w->m.type, p + i / 256 * 176, i % 256);
    case TR_W_Q6_K:
        return k_weight(w->m.type, p + i / 256 * 210, i % 256);
    default: /* their decoder is held against the gguf package's: tests/checkpoint/test_blocks.py */
        return (double)decoded(w->m.type, p, w->m.k, i);
    }
}

void kit_rows_init(struct tr_rows *x, const struct tr_kernels *kn, int m, int k,
                   float (*value)(void))
{
    size_t n = (size_t)m * (size_t)tr_rows_stride(k);
    *x = (struct tr_rows){
        .k = k,
        .f32 = kit_alloc(n * sizeof(float), 0),
        .bf16 = kit_alloc(n * sizeof(uint16_t), 0),
        .q8 = kit_alloc(n, 0),
        .q8_scale = kit_alloc(n / 32 * sizeof(float), 0),
        .q8_sum = kit_alloc(n / 32 * sizeof(int32_t), 0),
    };
    for (int r = 0; r < m; r++) {
        for (int i = 0; i < k; i++)
            x->f32[(size_t)r * tr_rows_stride(k) + i] = value();
        tr_rows_prepare(kn, x, r, TR_FORM_F32 | TR_FORM_BF16 | TR_FORM_Q8);
    }
}

void kit_rows_done(struct tr_rows *x)
{
    kit_free(x->f32);
    kit_free(x->bf16);
    kit_free(x->q8);
    kit_free(x->q8_scale);
    kit_free(x->q8_sum);
}
