/* What each scheme consists of: a module's parts, their types and shapes; see quant.h. */
#include "engine/checkpoint/quant_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tr__quant_fail(const struct tr_module *m, const struct tr_tensor *t, const char *fmt, ...)
{
    struct tr_err inner;
    va_list ap;
    va_start(ap, fmt);
    tr_err_vset(&inner, TR_EFORMAT, NULL, fmt, ap);
    va_end(ap);
    return tr_err_set(m->err, TR_EFORMAT, t->name, "%s: %s: %s", m->source->files[t->file].name,
                      t->name, inner.msg);
}

static const struct tr_tensor *beside(const struct tr_module *m, const char *suffix)
{
    char name[2 * TR_MAX_NAME];
    snprintf(name, sizeof name, "%s%s", m->prefix, suffix);
    return tr__source_find(m->source, name);
}

static unsigned element_bytes(const char *type)
{
    size_t n = strlen(type);
    return strcmp(type + n - 2, "32") == 0 ? 4 : strcmp(type + n - 2, "16") == 0 ? 2 : 1;
}

/* Takes a tensor as a part, all dimensions but the last together as its rows. `types` is a list
 * such as "F32 BF16 F16". */
static int take(const struct tr_module *m, const struct tr_tensor *t, const char *types,
                struct tr_part *ret)
{
    char word[16], list[64];
    snprintf(word, sizeof word, " %s ", t->type_name);
    snprintf(list, sizeof list, " %s ", types);
    if (!strstr(list, word))
        return tr__quant_fail(m, t, "expected type %s, found %s", types, t->type_name);
    *ret = (struct tr_part){.file = t->file,
                            .offset = t->offset,
                            .rows = 1,
                            .cols = 1,
                            .bytes = element_bytes(t->type_name),
                            .type = t->type_name};
    for (int i = 0; i + 1 < t->n_dims; i++)
        ret->rows *= t->dims[i];
    if (t->n_dims)
        ret->cols = t->dims[t->n_dims - 1];
    m->q->bytes += t->bytes;
    return ret->rows && ret->cols ? 0 : tr__quant_fail(m, t, "is empty");
}

static int take_beside(const struct tr_module *m, const char *suffix, const char *types,
                       struct tr_part *ret)
{
    const struct tr_tensor *t = beside(m, suffix);
    return t ? take(m, t, types, ret)
             : tr__quant_fail(m, m->carrier, "%s is missing beside it", suffix);
}

/* The part has this shape, or it is an error that names both. */
static int expect(const struct tr_module *m, const char *suffix, const struct tr_part *p,
                  uint64_t rows, uint64_t cols)
{
    if (p->rows == rows && p->cols == cols)
        return 0;
    return tr__quant_fail(m, beside(m, suffix), "expected shape [%llu, %llu], found [%llu, %llu]",
                          (unsigned long long)rows, (unsigned long long)cols,
                          (unsigned long long)p->rows, (unsigned long long)p->cols);
}

/* The matrix has so many columns; they are cut into groups of one size. */
static int set_columns(const struct tr_module *m, uint64_t k, uint64_t groups)
{
    if (k == 0 || k > INT32_MAX || groups == 0 || k % groups)
        return tr__quant_fail(m, m->carrier, "%llu columns can't have %llu groups",
                              (unsigned long long)k, (unsigned long long)groups);
    m->q->k = (int)k;
    m->q->group = (int)(k / groups);
    return 0;
}

/* One number of a part. */
static int read_element(const struct tr_module *m, const struct tr_part *p, uint64_t i, void *ret)
{
    return tr__file_read(&m->source->files[p->file], p->offset + i * p->bytes, ret, p->bytes,
                         m->err);
}

/* ---- what each scheme consists of ---- */

static const char floats[] = "F32 BF16 F16";

/* weight_shape repeats rows and columns. */
static int check_shape(const struct tr_module *m, uint64_t *ret_k)
{
    const struct tr_tensor *t = beside(m, "weight_shape");
    int64_t shape[2];
    if (!t)
        return tr__quant_fail(m, m->carrier, "weight_shape is missing beside it");
    if (strcmp(t->type_name, "I64") != 0 || t->n_dims != 1 || t->dims[0] != 2)
        return tr__quant_fail(m, t, "expected 2 numbers of type I64");
    int r = tr__file_read(&m->source->files[t->file], t->offset, shape, sizeof shape, m->err);
    m->q->bytes += t->bytes;
    if (!r && (shape[0] < 1 || (uint64_t)shape[0] != m->q->codes.rows || shape[1] < 1 ||
               shape[1] > INT32_MAX))
        r = tr__quant_fail(m, t, "says [%lld, %lld], weight_packed has %llu rows",
                           (long long)shape[0], (long long)shape[1],
                           (unsigned long long)m->q->codes.rows);
    *ret_k = r ? 0 : (uint64_t)shape[1];
    return r;
}

/* The number of bits, of those that the config names, with which k columns take these words. */
static int find_bits(const struct tr_module *m, uint64_t k)
{
    for (int b = 2; b <= TR_QUANT_MAX_BITS; b++)
        if (m->config->bits >> b & 1 && (k * (uint64_t)b + 31) / 32 == m->q->codes.cols) {
            m->q->bits = b;
            return 0;
        }
    return tr__quant_fail(m, m->carrier,
                          "%llu words a row hold %llu columns with no num_bits of config.json",
                          (unsigned long long)m->q->codes.cols, (unsigned long long)k);
}

/* Zero points: packed along the rows, or an int8 each. */
static int take_zeros(const struct tr_module *m)
{
    struct tr_quant *q = m->q;
    static const char name[] = "weight_zero_point";
    const struct tr_tensor *t = beside(m, name);
    if (!t)
        return m->config->shifted >> q->bits & 1
                   ? tr__quant_fail(m, m->carrier, "%s is missing beside it", name)
                   : 0;
    int r = take(m, t, "I32 I8", &q->zeros);
    uint64_t rows = q->zeros.bytes == 1 ? q->rows : (q->rows * (uint64_t)q->bits + 31) / 32;
    return r ? r : expect(m, name, &q->zeros, rows, q->scales.cols);
}

/* Whole, for what is small. The caller frees *ret. */
static int read_part(const struct tr_module *m, const struct tr_part *p, void **ret)
{
    size_t bytes = (size_t)(p->rows * p->cols * p->bytes);
    void *data = malloc(bytes);
    if (!data) {
        tr_err_set(m->err, TR_ENOMEM, NULL, "out of memory");
        return TR_ENOMEM;
    }
    int r = tr__file_read(&m->source->files[p->file], p->offset, data, bytes, m->err);
    if (r)
        free(data);
    else
        *ret = data;
    return r;
}

/* Every column has a group that there is, or all have -1. *ret: it says nothing that is not so. */
static int check_index(const struct tr_module *m, const struct tr_tensor *t, const int32_t *index,
                       bool *ret)
{
    int groups = m->q->k / m->q->group;
    bool none = index[0] == -1;
    *ret = true;
    for (int j = 0; j < m->q->k; j++) {
        if (none ? index[j] != -1 : index[j] < 0 || index[j] >= groups)
            return tr__quant_fail(m, t, "column %d has the group %d, there are %d", j, index[j],
                                  groups);
        *ret &= none || index[j] == j / m->q->group;
    }
    return 0;
}

/* Column -> group: checked, and forgotten if it says nothing. */
static int take_index(const struct tr_module *m, const char *name)
{
    struct tr_quant *q = m->q;
    const struct tr_tensor *t = beside(m, name);
    void *index = NULL;
    bool plain = false;
    if (!t)
        return m->config->ordered ? tr__quant_fail(m, m->carrier, "%s is missing beside it", name)
                                  : 0;
    int r = take(m, t, "I32", &q->index);
    if (!r)
        r = expect(m, name, &q->index, 1, (uint64_t)q->k);
    if (!r)
        r = read_part(m, &q->index, &index);
    if (r)
        return r;
    r = check_index(m, t, index, &plain);
    free(index);
    if (plain)
        q->index = (struct tr_part){0};
    return r;
}

static int find_packed(struct tr_module *m)
{
    struct tr_quant *q = m->q;
    uint64_t k = 0;
    q->scheme = TR_SCHEME_PACKED;
    int r = take(m, m->carrier, "I32", &q->codes);
    if (!r)
        r = check_shape(m, &k);
    if (!r)
        r = find_bits(m, k);
    if (!r)
        r = take_beside(m, "weight_scale", floats, &q->scales);
    if (r)
        return r;
    q->rows = q->codes.rows;
    /* [n] is [n, 1]. */
    if (q->scales.rows == 1 && q->scales.cols == q->rows && q->rows > 1) {
        q->scales.rows = q->rows;
        q->scales.cols = 1;
    }
    r = expect(m, "weight_scale", &q->scales, q->rows, q->scales.cols);
    if (!r)
        r = set_columns(m, k, q->scales.cols);
    if (!r)
        r = take_zeros(m);
    return r ? r : take_index(m, "weight_g_idx");
}

/* int8 or E4M3: one scale for a matrix, a row, a run of columns or a block. */
static int find_scaled(struct tr_module *m)
{
    struct tr_quant *q = m->q;
    const int *block = m->config->block;
    bool fp8 = strcmp(m->carrier->type_name, "I8") != 0;
    const char *name = beside(m, "weight_scale") ? "weight_scale" : "weight_scale_inv";
    q->scheme = fp8 ? TR_SCHEME_FP8 : TR_SCHEME_INT8;
    q->bits = 8;
    int r = take(m, m->carrier, fp8 ? "F8_E4M3" : "I8", &q->codes);
    if (!r)
        r = take_beside(m, name, fp8 ? "F32 BF16 F16 F8_E8M0 U8" : floats, &q->scales);
    if (r)
        return r;
    struct tr_part *s = &q->scales;
    uint64_t n = q->rows = q->codes.rows, k = q->codes.cols;
    if (m->carrier->n_dims != 2 || k > INT32_MAX || n > INT32_MAX)
        return tr__quant_fail(m, m->carrier, "expected rows and columns");
    q->k = q->group = (int)k;
    q->block_rows = 1;
    if (s->rows == 1 && s->cols == n && n > 1) {
        s->rows = n;
        s->cols = 1;
    }
    if (s->rows == 1 && s->cols == 1) {
        q->block_rows = (int)n;
    } else if (block[0] && s->rows == (n + (uint64_t)block[0] - 1) / (uint64_t)block[0] &&
               s->cols == (k + (uint64_t)block[1] - 1) / (uint64_t)block[1]) {
        q->block_rows = block[0];
        q->group = block[1];
    } else {
        r = expect(m, name, s, n, s->cols);
        if (!r)
            r = set_columns(m, k, s->cols);
    }
    return r ? r : fp8 ? 0 : take_zeros(m);
}

/* Two E2M1 a byte. */
static int find_fp4(struct tr_module *m)
{
    struct tr_quant *q = m->q;
    static const char name[] = "weight_scale";
    q->bits = 4;
    int r = take(m, m->carrier, "U8", &q->codes);
    if (!r)
        r = take_beside(m, name, "F8_E4M3 U8 F8_E8M0", &q->scales);
    if (r)
        return r;
    bool nv = strcmp(q->scales.type, "F8_E4M3") == 0;
    uint64_t k = 2 * q->codes.cols, group = nv ? 16 : 32;
    q->scheme = nv ? TR_SCHEME_NVFP4 : TR_SCHEME_MXFP4;
    q->rows = q->codes.rows;
    r = expect(m, name, &q->scales, q->rows, (k + group - 1) / group);
    if (!r)
        r = set_columns(m, k, q->scales.cols);
    if (!r && (uint64_t)q->group != group)
        r = tr__quant_fail(m, m->carrier, "%d columns are no groups of %d", q->k, (int)group);
    if (r || !nv)
        return r;
    const char *factor =
        beside(m, "weight_global_scale") ? "weight_global_scale" : "weight_scale_2";
    struct tr_part f;
    q->over = strcmp(factor, "weight_global_scale") == 0;
    r = take_beside(m, factor, "F32", &f);
    if (!r)
        r = expect(m, factor, &f, 1, 1);
    if (!r)
        r = read_element(m, &f, 0, &q->factor);
    if (!r && !(isfinite(q->factor) && q->factor > 0))
        r = tr__quant_fail(m, beside(m, factor), "is %g", (double)q->factor);
    return r;
}

/* Are all zero points in the middle? Then codes take a bit less than they might. */
static int find_middle(const struct tr_module *m)
{
    struct tr_quant *q = m->q;
    size_t n = (size_t)(q->zeros.rows * q->zeros.cols);
    uint32_t want = 0;
    void *zeros = NULL;
    int r = read_part(m, &q->zeros, &zeros);
    if (r)
        return r;
    const uint32_t *words = zeros;
    for (int b = 0; b + q->bits <= 32; b += q->bits)
        want |= ((1U << (q->bits - 1)) - (uint32_t)q->minus_one) << b;
    q->symmetric = 32 % q->bits == 0;
    for (size_t i = 0; i < n && q->symmetric; i++)
        q->symmetric = words[i] == want;
    free(zeros);
    return 0;
}

static int find_transposed(struct tr_module *m)
{
    struct tr_quant *q = m->q;
    bool awq = m->config->method == TR_QUANT_AWQ;
    q->scheme = awq ? TR_SCHEME_AWQ : TR_SCHEME_GPTQ;
    q->bits = __builtin_ctz(m->config->bits | 1U << 31);
    q->minus_one = m->config->minus_one;
    int r = take(m, m->carrier, "I32", &q->codes);
    if (!r)
        r = take_beside(m, "scales", floats, &q->scales);
    if (!r)
        r = take_beside(m, "qzeros", "I32", &q->zeros);
    if (r)
        return r;
    uint64_t bits = (uint64_t)q->bits;
    uint64_t n = awq ? 8 * q->codes.cols : q->codes.cols;
    uint64_t k = awq ? q->codes.rows : q->codes.rows * 32 / bits;
    uint64_t group = m->config->group < 0 ? k : (uint64_t)m->config->group;
    q->rows = n;
    if (!awq && (q->codes.rows * 32 % bits || n * bits % 32))
        return tr__quant_fail(m, m->carrier, "its shape is impossible for %d bits", q->bits);
    r = expect(m, "scales", &q->scales, (k + group - 1) / group, n);
    if (!r)
        r = set_columns(m, k, q->scales.rows);
    if (!r)
        r = expect(m, "qzeros", &q->zeros, q->scales.rows, n * bits / 32);
    if (!r && !awq)
        r = take_index(m, "g_idx");
    return r ? r : find_middle(m);
}

static int find_mlx(struct tr_module *m)
{
    struct tr_quant *q = m->q;
    char name[2 * TR_MAX_NAME];
    int group;
    snprintf(name, sizeof name, "%.*s", (int)strlen(m->prefix) - 1, m->prefix);
    q->scheme = TR_SCHEME_MLX;
    int r = tr__quant_config_module(m->config, name, &q->bits, &group, m->err);
    if (!r)
        r = take(m, m->carrier, "U32", &q->codes);
    if (!r)
        r = take_beside(m, "scales", floats, &q->scales);
    if (!r)
        r = take_beside(m, "biases", floats, &q->biases);
    if (r)
        return r;
    uint64_t k = q->codes.cols * 32 / (uint64_t)q->bits;
    q->rows = q->codes.rows;
    if (q->codes.cols * 32 % (uint64_t)q->bits || group < 1 || k % (uint64_t)group)
        return tr__quant_fail(m, m->carrier, "%llu words a row are no groups of %d with %d bits",
                              (unsigned long long)q->codes.cols, group, q->bits);
    r = expect(m, "scales", &q->scales, q->rows, k / (uint64_t)group);
    if (!r)
        r = expect(m, "biases", &q->biases, q->rows, k / (uint64_t)group);
    return r ? r : set_columns(m, k, q->scales.cols);
}

int tr__quant_scheme(struct tr_module *m, const char *suffix)
{
    const char *type = m->carrier->type_name;
    enum tr_quant_method method = m->config->method;
    m->q->block_rows = 1;
    m->q->factor = 1;
    if (strcmp(suffix, "weight_packed") == 0)
        return strcmp(type, "U8") == 0 ? find_fp4(m) : find_packed(m);
    if (strcmp(suffix, "qweight") == 0 && (method == TR_QUANT_GPTQ || method == TR_QUANT_AWQ))
        return find_transposed(m);
    if (strcmp(type, "U32") == 0 && method == TR_QUANT_MLX)
        return find_mlx(m);
    if (strcmp(type, "U8") == 0 && method == TR_QUANT_MODELOPT)
        return find_fp4(m);
    if (strcmp(type, "F8_E4M3") == 0 || strcmp(type, "I8") == 0)
        return find_scaled(m);
    return tr__quant_fail(m, m->carrier, "no method that config.json names has a %s of type %s",
                          suffix, type);
}
