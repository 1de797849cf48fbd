/* Looking metadata up, by key and type; see gguf.h. */
#include "engine/checkpoint/gguf_internal.h"

#include <string.h>

#include "engine/checkpoint/fields.h"

const uint8_t tr__gguf_value_bytes[TR_GGUF_TYPES] = {
    [TR_GGUF_U8] = 1,  [TR_GGUF_I8] = 1,  [TR_GGUF_U16] = 2, [TR_GGUF_I16] = 2,
    [TR_GGUF_U32] = 4, [TR_GGUF_I32] = 4, [TR_GGUF_F32] = 4, [TR_GGUF_BOOL] = 1,
    [TR_GGUF_U64] = 8, [TR_GGUF_I64] = 8, [TR_GGUF_F64] = 8, [TR_GGUF_STRING] = 8};

int tr__gguf_compare(const void *a, size_t n_a, const void *b, size_t n_b)
{
    int c = memcmp(a, b, TR_MIN(n_a, n_b));
    return c ? c : (n_a > n_b) - (n_a < n_b);
}

const char *tr__gguf_name(const struct tr_gguf *g)
{
    return g->name;
}

bool tr__gguf_find(const struct tr_gguf *g, const char *key, struct tr_gguf_value *ret)
{
    size_t lo = 0, hi = g->n_entries, n = strlen(key);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct tr_gguf_entry *e = &g->entries[mid];
        int c = tr__gguf_compare(key, n, g->header + e->key, e->key_bytes);
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
    *found = tr__gguf_find(g, key, v);
    if (!*found)
        return required ? tr__fields_fail(err, g->name, key, "missing") : 0;
    return v->array ? tr__fields_fail(err, g->name, key, "an array, expected one value") : 0;
}

int tr__gguf_int(const struct tr_gguf *g, const char *key, bool required, int64_t min, int64_t max,
                 int64_t *ret, struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int r = scalar(g, key, required, &v, &found, err);
    if (r || !found)
        return r;
    int64_t x;
    if (v.type == TR_GGUF_BOOL || tr__gguf_value_bytes[v.type] > 4 || !tr__gguf_next_int(&v, &x))
        return tr__fields_fail(err, g->name, key, "not an integer of at most 32 bits");
    if (x < min || x > max)
        return tr__fields_fail(err, g->name, key, "%lld is not from %lld to %lld", (long long)x,
                               (long long)min, (long long)max);
    *ret = x;
    return 0;
}

int tr__gguf_double(const struct tr_gguf *g, const char *key, bool required, double min, double max,
                    double *ret, struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int r = scalar(g, key, required, &v, &found, err);
    if (r || !found)
        return r;
    float f;
    double d;
    if (v.type == TR_GGUF_F32) {
        memcpy(&f, v.data, sizeof f);
        d = (double)f;
    } else if (v.type == TR_GGUF_F64) {
        memcpy(&d, v.data, sizeof d);
    } else {
        return tr__fields_fail(err, g->name, key, "not a floating-point number");
    }
    if (!(d >= min && d <= max))
        return tr__fields_fail(err, g->name, key, "%g is not from %g to %g", d, min, max);
    *ret = d;
    return 0;
}

int tr__gguf_bool(const struct tr_gguf *g, const char *key, bool required, bool *ret,
                  struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int r = scalar(g, key, required, &v, &found, err);
    if (r || !found)
        return r;
    if (v.type != TR_GGUF_BOOL || *v.data > 1)
        return tr__fields_fail(err, g->name, key, "not a boolean");
    *ret = *v.data;
    return 0;
}

int tr__gguf_string(const struct tr_gguf *g, const char *key, bool required, const char **ret,
                    size_t *ret_n, struct tr_err *err)
{
    struct tr_gguf_value v;
    bool found;
    int r = scalar(g, key, required, &v, &found, err);
    if (r || !found)
        return r;
    return tr__gguf_next_string(&v, ret, ret_n)
               ? 0
               : tr__fields_fail(err, g->name, key, "not a string");
}

bool tr__gguf_next_int(struct tr_gguf_value *v, int64_t *ret)
{
    size_t n = tr__gguf_value_bytes[v->type];
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

bool tr__gguf_next_string(struct tr_gguf_value *v, const char **ret, size_t *ret_n)
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
