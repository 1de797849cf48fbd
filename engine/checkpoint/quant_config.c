/* quantization_config, quantization and hf_quant_config.json; see quant_config.h. */
#include "engine/checkpoint/quant_config.h"

#include <string.h>

/* The value of a string must be one of the list, which ends with NULL. */
static int one_of(const struct tr_json *object, const char *key, const char *const *names,
                  struct tr_err *err)
{
    struct tr_json v = tr_json_get(object, key);
    const char *s = names[0];
    int r = tr_json_opt_string(object, key, &s, NULL, err);
    if (r)
        return r;
    for (; *names; names++)
        if (strcmp(s, *names) == 0)
            return 0;
    return tr_json_fail(&v, err, "\"%.40s\" is not supported", s);
}

static int read_bits(const struct tr_json *object, const char *key, struct tr_quant_config *c,
                     struct tr_err *err)
{
    int64_t bits;
    int r = tr_json_int(object, key, 2, TR_QUANT_MAX_BITS, &bits, err);
    if (!r)
        c->bits |= 1U << bits;
    return r;
}

static int read_group(const struct tr_json *object, struct tr_quant_config *c, struct tr_err *err)
{
    int64_t group;
    struct tr_json v = tr_json_get(object, "group_size");
    int r = tr_json_int(object, "group_size", -1, 1 << 20, &group, err);
    c->group = (int)group;
    return r || group ? r : tr_json_fail(&v, err, "0 columns have no scale");
}

static int read_block(const struct tr_json *object, const char *key, struct tr_quant_config *c,
                      struct tr_err *err)
{
    struct tr_json list;
    int r = tr_json_opt_array(object, key, &list, err);
    if (r || !tr_json_given(&list))
        return r;
    if (tr_json_size(&list) != 2)
        return tr_json_fail(&list, err, "expected rows and columns");
    for (size_t i = 0; i < 2 && !r; i++) {
        struct tr_json v = tr_json_at(&list, i);
        int64_t x;
        r = tr_json_as_int(&v, 1, 1 << 20, &x, err);
        if (!r && c->block[i] && c->block[i] != x)
            r = tr_json_fail(&v, err, "another group has blocks of %d", c->block[i]);
        if (!r)
            c->block[i] = (int)x;
    }
    return r;
}

/* compressed-tensors: a group of modules. Which they are does not matter. */
static int read_scheme(const struct tr_json *group, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const kinds[] = {"int", "float", NULL};
    static const char *const orders[] = {"none", "weight", "static", "dynamic", "group", NULL};
    static const char *const formats[] = {
        "pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
        "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", NULL};
    struct tr_json weights;
    struct tr_quant_config own = {0};
    bool symmetric = true;
    const char *order = orders[0];
    int r = one_of(group, "format", formats, err);
    if (!r)
        r = tr_json_opt_object(group, "weights", &weights, err);
    if (r || !tr_json_given(&weights))
        return r;
    r = one_of(&weights, "type", kinds, err);
    if (!r)
        r = read_bits(&weights, "num_bits", &own, err);
    if (!r)
        r = tr_json_opt_bool(&weights, "symmetric", &symmetric, err);
    if (!r)
        r = one_of(&weights, "actorder", orders, err);
    if (!r)
        r = tr_json_opt_string(&weights, "actorder", &order, NULL, err);
    if (r)
        return r;
    if (symmetric)
        c->shifted &= ~own.bits;
    else if (!(c->bits & own.bits))
        c->shifted |= own.bits;
    c->bits |= own.bits;
    c->ordered |= strcmp(order, "group") == 0;
    return read_block(&weights, "block_structure", c, err);
}

static int read_compressed(const struct tr_json *q, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const formats[] = {"mixed-precision",
                                          "pack-quantized",
                                          "int-quantized",
                                          "float-quantized",
                                          "naive-quantized",
                                          "nvfp4-pack-quantized",
                                          "mxfp4-pack-quantized",
                                          "mxfp8-quantized",
                                          "dense",
                                          NULL};
    static const char *const dense[] = {"dense", NULL};
    struct tr_json groups, group, sparsity, transform;
    void *iter = NULL;
    int r = one_of(q, "format", formats, err);
    if (!r)
        r = tr_json_opt_object(q, "sparsity_config", &sparsity, err);
    if (!r)
        r = one_of(&sparsity, "format", dense, err);
    transform = tr_json_get(q, "transform_config");
    if (!r && tr_json_size(&transform))
        r = tr_json_fail(&transform, err, "transformed weights are not supported");
    if (!r)
        r = tr_json_opt_object(q, "config_groups", &groups, err);
    while (!r && tr_json_next(&groups, &iter, &group))
        r = read_scheme(&group, c, err);
    return r;
}

static int read_modelopt(const struct tr_json *q, struct tr_err *err)
{
    static const char *const algorithms[] = {"NVFP4", "FP8", "MIXED_PRECISION", NULL};
    return one_of(q, "quant_algo", algorithms, err);
}

static int read_fp8(const struct tr_json *q, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const formats[] = {"e4m3", "float8_e4m3fn", NULL};
    static const char *const scales[] = {"float", "ue8m0", NULL};
    int r = one_of(q, "fmt", formats, err);
    if (!r)
        r = one_of(q, "scale_fmt", scales, err);
    return r ? r : read_block(q, "weight_block_size", c, err);
}

static int read_gptq(const struct tr_json *q, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const formats[] = {"gptq", "gptq_v2", NULL};
    const char *format = formats[0];
    int r = one_of(q, "checkpoint_format", formats, err);
    if (!r)
        r = tr_json_opt_string(q, "checkpoint_format", &format, NULL, err);
    if (!r)
        r = tr_json_opt_bool(q, "desc_act", &c->ordered, err);
    if (!r)
        r = read_bits(q, "bits", c, err);
    c->minus_one = !r && strcmp(format, "gptq") == 0;
    return r ? r : read_group(q, c, err);
}

static int read_awq(const struct tr_json *q, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const versions[] = {"gemm", NULL};
    struct tr_json v = tr_json_get(q, "bits");
    int r = one_of(q, "version", versions, err);
    if (!r)
        r = read_bits(q, "bits", c, err);
    if (!r && c->bits != 1U << 4)
        r = tr_json_fail(&v, err, "only 4 is supported");
    return r ? r : read_group(q, c, err);
}

static int read_mlx(const struct tr_json *q, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const modes[] = {"affine", NULL};
    c->modules = *q;
    int r = one_of(q, "mode", modes, err);
    if (!r)
        r = read_bits(q, "bits", c, err);
    return r ? r : read_group(q, c, err);
}

static int read_method(const struct tr_json *q, struct tr_quant_config *c, struct tr_err *err)
{
    static const char *const names[] = {[TR_QUANT_COMPRESSED] = "compressed-tensors",
                                        [TR_QUANT_MODELOPT] = "modelopt",
                                        [TR_QUANT_FP8] = "fp8",
                                        [TR_QUANT_GPTQ] = "gptq",
                                        [TR_QUANT_AWQ] = "awq"};
    struct tr_json v = tr_json_get(q, "quant_method");
    const char *name = NULL;
    int r = tr_json_opt_string(q, "quant_method", &name, NULL, err);
    if (r)
        return r;
    c->method = name ? TR_QUANT_NONE : TR_QUANT_MLX;
    for (enum tr_quant_method m = TR_QUANT_COMPRESSED; name && m <= TR_QUANT_AWQ; m++)
        if (strcmp(name, names[m]) == 0)
            c->method = m;
    switch (c->method) {
    case TR_QUANT_COMPRESSED:
        return read_compressed(q, c, err);
    case TR_QUANT_MODELOPT:
        return read_modelopt(q, err);
    case TR_QUANT_FP8:
        return read_fp8(q, c, err);
    case TR_QUANT_GPTQ:
        return read_gptq(q, c, err);
    case TR_QUANT_AWQ:
        return read_awq(q, c, err);
    case TR_QUANT_MLX:
        return read_mlx(q, c, err);
    case TR_QUANT_NONE:
    default:
        return tr_json_fail(&v, err,
                            "\"%.40s\" is not supported: compressed-tensors, modelopt, "
                            "fp8, gptq, awq and MLX's are",
                            name);
    }
}

int tr__quant_config_read(struct tr_quant_config *ret, const struct tr_json *root,
                          const struct tr_json *modelopt, struct tr_err *err)
{
    /* MLX says it under both keys. */
    static const char *const keys[] = {"quantization_config", "quantization"};
    struct tr_quant_config c = {0};
    struct tr_json q = {0}, v;
    int r = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(keys) && !r && !tr_json_given(&q); i++)
        r = tr_json_opt_object(root, keys[i], &q, err);
    if (!r && tr_json_given(&q))
        r = read_method(&q, &c, err);
    if (!r)
        r = tr_json_opt_object(modelopt, "quantization", &v, err);
    if (!r && tr_json_given(&v)) {
        r = read_modelopt(&v, err);
        if (c.method == TR_QUANT_NONE)
            c.method = TR_QUANT_MODELOPT;
    }
    if (!r)
        *ret = c;
    return r;
}

int tr__quant_config_module(const struct tr_quant_config *c, const char *module, int *ret_bits,
                            int *ret_group, struct tr_err *err)
{
    struct tr_quant_config own = *c;
    struct tr_json v = tr_json_get(&c->modules, module);
    if (tr_json_type(&v) == TR_JSON_OBJECT) {
        own.bits = 0;
        int r = read_mlx(&v, &own, err);
        if (r)
            return r;
    }
    *ret_bits = __builtin_ctz(own.bits | 1U << 31);
    *ret_group = own.group;
    return 0;
}
