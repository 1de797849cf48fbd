/*
 * The GGUF container; see gguf.h.
 *
 * Rule of this file: no number from the file is used before need() or an overflow-checked
 * comparison with the file's size has passed it, and nothing is allocated that the file is not
 * large enough to fill.
 */
#include "engine/checkpoint/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/fields.h"

#define MAX_HEADER (256u << 20) /* the largest vocabularies need some ten MiB */
#define MAX_KEYS   65536
#define MAX_KEY    65535 /* bytes, as the format has it */

/* Offsets, not pointers: the header's bytes move while it is read. */
struct entry {
    size_t key, key_bytes; /* not NUL-terminated */
    size_t value;
    enum tr_gguf_type type; /* of the elements, if it is an array */
    bool array;
    uint64_t count;
};

struct tr_gguf {
    char *name;
    uint8_t *header;       /* the file from its start to somewhere behind the directory */
    struct entry *entries; /* sorted by key */
    size_t n_entries;
};

/* One file's header, read as far as it was needed. */
struct reader {
    const struct tr_file *f;
    struct tr_gguf *g; /* whose header grows */
    size_t have, pos;
    struct tr_err *err;
};

static const uint8_t value_bytes[TR_GGUF_TYPES] = {
    [TR_GGUF_U8] = 1,  [TR_GGUF_I8] = 1,  [TR_GGUF_U16] = 2, [TR_GGUF_I16] = 2,
    [TR_GGUF_U32] = 4, [TR_GGUF_I32] = 4, [TR_GGUF_F32] = 4, [TR_GGUF_BOOL] = 1,
    [TR_GGUF_U64] = 8, [TR_GGUF_I64] = 8, [TR_GGUF_F64] = 8, [TR_GGUF_STRING] = 8};

static const struct {
    const char *name; /* NULL: no such type */
    uint16_t elements, bytes;
    enum tr_wtype type;
} tensor_types[] = {
    [0] = {"F32", 1, 4, TR_W_F32},           [1] = {"F16", 1, 2, TR_W_F16},
    [2] = {"Q4_0", 32, 18, TR_W_Q4_0},       [3] = {"Q4_1", 32, 20, TR_W_COUNT},
    [6] = {"Q5_0", 32, 22, TR_W_COUNT},      [7] = {"Q5_1", 32, 24, TR_W_COUNT},
    [8] = {"Q8_0", 32, 34, TR_W_Q8_0},       [10] = {"Q2_K", 256, 84, TR_W_COUNT},
    [11] = {"Q3_K", 256, 110, TR_W_COUNT},   [12] = {"Q4_K", 256, 144, TR_W_Q4_K},
    [13] = {"Q5_K", 256, 176, TR_W_Q5_K},    [14] = {"Q6_K", 256, 210, TR_W_Q6_K},
    [16] = {"IQ2_XXS", 256, 66, TR_W_COUNT}, [17] = {"IQ2_XS", 256, 74, TR_W_COUNT},
    [18] = {"IQ3_XXS", 256, 98, TR_W_COUNT}, [19] = {"IQ1_S", 256, 50, TR_W_COUNT},
    [20] = {"IQ4_NL", 32, 18, TR_W_COUNT},   [21] = {"IQ3_S", 256, 110, TR_W_COUNT},
    [22] = {"IQ2_S", 256, 82, TR_W_COUNT},   [23] = {"IQ4_XS", 256, 136, TR_W_COUNT},
    [24] = {"I8", 1, 1, TR_W_COUNT},         [25] = {"I16", 1, 2, TR_W_COUNT},
    [26] = {"I32", 1, 4, TR_W_COUNT},        [27] = {"I64", 1, 8, TR_W_COUNT},
    [28] = {"F64", 1, 8, TR_W_COUNT},        [29] = {"IQ1_M", 256, 56, TR_W_COUNT},
    [30] = {"BF16", 1, 2, TR_W_BF16},        [34] = {"TQ1_0", 256, 54, TR_W_COUNT},
    [35] = {"TQ2_0", 256, 66, TR_W_COUNT},   [39] = {"MXFP4", 32, 17, TR_W_COUNT},
};

/* ---- reading ---- */

static int bad(const struct reader *r, const char *fmt, ...) TR_PRINTF(2, 3);
static int bad(const struct reader *r, const char *fmt, ...)
{
    struct tr_err inner;
    va_list ap;
    va_start(ap, fmt);
    tr_err_vset(&inner, TR_EFORMAT, NULL, fmt, ap);
    va_end(ap);
    return tr_err_set(r->err, TR_EFORMAT, NULL, "%s: %s", r->f->name, inner.msg);
}

/* The next n bytes are in memory after it, or it fails. */
static int need(struct reader *r, uint64_t n)
{
    if (n > r->f->size - r->pos)
        return bad(r, "ends inside its header: %llu bytes, wants %llu more at byte %zu",
                   (unsigned long long)r->f->size, (unsigned long long)n, r->pos);
    if (n <= r->have - r->pos)
        return 0;
    if (n > MAX_HEADER - TR_MIN(r->pos, MAX_HEADER))
        return bad(r, "its header is larger than %u bytes", MAX_HEADER);
    /* In growing steps, so that a header costs few reads and no more than twice its size. */
    size_t want = TR_MAX(TR_MAX(r->pos + n, 2 * r->have), (size_t)1 << 16);
    want = TR_MIN(want, r->f->size);
    uint8_t *p = realloc(r->g->header, want);
    if (!p) {
        tr_err_set(r->err, TR_ENOMEM, NULL, "out of memory");
        return TR_ENOMEM;
    }
    r->g->header = p;
    int rc = tr_file_read(r->f, r->have, p + r->have, want - r->have, r->err);
    if (!rc)
        r->have = want;
    return rc;
}

static int read_bytes(struct reader *r, void *dst, size_t n)
{
    int rc = need(r, n);
    if (rc)
        return rc;
    memcpy(dst, r->g->header + r->pos, n);
    r->pos += n;
    return 0;
}

static int read_u32(struct reader *r, uint32_t *ret)
{
    return read_bytes(r, ret, sizeof *ret);
}

static int read_u64(struct reader *r, uint64_t *ret)
{
    return read_bytes(r, ret, sizeof *ret);
}

/* A length-counted string; *ret is its offset. */
static int read_string(struct reader *r, size_t *ret, size_t *ret_n)
{
    uint64_t n;
    int rc = read_u64(r, &n);
    if (!rc)
        rc = need(r, n);
    if (rc)
        return rc;
    *ret = r->pos;
    *ret_n = n;
    r->pos += n;
    return 0;
}

static int skip_strings(struct reader *r, uint64_t count)
{
    int rc = 0;
    size_t at, n;
    for (uint64_t i = 0; i < count && !rc; i++)
        rc = read_string(r, &at, &n);
    return rc;
}

/* ---- metadata ---- */

static int read_value(struct reader *r, struct entry *e)
{
    uint32_t type;
    int rc = read_u32(r, &type);
    if (rc)
        return rc;
    e->count = 1;
    e->array = type == TR_GGUF_ARRAY;
    if (e->array) {
        rc = read_u32(r, &type);
        if (!rc)
            rc = read_u64(r, &e->count);
        if (rc)
            return rc;
    }
    if (type >= TR_GGUF_TYPES || type == TR_GGUF_ARRAY)
        return bad(r, "a metadata value has the unknown type %u", type);
    e->type = (enum tr_gguf_type)type;
    e->value = r->pos;
    uint64_t bytes;
    if (__builtin_mul_overflow(e->count, value_bytes[type], &bytes))
        bytes = UINT64_MAX;
    rc = need(r, bytes);
    if (rc)
        return rc;
    if (type == TR_GGUF_STRING)
        return skip_strings(r, e->count);
    r->pos += bytes;
    return 0;
}

static int compare_texts(const void *a, size_t n_a, const void *b, size_t n_b)
{
    int c = memcmp(a, b, TR_MIN(n_a, n_b));
    return c ? c : (n_a > n_b) - (n_a < n_b);
}

static int compare_entries(const void *a, const void *b, void *header)
{
    const struct entry *x = a, *y = b;
    const uint8_t *h = header;
    return compare_texts(h + x->key, x->key_bytes, h + y->key, y->key_bytes);
}

static int read_metadata(struct reader *r, uint64_t n)
{
    struct tr_gguf *g = r->g;
    /* The least that an entry takes: length, one byte of key, type, one byte of value. */
    if (n > MAX_KEYS || n > (r->f->size - r->pos) / 14)
        return bad(r, "claims %llu metadata keys", (unsigned long long)n);
    g->entries = calloc(n ? n : 1, sizeof *g->entries);
    if (!g->entries)
        return tr_err_set(r->err, TR_ENOMEM, NULL, "out of memory");
    for (; g->n_entries < n; g->n_entries++) {
        struct entry *e = &g->entries[g->n_entries];
        int rc = read_string(r, &e->key, &e->key_bytes);
        if (rc)
            return rc;
        if (e->key_bytes == 0 || e->key_bytes > MAX_KEY)
            return bad(r, "metadata key %zu has %zu bytes", g->n_entries, e->key_bytes);
        rc = read_value(r, e);
        if (rc)
            return rc;
    }
    qsort_r(g->entries, n, sizeof *g->entries, compare_entries, g->header);
    for (uint64_t i = 1; i < n; i++)
        if (compare_entries(&g->entries[i - 1], &g->entries[i], g->header) == 0)
            return bad(r, "a metadata key occurs twice");
    return 0;
}

/* ---- tensors ---- */

struct extent {
    uint64_t alignment;
    uint64_t used; /* bytes of data so far, each tensor's end padded */
    uint64_t end;  /* of the last tensor, not padded */
};

static bool pad(uint64_t n, uint64_t alignment, uint64_t *ret)
{
    if (__builtin_add_overflow(n, alignment - 1, &n))
        return false;
    *ret = n & ~(alignment - 1);
    return true;
}

/* One entry of the directory; t->offset is relative to the data. */
static int read_tensor(struct reader *r, struct tr_source *s, int file, struct extent *x)
{
    struct tr_tensor t = {.file = file};
    size_t at, n;
    uint32_t n_dims, type;
    int rc = read_string(r, &at, &n);
    if (!rc)
        rc = read_u32(r, &n_dims);
    if (rc)
        return rc;
    if (!tr_name_printable((const char *)r->g->header + at, n))
        return bad(r, "the name of tensor %zu is not printable", s->n_tensors);
    char name[TR_MAX_NAME + 1] = {0};
    memcpy(name, r->g->header + at, n);
    if (n_dims < 1 || n_dims > 4)
        return bad(r, "%s: has %u dimensions", name, n_dims);
    t.n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims && !rc; i++)
        rc = read_u64(r, &t.dims[n_dims - 1 - i]);
    if (!rc)
        rc = read_u32(r, &type);
    if (!rc)
        rc = read_u64(r, &t.offset);
    if (rc)
        return rc;
    if (type >= TR_ARRAY_LEN(tensor_types) || !tensor_types[type].name)
        return bad(r, "%s: has the unknown type %u", name, type);
    t.type = tensor_types[type].type;
    t.type_name = tensor_types[type].name;
    uint64_t elements, k = t.dims[n_dims - 1];
    if (!tr_tensor_elements(&t, &elements) || elements == 0 || k % tensor_types[type].elements ||
        __builtin_mul_overflow(elements / tensor_types[type].elements, tensor_types[type].bytes,
                               &t.bytes))
        return bad(r, "%s: its shape is impossible for %s", name, t.type_name);
    if (t.offset != x->used)
        return bad(r, "%s: begins at byte %llu of the data, not %llu", name,
                   (unsigned long long)t.offset, (unsigned long long)x->used);
    if (__builtin_add_overflow(t.offset, t.bytes, &x->end) || x->end > r->f->size ||
        !pad(x->end, x->alignment, &x->used))
        return bad(r, "%s: ends at byte %llu of the data, the file has %llu bytes", name,
                   (unsigned long long)x->end, (unsigned long long)r->f->size);
    return tr_source_add(s, &t, name, n, r->err);
}

static int read_tensors(struct reader *r, struct tr_source *s, int file, uint64_t n)
{
    /* Name length and a byte, dimensions and one of them, type, offset. */
    if (n > TR_MAX_TENSORS || n > (r->f->size - r->pos) / 33)
        return bad(r, "claims %llu tensors", (unsigned long long)n);
    int64_t alignment = 32;
    int rc = tr_gguf_int(r->g, "general.alignment", false, 1, 1 << 20, &alignment, r->err);
    if (rc)
        return rc;
    if (alignment & (alignment - 1))
        return bad(r, "general.alignment: %lld is no power of two", (long long)alignment);
    struct extent x = {.alignment = (uint64_t)alignment};
    size_t first = s->n_tensors;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = read_tensor(r, s, file, &x);
    uint64_t data;
    if (rc || !pad(r->pos, x.alignment, &data))
        return rc ? rc : bad(r, "general.alignment: too large");
    /* Without tensors (a split set's first file may have none) nothing pads the header. The last
     * tensor may be padded. Neither sum can wrap: each term is at most about the file's size. */
    uint64_t end = n ? data + x.end : r->pos;
    if (r->f->size < end || r->f->size > data + x.used)
        return bad(r, "has %llu bytes, its header describes %llu", (unsigned long long)r->f->size,
                   (unsigned long long)end);
    for (size_t i = first; i < s->n_tensors; i++)
        s->tensors[i].offset += data;
    return 0;
}

/* ---- files ---- */

/* Reads one file's header into g (fresh) and its tensors into s. */
static int read_file(struct tr_gguf *g, struct tr_source *s, int file, struct tr_err *err)
{
    struct reader r = {.f = &s->files[file], .g = g, .err = err};
    char magic[4];
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_entries = 0;
    g->name = strdup(r.f->name);
    int rc = g->name ? read_bytes(&r, magic, sizeof magic)
                     : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (!rc && memcmp(magic, "GGUF", 4) != 0)
        rc = bad(&r, "not a GGUF file");
    if (!rc)
        rc = read_u32(&r, &version);
    if (!rc && version != 2 && version != 3)
        rc = bad(&r, "GGUF version %u is not supported (2 and 3 are, little-endian)", version);
    if (!rc)
        rc = read_u64(&r, &n_tensors);
    if (!rc)
        rc = read_u64(&r, &n_entries);
    if (!rc)
        rc = read_metadata(&r, n_entries);
    return rc ? rc : read_tensors(&r, s, file, n_tensors);
}

struct tr_gguf *tr_gguf_close(struct tr_gguf *g)
{
    if (!g)
        return NULL;
    free(g->entries);
    free(g->header);
    free(g->name);
    free(g);
    return NULL;
}

/* One file of a set that says it is number `no` of `count` (a single file: 0 of 1). */
static int read_part(struct tr_gguf **ret, struct tr_source *s, const char *path, int64_t no,
                     int64_t *count, struct tr_err *err)
{
    int file;
    int rc = tr_source_add_file(s, path, &file, err);
    if (rc)
        return rc;
    struct tr_gguf *g = calloc(1, sizeof *g);
    if (!g)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int64_t want = *count, found_no = 0, found = 1;
    rc = read_file(g, s, file, err);
    if (!rc)
        rc = tr_gguf_int(g, "split.no", false, 0, UINT16_MAX, &found_no, err);
    if (!rc)
        rc = tr_gguf_int(g, "split.count", false, 0, TR_MAX_FILES, &found, err);
    found = TR_MAX(found, 1);
    if (!rc && (found_no != no || (want && found != want)))
        rc = tr_fields_fail(err, g->name, "split.no", "part %lld of %lld, expected part %lld",
                            (long long)found_no + 1, (long long)found, (long long)no + 1);
    if (rc) {
        tr_gguf_close(g);
        return rc;
    }
    *count = found;
    *ret = g;
    return 0;
}

/* "DIR/NAME-00001-of-00003.gguf" -> the same of another part. */
static int read_other_parts(const struct tr_gguf *g, struct tr_source *s, const char *path,
                            int64_t count, struct tr_err *err)
{
    char tail[32];
    snprintf(tail, sizeof tail, "-00001-of-%05d.gguf", (int)count);
    size_t n = strlen(path), m = strlen(tail);
    if (n < m || strcmp(path + n - m, tail) != 0)
        return tr_fields_fail(err, g->name, "split.count", "the name of part 1 must end in %s",
                              tail);
    int rc = 0;
    for (int i = 1; i < count && !rc; i++) {
        struct tr_buf other = {0};
        struct tr_gguf *part = NULL;
        tr_buf_add(&other, path, n - m);
        tr_buf_addf(&other, "-%05d-of-%05d.gguf", i + 1, (int)count);
        rc = other.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory")
                       : read_part(&part, s, other.data, i, &count, err);
        tr_gguf_close(part);
        tr_buf_done(&other);
    }
    int64_t tensors = (int64_t)s->n_tensors;
    if (!rc)
        rc = tr_gguf_int(g, "split.tensors.count", false, 0, INT32_MAX, &tensors, err);
    if (!rc && (size_t)tensors != s->n_tensors)
        rc = tr_fields_fail(err, g->name, "split.tensors.count", "says %lld, the parts have %zu",
                            (long long)tensors, s->n_tensors);
    return rc;
}

int tr_gguf_open(struct tr_gguf **ret, struct tr_source *s, const char *path, struct tr_err *err)
{
    struct tr_gguf *g = NULL;
    int64_t count = 0;
    int rc = read_part(&g, s, path, 0, &count, err);
    if (!rc && count > 1)
        rc = read_other_parts(g, s, path, count, err);
    if (!rc)
        rc = tr_source_seal(s, err);
    if (rc)
        g = tr_gguf_close(g);
    else
        *ret = g;
    return rc;
}

/* ---- access ---- */

const char *tr_gguf_name(const struct tr_gguf *g)
{
    return g->name;
}

bool tr_gguf_find(const struct tr_gguf *g, const char *key, struct tr_gguf_value *ret)
{
    size_t lo = 0, hi = g->n_entries, n = strlen(key);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct entry *e = &g->entries[mid];
        int c = compare_texts(key, n, g->header + e->key, e->key_bytes);
        if (c == 0) {
            *ret = (struct tr_gguf_value){e->type, e->array, e->count, g->header + e->value};
            return true;
        }
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return false;
}

/* A scalar that is there; *found tells. Absence is an error only if it is required. */
static int scalar(const struct tr_gguf *g, const char *key, bool required, struct tr_gguf_value *v,
                  bool *found, struct tr_err *err)
{
    *found = tr_gguf_find(g, key, v);
    if (!*found)
        return required ? tr_fields_fail(err, g->name, key, "missing") : 0;
    return v->array ? tr_fields_fail(err, g->name, key, "an array, expected one value") : 0;
}

int tr_gguf_int(const struct tr_gguf *g, const char *key, bool required, int64_t min, int64_t max,
                int64_t *ret, struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int rc = scalar(g, key, required, &v, &found, err);
    if (rc || !found)
        return rc;
    int64_t x;
    if (v.type == TR_GGUF_BOOL || !tr_gguf_next_int(&v, &x))
        return tr_fields_fail(err, g->name, key, "not an integer of at most 63 bits");
    if (x < min || x > max)
        return tr_fields_fail(err, g->name, key, "%lld is not from %lld to %lld", (long long)x,
                              (long long)min, (long long)max);
    *ret = x;
    return 0;
}

int tr_gguf_double(const struct tr_gguf *g, const char *key, bool required, double min, double max,
                   double *ret, struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int rc = scalar(g, key, required, &v, &found, err);
    if (rc || !found)
        return rc;
    float f;
    double d;
    if (v.type == TR_GGUF_F32) {
        memcpy(&f, v.data, sizeof f);
        d = (double)f;
    } else if (v.type == TR_GGUF_F64) {
        memcpy(&d, v.data, sizeof d);
    } else {
        return tr_fields_fail(err, g->name, key, "not a floating-point number");
    }
    if (!(d >= min && d <= max))
        return tr_fields_fail(err, g->name, key, "%g is not from %g to %g", d, min, max);
    *ret = d;
    return 0;
}

int tr_gguf_bool(const struct tr_gguf *g, const char *key, bool required, bool *ret,
                 struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int rc = scalar(g, key, required, &v, &found, err);
    if (rc || !found)
        return rc;
    if (v.type != TR_GGUF_BOOL || *v.data > 1)
        return tr_fields_fail(err, g->name, key, "not a boolean");
    *ret = *v.data;
    return 0;
}

int tr_gguf_string(const struct tr_gguf *g, const char *key, bool required, const char **ret,
                   size_t *ret_n, struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int rc = scalar(g, key, required, &v, &found, err);
    if (rc || !found)
        return rc;
    return tr_gguf_next_string(&v, ret, ret_n) ? 0
                                               : tr_fields_fail(err, g->name, key, "not a string");
}

bool tr_gguf_next_int(struct tr_gguf_value *v, int64_t *ret)
{
    size_t n = value_bytes[v->type];
    uint64_t x = 0;
    memcpy(&x, v->data, n);
    switch (v->type) {
    case TR_GGUF_I8:
    case TR_GGUF_I16:
    case TR_GGUF_I32:
    case TR_GGUF_I64: {
        /* Widen the sign from where the type has it. */
        unsigned shift = 64 - 8 * (unsigned)n;
        *ret = (int64_t)(x << shift) >> shift;
        break;
    }
    case TR_GGUF_U8:
    case TR_GGUF_U16:
    case TR_GGUF_U32:
    case TR_GGUF_U64:
    case TR_GGUF_BOOL:
        if (x > INT64_MAX)
            return false;
        *ret = (int64_t)x;
        break;
    default:
        return false;
    }
    v->data += n;
    v->count--;
    return true;
}

bool tr_gguf_next_string(struct tr_gguf_value *v, const char **ret, size_t *ret_n)
{
    if (v->type != TR_GGUF_STRING)
        return false;
    uint64_t n;
    memcpy(&n, v->data, sizeof n);
    *ret = (const char *)v->data + sizeof n;
    *ret_n = n;
    v->data += sizeof n + n;
    v->count--;
    return true;
}
