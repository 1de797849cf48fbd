/* Quantised matrices, row by row; see quant_rows.h. */
#include "engine/checkpoint/quant_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/quant_internal.h"
#include "engine/kernels/math.h"

enum { SLACK = 8 }; /* bytes that may be read behind a window */

void tr__quant_rows_done(struct tr_quant_rows *r)
{
    free(r->codes.data);
    free(r->scales.data);
    free(r->zeros.data);
    free(r->biases.data);
    free(r->index.data);
    free(r->value);
    free(r->scale);
    free(r->bias);
    *r = (struct tr_quant_rows){0};
}

/* E4M3 in units of 2^-9; INT32_MIN for NaN. */
static int32_t e4m3(uint8_t u)
{
    int e = u >> 3 & 15, m = u & 7;
    if ((u & 0x7F) == 0x7F)
        return INT32_MIN;
    int32_t x = e == 0 ? m : (8 + m) << (e - 1);
    return u & 0x80 ? -x : x;
}

/* ---- reading ---- */

static int reserve(struct tr_quant_rows *r, struct tr_err *err)
{
    size_t k = (size_t)r->q->k;
    if (k <= r->cap_k)
        return 0;
    free(r->value);
    free(r->scale);
    free(r->bias);
    r->value = malloc(k * sizeof *r->value);
    r->scale = malloc(k * sizeof *r->scale);
    r->bias = malloc(k * sizeof *r->bias);
    r->cap_k = r->value && r->scale && r->bias ? k : 0;
    return r->cap_k ? 0 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
}

/* Rows [row0, row1) and columns [col0, col1) of a part, densely. */
static int read_window(const struct tr_source *s, const struct tr_part *p, uint64_t row0,
                       uint64_t row1, uint64_t col0, uint64_t col1, struct tr_window *w,
                       struct tr_err *err)
{
    const struct tr_file *f = &s->files[p->file];
    uint64_t cols = col1 - col0, width = cols * p->bytes;
    size_t bytes = (size_t)((row1 - row0) * width);
    if (bytes + SLACK > w->cap) {
        free(w->data);
        w->data = malloc(bytes + SLACK);
        w->cap = w->data ? bytes + SLACK : 0;
        if (!w->data)
            return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    memset(w->data + bytes, 0, SLACK);
    w->row0 = row0;
    w->col0 = col0;
    w->cols = cols;
    if (cols == p->cols)
        return tr__file_read(f, p->offset + row0 * width, w->data, bytes, err);
    int r = 0;
    for (uint64_t i = row0; i < row1 && !r; i++)
        r = tr__file_read(f, p->offset + (i * p->cols + col0) * p->bytes,
                          w->data + (i - row0) * width, width, err);
    return r;
}

static void add_hash(struct tr_hash *h, const struct tr_window *w, const struct tr_part *p,
                     uint64_t rows)
{
    *h = tr_hash_link(*h, w->data, (size_t)(rows * w->cols * p->bytes));
}

/* Reads a window and adds its bytes to the hash. */
static int fetch(const struct tr_source *s, const struct tr_part *p, uint64_t row0, uint64_t row1,
                 uint64_t col0, uint64_t col1, struct tr_window *w, struct tr_hash *h,
                 struct tr_err *err)
{
    if (!p->rows)
        return 0;
    int r = read_window(s, p, row0, row1, col0, col1, w, err);
    if (!r)
        add_hash(h, w, p, row1 - row0);
    return r;
}

/* Words that hold elements [a, b) of so many bits. */
static uint64_t first_word(uint64_t a, int bits)
{
    return a * (uint64_t)bits / 32;
}

static uint64_t end_word(uint64_t b, int bits)
{
    return (b * (uint64_t)bits + 31) / 32;
}

int tr__quant_rows_read(struct tr_quant_rows *r, const struct tr_source *s,
                        const struct tr_tensor *t, uint64_t first, int n, struct tr_hash *ret_hash,
                        struct tr_err *err)
{
    const struct tr_quant *q = r->q = t->quant;
    uint64_t a = first, b = first + (uint64_t)n;
    uint64_t block = (uint64_t)q->block_rows, s0 = a / block, s1 = (b - 1) / block + 1;
    struct tr_hash h = {0};
    r->first = first;
    r->n = n;
    for (int u = 0; u < 256 && q->scheme == TR_SCHEME_FP8; u++)
        r->e4m3[u] = e4m3((uint8_t)u);
    int e = reserve(r, err);
    if (e)
        return e;
    switch (q->scheme) {
    case TR_SCHEME_GPTQ:
    case TR_SCHEME_AWQ: {
        bool awq = q->scheme == TR_SCHEME_AWQ;
        uint64_t c0 = awq ? a / 8 : a, c1 = awq ? (b + 7) / 8 : b;
        uint64_t z0 = awq ? c0 : first_word(a, q->bits), z1 = awq ? c1 : end_word(b, q->bits);
        e = fetch(s, &q->codes, 0, q->codes.rows, c0, c1, &r->codes, &h, err);
        if (!e)
            e = fetch(s, &q->scales, 0, q->scales.rows, a, b, &r->scales, &h, err);
        if (!e)
            e = fetch(s, &q->zeros, 0, q->zeros.rows, z0, z1, &r->zeros, &h, err);
        break;
    }
    default: {
        bool packed = q->zeros.bytes == 4;
        uint64_t z0 = packed ? first_word(a, q->bits) : a, z1 = packed ? end_word(b, q->bits) : b;
        e = fetch(s, &q->codes, a, b, 0, q->codes.cols, &r->codes, &h, err);
        if (!e)
            e = fetch(s, &q->scales, s0, s1, 0, q->scales.cols, &r->scales, &h, err);
        if (!e)
            e = fetch(s, &q->zeros, z0, z1, 0, q->zeros.cols, &r->zeros, &h, err);
        if (!e)
            e = fetch(s, &q->biases, a, b, 0, q->biases.cols, &r->biases, &h, err);
        break;
    }
    }
    if (!e)
        e = fetch(s, &q->index, 0, 1, 0, q->index.cols, &r->index, &h, err);
    *ret_hash = tr_hash_link(h, &q->factor, sizeof q->factor);
    return e;
}

uint64_t tr__quant_rows_bytes(const struct tr_quant *q, int n)
{
    return TR_MAX(q->bytes / q->rows, (uint64_t)1) * (uint64_t)n;
}

/* ---- elements ---- */

static uint32_t word_at(const struct tr_window *w, uint64_t row, uint64_t col)
{
    uint32_t x;
    memcpy(&x, w->data + 4 * ((row - w->row0) * w->cols + col - w->col0), sizeof x);
    return x;
}

/* Element i of a run of bits: bits [i b, i b + b) of it, read as one little-endian number. */
static int32_t bits_at(const uint8_t *data, uint64_t i, int bits)
{
    uint64_t at = i * (uint64_t)bits;
    uint16_t x;
    memcpy(&x, data + at / 8, sizeof x);
    return x >> at % 8 & ((1 << bits) - 1);
}

/* The same of a run that goes down a column of words. */
static int32_t column_bits(const struct tr_window *w, uint64_t rows, uint64_t col, uint64_t i,
                           int bits)
{
    uint64_t at = i * (uint64_t)bits, word = at / 32, shift = at % 32;
    uint64_t x = word_at(w, w->row0 + word, col);
    if (shift + (uint64_t)bits > 32 && word + 1 < rows)
        x |= (uint64_t)word_at(w, w->row0 + word + 1, col) << 32;
    return (int32_t)(x >> shift & ((1U << bits) - 1));
}

/* Output 8 j + i of AWQ is this nibble of word j. */
static int32_t awq_nibble(const struct tr_window *w, uint64_t row, uint64_t output)
{
    static const uint8_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return (int32_t)(word_at(w, row, output / 8) >> 4 * order[output % 8] & 15);
}

/* E2M1 in halves. */
static const int32_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Element i of a window of floats of any type; NaN and infinity are the caller's to find. */
static double number(const struct tr_window *w, const struct tr_part *p, uint64_t row, uint64_t col)
{
    const uint8_t *at = w->data + p->bytes * ((row - w->row0) * w->cols + col - w->col0);
    uint16_t half;
    float f;
    if (p->bytes == 4) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    if (p->bytes == 2) {
        memcpy(&half, at, sizeof half);
        return (double)(p->type[0] == 'B' ? tr_bf16_f32(half) : tr_f16_f32(half));
    }
    if (strcmp(p->type, "F8_E4M3") == 0)
        return *at == 0x7F || *at == 0xFF ? (double)NAN : (double)e4m3(*at) * 0x1p-9;
    return *at == 0xFF ? (double)NAN : ldexp(1.0, *at - 127);
}

/* ---- one row, apart ---- */

int tr__quant_bad_row(const struct tr_quant_rows *r, int i, const char *text, struct tr_err *err)
{
    return tr_err_set(err, TR_EFORMAT, NULL, "row %llu has %s",
                      (unsigned long long)r->first + (unsigned long long)i, text);
}

/* The groups' scales and biases. NVFP4's are multiplied or divided in float, as its readers do. */
int tr__quant_take_scales(struct tr_quant_rows *r, int i, struct tr_err *err)
{
    const struct tr_quant *q = r->q;
    bool transposed = q->scheme == TR_SCHEME_GPTQ || q->scheme == TR_SCHEME_AWQ;
    uint64_t row = r->first + (uint64_t)i, n = transposed ? q->scales.rows : q->scales.cols;
    for (uint64_t g = 0; g < n; g++) {
        double s = transposed ? number(&r->scales, &q->scales, g, row)
                              : number(&r->scales, &q->scales, row / (uint64_t)q->block_rows, g);
        if (q->scheme == TR_SCHEME_NVFP4)
            s = (double)(q->over ? (float)s / q->factor : (float)s * q->factor);
        if (!isfinite(s))
            return tr__quant_bad_row(r, i, "a scale that is not finite", err);
        r->scale[g] = s;
        if (!q->biases.rows)
            continue;
        r->bias[g] = number(&r->biases, &q->biases, row, g);
        if (!isfinite(r->bias[g]))
            return tr__quant_bad_row(r, i, "a bias that is not finite", err);
    }
    return 0;
}

/* Zero points of packed codes and codes themselves lie around the middle. */
static int32_t zero_of(const struct tr_quant_rows *r, uint64_t row, uint64_t g)
{
    const struct tr_quant *q = r->q;
    int mask = (1 << q->bits) - 1;
    switch (q->scheme) {
    case TR_SCHEME_AWQ:
        return awq_nibble(&r->zeros, g, row);
    case TR_SCHEME_GPTQ: {
        const uint8_t *line = r->zeros.data + 4 * g * r->zeros.cols;
        uint64_t skipped = r->zeros.col0 * 32; /* bits before the window */
        uint64_t at = row * (uint64_t)q->bits - skipped;
        uint32_t x;
        memcpy(&x, line + at / 8, sizeof x);
        return ((int32_t)(x >> at % 8 & (uint32_t)mask) + q->minus_one) & mask;
    }
    default: {
        int middle = 1 << (q->bits - 1);
        if (!q->zeros.rows)
            return q->scheme == TR_SCHEME_PACKED ? middle : 0;
        if (q->zeros.bytes == 1) {
            const uint8_t *at = r->zeros.data + (row - r->zeros.row0) * r->zeros.cols + g;
            return (int8_t)*at + (q->scheme == TR_SCHEME_PACKED ? middle : 0);
        }
        uint64_t at = row * (uint64_t)q->bits, word = at / 32, shift = at % 32;
        uint64_t x = word_at(&r->zeros, word, g);
        if (shift + (uint64_t)q->bits > 32)
            x |= (uint64_t)word_at(&r->zeros, word + 1, g) << 32;
        return (int32_t)(x >> shift & (uint64_t)mask);
    }
    }
}

static uint64_t group_of(const struct tr_quant_rows *r, int j)
{
    const struct tr_quant *q = r->q;
    int32_t g;
    if (!q->index.rows)
        return (uint64_t)(j / q->group);
    memcpy(&g, r->index.data + 4 * (size_t)j, sizeof g);
    return (uint64_t)g;
}

/* Codes of a row of bits. */
static void unpack(const uint8_t *line, int k, int bits, int32_t *v)
{
    int j = 0;
    for (; bits == 4 && j + 1 < k; j += 2) {
        v[j] = line[j / 2] & 15;
        v[j + 1] = line[j / 2] >> 4;
    }
    for (; j < k; j++)
        v[j] = bits_at(line, (uint64_t)j, bits);
}

/* Codes of a column of words. */
static void unpack_column(const struct tr_quant_rows *r, uint64_t col, int32_t *v)
{
    const struct tr_quant *q = r->q;
    int per = 32 / q->bits, k = q->k;
    if (32 % q->bits) {
        for (int j = 0; j < k; j++)
            v[j] = column_bits(&r->codes, q->codes.rows, col, (uint64_t)j, q->bits);
        return;
    }
    for (int j = 0; j < k; j += per) {
        uint32_t x = word_at(&r->codes, (uint64_t)(j / per), col);
        for (int i = 0; i < per; i++, x >>= q->bits)
            v[j + i] = (int32_t)(x & ((1U << q->bits) - 1));
    }
}

/* Codes as they are stored, in their unit. */
static int take_codes(struct tr_quant_rows *r, int i, struct tr_err *err)
{
    const struct tr_quant *q = r->q;
    uint64_t row = r->first + (uint64_t)i;
    const uint8_t *line = r->codes.data + (size_t)i * r->codes.cols * q->codes.bytes;
    int32_t *v = r->value, least = 0;
    int k = q->k;
    switch (q->scheme) {
    case TR_SCHEME_PACKED:
    case TR_SCHEME_MLX:
        unpack(line, k, q->bits, v);
        break;
    case TR_SCHEME_INT8:
        for (int j = 0; j < k; j++)
            v[j] = (int)(int8_t)line[j];
        break;
    case TR_SCHEME_FP8:
        for (int j = 0; j < k; j++) {
            v[j] = r->e4m3[line[j]];
            least = TR_MIN(least, v[j]);
        }
        break;
    case TR_SCHEME_NVFP4:
    case TR_SCHEME_MXFP4:
        for (int j = 0; j < k; j += 2) {
            v[j] = e2m1[line[j / 2] & 15];
            v[j + 1] = e2m1[line[j / 2] >> 4];
        }
        break;
    case TR_SCHEME_GPTQ:
        unpack_column(r, row, v);
        break;
    case TR_SCHEME_AWQ:
        for (int j = 0; j < k; j++)
            v[j] = awq_nibble(&r->codes, (uint64_t)j, row);
        break;
    }
    return least == INT32_MIN ? tr__quant_bad_row(r, i, "a code that is no number", err) : 0;
}

/* The end of the run of columns from j on that share a group. */
static int run_end(const struct tr_quant_rows *r, int j)
{
    const struct tr_quant *q = r->q;
    return q->index.rows ? j + 1 : TR_MIN(q->k, j + q->group);
}

int tr__quant_take_apart(struct tr_quant_rows *r, int i, struct tr_err *err)
{
    const struct tr_quant *q = r->q;
    uint64_t row = r->first + (uint64_t)i;
    int e = tr__quant_take_scales(r, i, err);
    if (!e)
        e = take_codes(r, i, err);
    if (e || (!q->zeros.rows && q->scheme != TR_SCHEME_PACKED))
        return e;
    for (int j = 0; j < q->k;) {
        int32_t zero = zero_of(r, row, group_of(r, j));
        for (int end = run_end(r, j); j < end; j++)
            r->value[j] -= zero;
    }
    return 0;
}

/* What a code counts. */
double tr__quant_unit(const struct tr_quant *q)
{
    switch (q->scheme) {
    case TR_SCHEME_FP8:
        return 0x1p-9;
    case TR_SCHEME_NVFP4:
    case TR_SCHEME_MXFP4:
        return 0.5;
    default:
        return 1;
    }
}

int tr__quant_rows_floats(struct tr_quant_rows *r, int i, float *y, struct tr_err *err)
{
    const struct tr_quant *q = r->q;
    double u = tr__quant_unit(q);
    int e = tr__quant_take_apart(r, i, err);
    for (int j = 0; j < q->k && !e;) {
        uint64_t g = group_of(r, j);
        double scale = r->scale[g] * u, bias = q->biases.rows ? r->bias[g] : 0;
        bool finite = true;
        for (int end = run_end(r, j); j < end; j++) {
            y[j] = (float)((double)r->value[j] * scale + bias);
            finite &= isfinite(y[j]) != 0;
        }
        if (!finite)
            e = tr__quant_bad_row(r, i, "a weight that is not finite", err);
    }
    return e;
}
