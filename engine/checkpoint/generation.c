/* Recommended sampling from either kind of checkpoint; see generation.h. */
#include "engine/checkpoint/generation.h"

#include <math.h>
#include <unistd.h>

#include "config/json.h"
#include "engine/checkpoint/gguf.h"

enum { MAX_BYTES = 4 << 20 }; /* of generation_config.json */

static const struct tr_sampling_defaults nothing = {
    .temperature = NAN, .top_k = -1, .top_p = NAN, .min_p = NAN, .repetition_penalty = NAN};

/* The fields with both formats' keys, and the bounds that hold for requests. */
static const struct field {
    const char *json, *gguf;
    size_t offset; /* of the float in struct tr_sampling_defaults */
    double min, max;
} fields[] = {
#define ROW(json, gguf, member, min, max)                                                          \
    {                                                                                              \
        json, "general.sampling." gguf, offsetof(struct tr_sampling_defaults, member), min, max    \
    }
    ROW("temperature", "temp", temperature, 0, 100),
    ROW("top_p", "top_p", top_p, 0, 1),
    ROW("min_p", "min_p", min_p, 0, 1),
    ROW("repetition_penalty", "penalty_repeat", repetition_penalty, 0.01, 100),
#undef ROW
};

static void put(struct tr_sampling_defaults *s, const struct field *f, double x)
{
    *(float *)(void *)((char *)s + f->offset) = (float)x;
}

static int read_fields(const struct tr_json *root, struct tr_sampling_defaults *s,
                       struct tr_err *err)
{
    int r = tr_json_expect(root, TR_JSON_OBJECT, err);
    for (size_t i = 0; i < TR_ARRAY_LEN(fields) && !r; i++) {
        double x = (double)NAN;
        r = tr_json_opt_double(root, fields[i].json, fields[i].min, fields[i].max, &x, err);
        put(s, &fields[i], x);
    }
    int64_t k = s->top_k;
    if (!r)
        r = tr_json_opt_int(root, "top_k", -1, INT32_MAX, &k, err);
    struct tr_json v = tr_json_get(root, "top_k");
    s->top_k = tr_json_given(&v) && k < 0 ? 0 : (int)k;
    return r;
}

int tr__generation_read(struct tr_generation *ret, const char *dir, struct tr_err *err)
{
    static const char name[] = "generation_config.json";
    struct tr_buf path = {0};
    struct json_t *doc = NULL;
    *ret = (struct tr_generation){.sampling = nothing};
    tr_buf_addf(&path, "%s/%s", dir, name);
    int r = path.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
    if (!r && access(path.data, F_OK) == 0)
        r = tr_json_read(&doc, path.data, MAX_BYTES, err);
    tr_buf_done(&path);
    if (!r && doc) {
        struct tr_json root = tr_json_root(doc, name);
        r = read_fields(&root, &ret->sampling, err);
    }
    tr_json_free(doc);
    return r;
}

int tr__gguf_generation(const struct tr_gguf *g, struct tr_generation *ret, struct tr_err *err)
{
    struct tr_sampling_defaults *s = &ret->sampling;
    int r = 0;
    *s = nothing;
    for (size_t i = 0; i < TR_ARRAY_LEN(fields) && !r; i++) {
        double x = (double)NAN;
        r = tr__gguf_double(g, fields[i].gguf, false, fields[i].min, fields[i].max, &x, err);
        put(s, &fields[i], x);
    }
    int64_t k = s->top_k;
    struct tr_gguf_value v;
    if (!r)
        r = tr__gguf_int(g, "general.sampling.top_k", false, INT32_MIN, INT32_MAX, &k, err);
    s->top_k = k < 0 && tr__gguf_find(g, "general.sampling.top_k", &v) ? 0 : (int)k;
    return r;
}
