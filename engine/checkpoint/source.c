/* The table of a checkpoint's tensors; see source.h. Sorted once, searched by bisection. */
#include "engine/checkpoint/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tr__source_init(struct tr_source *s, struct tr_err *err)
{
    *s = (struct tr_source){.files = calloc(TR_MAX_FILES, sizeof *s->files)};
    return s->files ? 0 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
}

void tr__source_done(struct tr_source *s)
{
    for (int i = 0; i < s->n_files; i++)
        tr__file_done(&s->files[i]);
    free(s->files);
    for (size_t i = 0; i < s->n_tensors; i++)
        free(s->tensors[i].name);
    for (size_t i = 0; i < s->n_tensors; i++)
        free(s->tensors[i].quant);
    free(s->tensors);
    tr_buf_done(&s->warnings);
    *s = (struct tr_source){0};
}

int tr__source_add_file(struct tr_source *s, const char *path, int *ret, struct tr_err *err)
{
    if (s->n_files == TR_MAX_FILES)
        return tr_err_set(err, TR_EFORMAT, NULL, "more than %d files of weights", TR_MAX_FILES);
    int r = tr__file_open(&s->files[s->n_files], path, err);
    if (!r)
        *ret = s->n_files++;
    return r;
}

bool tr__name_printable(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    return n > 0 && n <= TR_MAX_NAME;
}

int tr__source_add(struct tr_source *s, const struct tr_tensor *t, const char *name, size_t n,
                   struct tr_err *err)
{
    const char *file = s->files[t->file].name;
    if (!tr__name_printable(name, n))
        return tr_err_set(err, TR_EFORMAT, NULL, "%s: the name of tensor %zu is not printable",
                          file, s->n_tensors);
    if (s->n_tensors == TR_MAX_TENSORS)
        return tr_err_set(err, TR_EFORMAT, NULL, "%s: more than %d tensors", file, TR_MAX_TENSORS);
    if (s->n_tensors == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;
        struct tr_tensor *p = realloc(s->tensors, cap * sizeof *p);
        if (!p)
            return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        s->tensors = p;
        s->cap = cap;
    }
    char *copy = strndup(name, n);
    if (!copy)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    s->tensors[s->n_tensors] = *t;
    s->tensors[s->n_tensors++].name = copy;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct tr_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

int tr__source_seal(struct tr_source *s, struct tr_err *err)
{
    if (s->n_tensors)
        qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_name);
    for (size_t i = 1; i < s->n_tensors; i++) {
        const struct tr_tensor *a = &s->tensors[i - 1], *b = &s->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return tr_err_set(err, TR_EFORMAT, a->name, "%s: occurs twice, in %s and in %s",
                              a->name, s->files[a->file].name, s->files[b->file].name);
    }
    return 0;
}

struct tr_tensor *tr__source_find(const struct tr_source *s, const char *name)
{
    size_t lo = 0, hi = s->n_tensors;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(name, s->tensors[mid].name);
        if (c == 0)
            return &s->tensors[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

void tr__source_warn(struct tr_source *s, const char *fmt, ...)
{
    struct tr_err text;
    va_list ap;
    va_start(ap, fmt);
    tr_err_vset(&text, TR_EFORMAT, NULL, fmt, ap);
    va_end(ap);
    tr_buf_addf(&s->warnings, "%s%s", s->warnings.len ? "\n" : "", text.msg);
}

bool tr__tensor_elements(const struct tr_tensor *t, uint64_t *ret)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(n, t->dims[i], &n) || n > INT64_MAX)
            return false;
    *ret = n;
    return true;
}

void tr__tensor_show_shape(struct tr_buf *b, const uint64_t *dims, int n_dims)
{
    tr_buf_addc(b, '[');
    for (int i = 0; i < n_dims; i++)
        tr_buf_addf(b, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
    tr_buf_addc(b, ']');
}

void tr__names_add(struct tr_names *names, const char *name)
{
    size_t used = strlen(names->text), left = sizeof names->text - used;
    names->n++;
    /* Once one name did not fit, none follows: the list stays a prefix of all names. */
    if (names->shown + 1 == names->n && strlen(name) + 3 <= left) {
        snprintf(names->text + used, left, "%s%s", used ? ", " : "", name);
        names->shown++;
    }
}

const char *tr__names_rest(const struct tr_names *names, char rest[32])
{
    rest[0] = '\0';
    if (names->shown < names->n)
        snprintf(rest, 32, " and %zu more", names->n - names->shown);
    return rest;
}
