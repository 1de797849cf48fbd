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
#include "engine/checkpoint/gguf_internal.h"

enum {
    MAX_HEADER = 256 << 20, /* bytes; the largest vocabularies need some ten MiB */
    MAX_KEYS = 65536,
    MAX_KEY = 65535 /* bytes, as the format has it */
};

/* One file's header, read as far as it was needed. */
struct reader {
    const struct tr_file *f;
    struct tr_gguf *g; /* whose header grows */
    size_t have, pos;
    struct tr_err *err;
};

static const struct {
    const char *name; /* NULL: no such type */
    uint16_t elements, bytes;
    enum tr_wtype type;
} tensor_types[] = {
    [0] = {"F32", 1, 4, TR_W_F32},
    [1] = {"F16", 1, 2, TR_W_F16},
    [2] = {"Q4_0", 32, 18, TR_W_Q4_0},
    [3] = {"Q4_1", 32, 20, TR_W_Q4_1},
    [6] = {"Q5_0", 32, 22, TR_W_Q5_0},
    [7] = {"Q5_1", 32, 24, TR_W_Q5_1},
    [8] = {"Q8_0", 32, 34, TR_W_Q8_0},
    [10] = {"Q2_K", 256, 84, TR_W_Q2_K},
    [11] = {"Q3_K", 256, 110, TR_W_Q3_K},
    [12] = {"Q4_K", 256, 144, TR_W_Q4_K},
    [13] = {"Q5_K", 256, 176, TR_W_Q5_K},
    [14] = {"Q6_K", 256, 210, TR_W_Q6_K},
    [16] = {"IQ2_XXS", 256, 66, TR_W_IQ2_XXS},
    [17] = {"IQ2_XS", 256, 74, TR_W_IQ2_XS},
    [18] = {"IQ3_XXS", 256, 98, TR_W_IQ3_XXS},
    [19] = {"IQ1_S", 256, 50, TR_W_IQ1_S},
    [20] = {"IQ4_NL", 32, 18, TR_W_IQ4_NL},
    [21] = {"IQ3_S", 256, 110, TR_W_IQ3_S},
    [22] = {"IQ2_S", 256, 82, TR_W_IQ2_S},
    [23] = {"IQ4_XS", 256, 136, TR_W_IQ4_XS},
    [24] = {"I8", 1, 1, TR_W_COUNT},
    [25] = {"I16", 1, 2, TR_W_COUNT},
    [26] = {"I32", 1, 4, TR_W_COUNT},
    [27] = {"I64", 1, 8, TR_W_COUNT},
    [28] = {"F64", 1, 8, TR_W_COUNT},
    [29] = {"IQ1_M", 256, 56, TR_W_IQ1_M},
    [30] = {"BF16", 1, 2, TR_W_BF16},
    [34] = {"TQ1_0", 256, 54, TR_W_TQ1_0},
    [35] = {"TQ2_0", 256, 66, TR_W_TQ2_0},
    [39] = {"MXFP4", 32, 17, TR_W_MXFP4},
    [40] = {"NVFP4", 64, 36, TR_W_NVFP4},
    [41] = {"Q1_0", 128, 18, TR_W_Q1_0},
    [42] = {"Q2_0", 64, 18, TR_W_Q2_0},
};

/* ---- reading ---- */

static int bad(const struct reader *in, const char *fmt, ...) TR_PRINTF(2, 3);
static int bad(const struct reader *in, const char *fmt, ...)
{
    struct tr_err inner;
    va_list ap;
    va_start(ap, fmt);
    tr_err_vset(&inner, TR_EFORMAT, NULL, fmt, ap);
    va_end(ap);
    return tr_err_set(in->err, TR_EFORMAT, NULL, "%s: %s", in->f->name, inner.msg);
}

/* The next n bytes are in memory after it, or it fails. */
static int need(struct reader *in, uint64_t n)
{
    if (n > in->f->size - in->pos)
        return bad(in, "ends inside its header: %llu bytes, wants %llu more at byte %zu",
                   (unsigned long long)in->f->size, (unsigned long long)n, in->pos);
    if (n <= in->have - in->pos)
        return 0;
    if (n > MAX_HEADER - TR_MIN(in->pos, (size_t)MAX_HEADER))
        return bad(in, "its header is larger than %d bytes", MAX_HEADER);
    /* In growing steps, so that a header costs few reads and no more than twice its size. */
    size_t want = TR_MAX(TR_MAX(in->pos + n, 2 * in->have), (size_t)1 << 16);
    want = TR_MIN(want, in->f->size);
    uint8_t *p = realloc(in->g->header, want);
    if (!p) {
        tr_err_set(in->err, TR_ENOMEM, NULL, "out of memory");
        return TR_ENOMEM;
    }
    in->g->header = p;
    int r = tr__file_read(in->f, in->have, p + in->have, want - in->have, in->err);
    if (!r)
        in->have = want;
    return r;
}

static int read_bytes(struct reader *in, void *dst, size_t n)
{
    int r = need(in, n);
    if (r)
        return r;
    memcpy(dst, in->g->header + in->pos, n);
    in->pos += n;
    return 0;
}

static int read_u32(struct reader *in, uint32_t *ret)
{
    return read_bytes(in, ret, sizeof *ret);
}

static int read_u64(struct reader *in, uint64_t *ret)
{
    return read_bytes(in, ret, sizeof *ret);
}

/* A length-counted string; *ret is its offset. */
static int read_string(struct reader *in, size_t *ret, size_t *ret_n)
{
    uint64_t n;
    int r = read_u64(in, &n);
    if (!r)
        r = need(in, n);
    if (r)
        return r;
    *ret = in->pos;
    *ret_n = n;
    in->pos += n;
    return 0;
}

static int skip_strings(struct reader *in, uint64_t count)
{
    int r = 0;
    size_t at, n;
    for (uint64_t i = 0; i < count && !r; i++)
        r = read_string(in, &at, &n);
    return r;
}

/* ---- metadata ---- */

static int read_value(struct reader *in, struct tr_gguf_entry *e)
{
    uint32_t type;
    int r = read_u32(in, &type);
    if (r)
        return r;
    e->count = 1;
    e->array = type == TR_GGUF_ARRAY;
    if (e->array) {
        r = read_u32(in, &type);
        if (!r)
            r = read_u64(in, &e->count);
        if (r)
            return r;
    }
    if (type >= TR_GGUF_TYPES || type == TR_GGUF_ARRAY)
        return bad(in, "a metadata value has the unknown type %u", type);
    e->type = (enum tr_gguf_type)type;
    e->value = in->pos;
    uint64_t bytes;
    if (__builtin_mul_overflow(e->count, tr__gguf_value_bytes[type], &bytes))
        bytes = UINT64_MAX;
    r = need(in, bytes);
    if (r)
        return r;
    if (type == TR_GGUF_STRING)
        return skip_strings(in, e->count);
    in->pos += bytes;
    return 0;
}

static int compare_entries(const void *a, const void *b, void *header)
{
    const struct tr_gguf_entry *x = a, *y = b;
    const uint8_t *h = header;
    return tr__gguf_compare(h + x->key, x->key_bytes, h + y->key, y->key_bytes);
}

static int read_metadata(struct reader *in, uint64_t n)
{
    struct tr_gguf *g = in->g;
    /* The least that an entry takes: length, one byte of key, type, one byte of value. */
    if (n > MAX_KEYS || n > (in->f->size - in->pos) / 14)
        return bad(in, "claims %llu metadata keys", (unsigned long long)n);
    g->entries = calloc(n ? n : 1, sizeof *g->entries);
    if (!g->entries)
        return tr_err_set(in->err, TR_ENOMEM, NULL, "out of memory");
    for (; g->n_entries < n; g->n_entries++) {
        struct tr_gguf_entry *e = &g->entries[g->n_entries];
        int r = read_string(in, &e->key, &e->key_bytes);
        if (r)
            return r;
        if (e->key_bytes == 0 || e->key_bytes > MAX_KEY)
            return bad(in, "metadata key %zu has %zu bytes", g->n_entries, e->key_bytes);
        r = read_value(in, e);
        if (r)
            return r;
    }
    qsort_r(g->entries, n, sizeof *g->entries, compare_entries, g->header);
    for (uint64_t i = 1; i < n; i++)
        if (compare_entries(&g->entries[i - 1], &g->entries[i], g->header) == 0)
            return bad(in, "a metadata key occurs twice");
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
static int read_tensor(struct reader *in, struct tr_source *s, int file, struct extent *x)
{
    struct tr_tensor t = {.file = file};
    size_t at, n;
    uint32_t n_dims, type;
    int r = read_string(in, &at, &n);
    if (!r)
        r = read_u32(in, &n_dims);
    if (r)
        return r;
    if (!tr__name_printable((const char *)in->g->header + at, n))
        return bad(in, "the name of tensor %zu is not printable", s->n_tensors);
    char name[TR_MAX_NAME + 1] = {0};
    memcpy(name, in->g->header + at, n);
    if (n_dims < 1 || n_dims > 4)
        return bad(in, "%s: has %u dimensions", name, n_dims);
    t.n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims && !r; i++)
        r = read_u64(in, &t.dims[n_dims - 1 - i]);
    if (!r)
        r = read_u32(in, &type);
    if (!r)
        r = read_u64(in, &t.offset);
    if (r)
        return r;
    if (type >= TR_ARRAY_LEN(tensor_types))
        return bad(in, "%s: has the type %u, which is newer than this program", name, type);
    if (!tensor_types[type].name)
        return bad(in, "%s: has the unknown type %u", name, type);
    t.type = tensor_types[type].type;
    t.type_name = tensor_types[type].name;
    uint64_t elements, k = t.dims[n_dims - 1];
    if (!tr__tensor_elements(&t, &elements) || elements == 0 || k % tensor_types[type].elements ||
        __builtin_mul_overflow(elements / tensor_types[type].elements, tensor_types[type].bytes,
                               &t.bytes))
        return bad(in, "%s: its shape is impossible for %s", name, t.type_name);
    if (t.offset != x->used)
        return bad(in, "%s: begins at byte %llu of the data, not %llu", name,
                   (unsigned long long)t.offset, (unsigned long long)x->used);
    if (__builtin_add_overflow(t.offset, t.bytes, &x->end) || x->end > in->f->size ||
        !pad(x->end, x->alignment, &x->used))
        return bad(in, "%s: ends at byte %llu of the data, the file has %llu bytes", name,
                   (unsigned long long)x->end, (unsigned long long)in->f->size);
    return tr__source_add(s, &t, name, n, in->err);
}

static int read_tensors(struct reader *in, struct tr_source *s, int file, uint64_t n)
{
    /* Name length and a byte, dimensions and one of them, type, offset. */
    if (n > TR_MAX_TENSORS || n > (in->f->size - in->pos) / 33)
        return bad(in, "claims %llu tensors", (unsigned long long)n);
    int64_t alignment = 32;
    int r = tr__gguf_int(in->g, "general.alignment", false, 1, 1 << 20, &alignment, in->err);
    if (r)
        return r;
    if (alignment & (alignment - 1))
        return bad(in, "general.alignment: %lld is no power of two", (long long)alignment);
    struct extent x = {.alignment = (uint64_t)alignment};
    size_t first = s->n_tensors;
    for (uint64_t i = 0; i < n && !r; i++)
        r = read_tensor(in, s, file, &x);
    uint64_t data;
    if (r || !pad(in->pos, x.alignment, &data))
        return r ? r : bad(in, "general.alignment: too large");
    /* Without tensors (a split set's first file may have none) nothing pads the header. The last
     * tensor may be padded. Neither sum can wrap: each term is at most about the file's size. */
    uint64_t end = n ? data + x.end : in->pos;
    if (in->f->size < end || in->f->size > data + x.used)
        return bad(in, "has %llu bytes, its header describes %llu", (unsigned long long)in->f->size,
                   (unsigned long long)end);
    for (size_t i = first; i < s->n_tensors; i++)
        s->tensors[i].offset += data;
    return 0;
}

/* ---- files ---- */

/* Reads one file's header into g (fresh) and its tensors into s. */
static int read_file(struct tr_gguf *g, struct tr_source *s, int file, struct tr_err *err)
{
    struct reader in = {.f = &s->files[file], .g = g, .err = err};
    char magic[4];
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_entries = 0;
    g->name = strdup(in.f->name);
    int r = g->name ? read_bytes(&in, magic, sizeof magic)
                    : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (!r && memcmp(magic, "GGUF", 4) != 0)
        r = bad(&in, "not a GGUF file");
    if (!r)
        r = read_u32(&in, &version);
    if (!r && version != 2 && version != 3)
        r = bad(&in, "GGUF version %u is not supported (2 and 3 are, little-endian)", version);
    if (!r)
        r = read_u64(&in, &n_tensors);
    if (!r)
        r = read_u64(&in, &n_entries);
    if (!r)
        r = read_metadata(&in, n_entries);
    return r ? r : read_tensors(&in, s, file, n_tensors);
}

struct tr_gguf *tr__gguf_close(struct tr_gguf *g)
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
    int r = tr__source_add_file(s, path, &file, err);
    if (r)
        return r;
    struct tr_gguf *g = calloc(1, sizeof *g);
    if (!g)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int64_t want = *count, found_no = 0, found = 1;
    r = read_file(g, s, file, err);
    if (!r)
        r = tr__gguf_int(g, "split.no", false, 0, UINT16_MAX, &found_no, err);
    if (!r)
        r = tr__gguf_int(g, "split.count", false, 0, TR_MAX_FILES, &found, err);
    found = TR_MAX(found, 1);
    if (!r && (found_no != no || (want && found != want)))
        r = tr__fields_fail(err, g->name, "split.no", "part %lld of %lld, expected part %lld",
                            (long long)found_no + 1, (long long)found, (long long)no + 1);
    if (r) {
        tr__gguf_close(g);
        return r;
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
        return tr__fields_fail(err, g->name, "split.count", "the name of part 1 must end in %s",
                               tail);
    int r = 0;
    for (int i = 1; i < count && !r; i++) {
        struct tr_buf other = {0};
        struct tr_gguf *part = NULL;
        tr_buf_add(&other, path, n - m);
        tr_buf_addf(&other, "-%05d-of-%05d.gguf", i + 1, (int)count);
        r = other.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory")
                      : read_part(&part, s, other.data, i, &count, err);
        tr__gguf_close(part);
        tr_buf_done(&other);
    }
    int64_t tensors = (int64_t)s->n_tensors;
    if (!r)
        r = tr__gguf_int(g, "split.tensors.count", false, 0, INT32_MAX, &tensors, err);
    if (!r && (size_t)tensors != s->n_tensors)
        r = tr__fields_fail(err, g->name, "split.tensors.count", "says %lld, the parts have %zu",
                            (long long)tensors, s->n_tensors);
    return r;
}

int tr__gguf_open(struct tr_gguf **ret, struct tr_source *s, const char *path, struct tr_err *err)
{
    struct tr_gguf *g = NULL;
    int64_t count = 0;
    int r = read_part(&g, s, path, 0, &count, err);
    if (!r && count > 1)
        r = read_other_parts(g, s, path, count, err);
    if (!r)
        r = tr__source_seal(s, err);
    if (r)
        g = tr__gguf_close(g);
    else
        *ret = g;
    return r;
}
