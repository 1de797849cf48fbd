/* safetensors files and their index; see safetensors.h. */
#include "engine/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/json.h"

enum {
    MAX_HEADER = 100000000, /* bytes: the reference implementation's own limit */
    MAX_INDEX = 64 << 20
};

static const struct dtype {
    const char *name;
    unsigned bits;
    enum tr_wtype type;
} dtypes[] = {
    {"BF16", 16, TR_W_BF16},        {"F32", 32, TR_W_F32},          {"F16", 16, TR_W_F16},
    {"BOOL", 8, TR_W_COUNT},        {"F4", 4, TR_W_COUNT},          {"F6_E2M3", 6, TR_W_COUNT},
    {"F6_E3M2", 6, TR_W_COUNT},     {"U8", 8, TR_W_COUNT},          {"I8", 8, TR_W_COUNT},
    {"F8_E5M2", 8, TR_W_COUNT},     {"F8_E4M3", 8, TR_W_COUNT},     {"F8_E8M0", 8, TR_W_COUNT},
    {"F8_E4M3FNUZ", 8, TR_W_COUNT}, {"F8_E5M2FNUZ", 8, TR_W_COUNT}, {"I16", 16, TR_W_COUNT},
    {"U16", 16, TR_W_COUNT},        {"I32", 32, TR_W_COUNT},        {"U32", 32, TR_W_COUNT},
    {"C64", 64, TR_W_COUNT},        {"F64", 64, TR_W_COUNT},        {"I64", 64, TR_W_COUNT},
    {"U64", 64, TR_W_COUNT}};

/* An integer as the format's writers write it: 3, not 3.0. */
static int as_count(const struct tr_json *v, uint64_t *ret, struct tr_err *err)
{
    int64_t x = 0;
    if (tr_json_type(v) == TR_JSON_NUMBER && !tr_json_is_integer(v))
        return tr_json_fail(v, err, "expected integer, found a fraction");
    int r = tr_json_as_int(v, 0, INT64_MAX, &x, err);
    *ret = (uint64_t)x;
    return r;
}

/* One tensor's entry: {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}. */
static int read_entry(const struct tr_json *entry, uint64_t data, struct tr_tensor *t,
                      struct tr_err *err)
{
    const char *name;
    struct tr_json shape, offsets;
    int r = tr_json_string(entry, "dtype", &name, NULL, err);
    if (!r)
        r = tr_json_array(entry, "shape", &shape, err);
    if (!r)
        r = tr_json_array(entry, "data_offsets", &offsets, err);
    if (r)
        return r;
    const struct dtype *d = NULL;
    for (size_t i = 0; i < TR_ARRAY_LEN(dtypes) && !d; i++)
        if (strcmp(name, dtypes[i].name) == 0)
            d = &dtypes[i];
    struct tr_json dtype = tr_json_get(entry, "dtype");
    if (!d)
        return tr_json_fail(&dtype, err, "unknown type");
    t->type = d->type;
    t->type_name = d->name;
    if (tr_json_size(&shape) > TR_MAX_DIMS)
        return tr_json_fail(&shape, err, "more than %d dimensions", TR_MAX_DIMS);
    t->n_dims = (int)tr_json_size(&shape);
    for (int i = 0; i < t->n_dims; i++) {
        struct tr_json v = tr_json_at(&shape, (size_t)i);
        if ((r = as_count(&v, &t->dims[i], err)))
            return r;
    }
    uint64_t bits;
    if (!tr__tensor_elements(t, &bits) || __builtin_mul_overflow(bits, d->bits, &bits) || bits % 8)
        return tr_json_fail(&shape, err, "no memory could hold it");
    if (tr_json_size(&offsets) != 2)
        return tr_json_fail(&offsets, err, "expected two numbers");
    struct tr_json v = tr_json_at(&offsets, 0), w = tr_json_at(&offsets, 1);
    uint64_t begin, end;
    r = as_count(&v, &begin, err);
    if (!r)
        r = as_count(&w, &end, err);
    if (r)
        return r;
    t->bytes = bits / 8;
    if (end < begin || end - begin != t->bytes)
        return tr_json_fail(&offsets, err, "span %lld bytes, the shape needs %llu",
                            (long long)end - (long long)begin, (unsigned long long)t->bytes);
    if (__builtin_add_overflow(data, begin, &t->offset))
        return tr_json_fail(&offsets, err, "beyond any file");
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct tr_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The tensors [first, n_tensors) must fill the file from `data` to its end, without a gap. */
static int check_extent(struct tr_source *s, size_t first, uint64_t data, const struct tr_file *f,
                        struct tr_err *err)
{
    size_t n = s->n_tensors - first;
    struct tr_tensor *t = n ? s->tensors + first : NULL;
    uint64_t end = data, last = data;
    for (size_t i = 0; i < n; i++) {
        uint64_t stop;
        if (__builtin_add_overflow(t[i].offset, t[i].bytes, &stop))
            stop = UINT64_MAX;
        last = TR_MAX(last, stop);
    }
    if (last != f->size)
        return tr_err_set(err, TR_EFORMAT, NULL, "%s: has %llu bytes, its header describes %llu",
                          f->name, (unsigned long long)f->size, (unsigned long long)last);
    if (n)
        qsort(t, n, sizeof *t, by_offset);
    for (size_t i = 0; i < n; i++) {
        if (t[i].offset != end)
            return tr_err_set(err, TR_EFORMAT, t[i].name, "%s: %s: begins at byte %llu, not %llu",
                              f->name, t[i].name, (unsigned long long)t[i].offset,
                              (unsigned long long)end);
        end += t[i].bytes;
    }
    return 0;
}

static int read_header(struct tr_source *s, int file, const struct tr_json *root, uint64_t data,
                       struct tr_err *err)
{
    size_t first = s->n_tensors;
    int r = tr_json_expect(root, TR_JSON_OBJECT, err);
    void *iter = NULL;
    struct tr_json entry;
    while (!r && tr_json_next(root, &iter, &entry)) {
        if (entry.key_bytes == strlen("__metadata__") && strcmp(entry.key, "__metadata__") == 0) {
            r = tr_json_expect(&entry, TR_JSON_OBJECT, err);
            continue;
        }
        struct tr_tensor t = {.file = file};
        r = read_entry(&entry, data, &t, err);
        if (!r)
            r = tr__source_add(s, &t, entry.key, entry.key_bytes, err);
    }
    return r ? r : check_extent(s, first, data, &s->files[file], err);
}

int tr__safetensors_add(struct tr_source *s, int file, struct tr_err *err)
{
    const struct tr_file *f = &s->files[file];
    uint8_t head[8];
    if (f->size < sizeof head)
        return tr_err_set(err, TR_EFORMAT, NULL, "%s: has %llu bytes, a header needs more than 8",
                          f->name, (unsigned long long)f->size);
    int r = tr__file_read(f, 0, head, sizeof head, err);
    if (r)
        return r;
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    if (n > MAX_HEADER || n > f->size - sizeof head)
        return tr_err_set(err, TR_EFORMAT, NULL, "%s: has %llu bytes, its header claims %llu",
                          f->name, (unsigned long long)f->size, (unsigned long long)n);
    char *text = malloc(n ? n : 1);
    if (!text)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct json_t *doc = NULL;
    struct tr_err inner;
    r = tr__file_read(f, sizeof head, text, n, err);
    if (!r && (r = tr_json_parse(&doc, text, n, &inner)))
        r = tr_err_set(err, r == TR_ENOMEM ? r : TR_EFORMAT, NULL, "%s: header: %s", f->name,
                       inner.msg);
    free(text);
    if (r)
        return r;
    struct tr_json root = tr_json_root(doc, f->name);
    r = read_header(s, file, &root, sizeof head + n, err);
    tr_json_free(doc);
    return r;
}

/* The index's file names, sorted, each once. */
struct shards {
    const char **names; /* borrowed from the document */
    size_t n;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int collect_shards(const struct tr_json *map, struct shards *ret, struct tr_err *err)
{
    size_t n = 0, total = tr_json_size(map);
    const char **names = malloc((total + 1) * sizeof *names);
    if (!names)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int r = 0;
    void *iter = NULL;
    struct tr_json v;
    while (!r && tr_json_next(map, &iter, &v)) {
        r = tr_json_as_string(&v, &names[n], NULL, err);
        /* A name, not a way out of the folder. */
        if (!r && (!tr__name_printable(names[n], strlen(names[n])) || strchr(names[n], '/') ||
                   names[n][0] == '.'))
            r = tr_json_fail(&v, err, "not the name of a file beside the index");
        n++;
    }
    if (!r && n == 0)
        r = tr_json_fail(map, err, "names no tensor");
    if (r) {
        free(names);
        return r;
    }
    qsort(names, n, sizeof *names, by_text);
    size_t kept = 1;
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i], names[kept - 1]) != 0)
            names[kept++] = names[i];
    *ret = (struct shards){names, kept};
    return 0;
}

static int open_shards(struct tr_source *s, const char *dir, const struct shards *shards,
                       const struct tr_json *map, struct tr_err *err)
{
    struct tr_names missing = {0};
    char rest[32];
    int r = 0, file;
    for (size_t i = 0; i < shards->n && !r; i++) {
        struct tr_buf path = {0};
        tr_buf_addf(&path, "%s/%s", dir, shards->names[i]);
        if (path.oom)
            r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        else if (access(path.data, F_OK) != 0)
            tr__names_add(&missing, shards->names[i]);
        else
            r = tr__source_add_file(s, path.data, &file, err);
        tr_buf_done(&path);
    }
    if (!r && missing.n)
        r = tr_json_fail(map, err, "%zu of %zu files are not there: %s%s", missing.n, shards->n,
                         missing.text, tr__names_rest(&missing, rest));
    for (int i = 0; i < s->n_files && !r; i++)
        r = tr__safetensors_add(s, i, err);
    return r ? r : tr__source_seal(s, err);
}

/* Each tensor of the index is in the file that the index says. */
static int check_index(const struct tr_source *s, const struct tr_json *map, struct tr_err *err)
{
    struct tr_names wrong = {0};
    char rest[32];
    void *iter = NULL;
    struct tr_json v;
    while (tr_json_next(map, &iter, &v)) {
        const char *shard;
        int r = tr_json_as_string(&v, &shard, NULL, err);
        if (r)
            return r;
        const struct tr_tensor *t = tr__source_find(s, v.key);
        if (t && strcmp(s->files[t->file].name, shard) == 0)
            continue;
        struct tr_buf text = {0};
        /* A key that no tensor can have is not fit to be shown either. */
        for (const char *p = v.key; *p; p++)
            tr_buf_addc(&text, *p > ' ' && *p <= '~' ? *p : '?');
        tr_buf_addf(&text, " (not in %s)", shard);
        tr__names_add(&wrong, text.oom ? "?" : text.data);
        tr_buf_done(&text);
    }
    return wrong.n ? tr_json_fail(map, err, "%zu tensors are not where it says: %s%s", wrong.n,
                                  wrong.text, tr__names_rest(&wrong, rest))
                   : 0;
}

static int open_index(struct tr_source *s, const char *dir, const char *path, struct tr_err *err)
{
    struct json_t *doc;
    int r = tr_json_read(&doc, path, MAX_INDEX, err);
    if (r)
        return r;
    struct tr_json root = tr_json_root(doc, "model.safetensors.index.json"), map;
    struct shards shards = {0};
    r = tr_json_object(&root, "weight_map", &map, err);
    if (!r)
        r = collect_shards(&map, &shards, err);
    if (!r)
        r = open_shards(s, dir, &shards, &map, err);
    if (!r)
        r = check_index(s, &map, err);
    free(shards.names);
    tr_json_free(doc);
    return r;
}

static int open_single(struct tr_source *s, const char *path, struct tr_err *err)
{
    int file, r = tr__source_add_file(s, path, &file, err);
    if (!r)
        r = tr__safetensors_add(s, file, err);
    return r ? r : tr__source_seal(s, err);
}

/* A file that the index does not name is somebody's leftover, and may be of another model. */
static void warn_of_stray(struct tr_source *s, const char *path)
{
    for (int i = 0; i < s->n_files; i++)
        if (strcmp(s->files[i].path, path) == 0)
            return;
    tr__source_warn(s, "model.safetensors is not read: the index does not name it");
}

int tr__safetensors_open(struct tr_source *s, const char *dir, struct tr_err *err)
{
    struct tr_buf single = {0}, index = {0};
    int r;
    tr_buf_addf(&single, "%s/model.safetensors", dir);
    tr_buf_addf(&index, "%s/model.safetensors.index.json", dir);
    if (single.oom || index.oom) {
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    } else if (access(index.data, F_OK) == 0) {
        r = open_index(s, dir, index.data, err);
        if (!r && access(single.data, F_OK) == 0)
            warn_of_stray(s, single.data);
    } else if (access(single.data, F_OK) == 0) {
        r = open_single(s, single.data, err);
    } else {
        r = tr_err_set(err, TR_ENOTFOUND, NULL,
                       "neither model.safetensors nor model.safetensors.index.json in the folder");
    }
    tr_buf_done(&single);
    tr_buf_done(&index);
    return r;
}
