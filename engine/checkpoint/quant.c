/* Which modules are quantised, and what they become; see quant.h. */
#include "engine/checkpoint/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/quant_internal.h"

/* Suffixes that say nothing of the weight: what the module does with its inputs and outputs. */
static const char *const ignored[] = {"input_scale",      "input_global_scale",
                                      "input_zero_point", "activation_scale",
                                      "output_scale",     "k_scale",
                                      "v_scale",          "q_scale"};
/* Those that a scheme may have. */
static const char *const known[] = {"weight",
                                    "weight_packed",
                                    "weight_scale",
                                    "weight_scale_inv",
                                    "weight_scale_2",
                                    "weight_shape",
                                    "weight_zero_point",
                                    "weight_g_idx",
                                    "weight_global_scale",
                                    "qweight",
                                    "qzeros",
                                    "scales",
                                    "g_idx",
                                    "biases"};

static bool listed(const char *suffix, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(suffix, list[i]) == 0)
            return true;
    return false;
}

/* ---- what it becomes ---- */

bool tr__quant_holds(const struct tr_quant *q, enum tr_wtype type)
{
    if (q->index.rows || !tr_file_row_bytes(type, q->k))
        return false;
    if (q->scheme == TR_SCHEME_NVFP4)
        return type == TR_W_NVFP4;
    if (q->group % 32 || q->scheme == TR_SCHEME_FP8)
        return false;
    switch (type) {
    case TR_W_Q4_0:
        return !q->biases.rows && q->lowest >= -8 && q->highest <= 7;
    case TR_W_Q5_0:
        return !q->biases.rows && q->lowest >= -16 && q->highest <= 15;
    case TR_W_Q8_0:
        return !q->biases.rows && q->lowest >= -128 && q->highest <= 127;
    case TR_W_Q4_1:
        return q->biases.rows && q->highest <= 15;
    case TR_W_Q5_1:
        return q->biases.rows && q->highest <= 31;
    case TR_W_MXFP4:
        return q->scheme == TR_SCHEME_MXFP4;
    default:
        return false;
    }
}

/* The bounds of code - zero; E2M1 in halves. */
static void set_bounds(struct tr_quant *q)
{
    int most = (1 << q->bits) - 1;
    switch (q->scheme) {
    case TR_SCHEME_NVFP4:
    case TR_SCHEME_MXFP4:
        q->lowest = -12;
        q->highest = 12;
        break;
    case TR_SCHEME_MLX:
        q->lowest = 0;
        q->highest = most;
        break;
    default:
        q->lowest = q->zeros.rows && !q->symmetric ? -most : -(1 << (q->bits - 1));
        q->highest = q->zeros.rows && !q->symmetric ? most : (1 << (q->bits - 1)) - 1;
        break;
    }
}

static void choose_type(struct tr_quant *q)
{
    /* By falling worth: fewest bits first, each without loss. */
    static const enum tr_wtype order[] = {TR_W_MXFP4, TR_W_NVFP4, TR_W_Q4_0, TR_W_Q4_1,
                                          TR_W_Q5_0,  TR_W_Q5_1,  TR_W_Q8_0};
    q->kept = q->k % 32 ? TR_W_BF16 : TR_W_Q8_0;
    for (size_t i = TR_ARRAY_LEN(order); i-- > 0;)
        if (tr__quant_holds(q, order[i]))
            q->kept = order[i];
}

static void name_scheme(struct tr_quant *q)
{
    static const char *const names[] = {
        [TR_SCHEME_PACKED] = "int",  [TR_SCHEME_INT8] = "int",    [TR_SCHEME_FP8] = "FP8",
        [TR_SCHEME_NVFP4] = "NVFP4", [TR_SCHEME_MXFP4] = "MXFP4", [TR_SCHEME_GPTQ] = "GPTQ int",
        [TR_SCHEME_AWQ] = "AWQ int", [TR_SCHEME_MLX] = "MLX int"};
    char bits[16] = "", groups[32] = "", order[16] = "";
    if (q->scheme != TR_SCHEME_FP8 && q->scheme != TR_SCHEME_NVFP4 && q->scheme != TR_SCHEME_MXFP4)
        snprintf(bits, sizeof bits, "%d", q->bits);
    if (q->scales.rows * q->scales.cols > 1 && q->block_rows > 1)
        snprintf(groups, sizeof groups, ", blocks of %d x %d", q->block_rows, q->group);
    else if (bits[0] ? q->group < q->k || q->biases.rows || q->zeros.rows
                     : q->scheme == TR_SCHEME_FP8 && q->scales.cols > 1)
        snprintf(groups, sizeof groups, ", groups of %d", q->group);
    if (q->index.rows)
        snprintf(order, sizeof order, ", g_idx");
    snprintf(q->stored, sizeof q->stored, "%s%s%s%s", names[q->scheme], bits, groups, order);
}

/* ---- the search ---- */

/* Is it the tensor with the codes of a quantised module? */
static bool is_carrier(const struct tr_tensor *t, const char *suffix)
{
    static const char *const types[] = {"F8_E4M3", "F8_E5M2", "I8", "U8", "U32"};
    return strcmp(suffix, "weight_packed") == 0 || strcmp(suffix, "qweight") == 0 ||
           (strcmp(suffix, "weight") == 0 && listed(t->type_name, types, TR_ARRAY_LEN(types)));
}

static int find_module(struct tr_module *m, const char *suffix)
{
    int r = tr__quant_scheme(m, suffix);
    if (r)
        return r;
    set_bounds(m->q);
    choose_type(m->q);
    name_scheme(m->q);
    return 0;
}

/* Marks a tensor of the module; one that no scheme has is refused. */
static int mark_part(const struct tr_module *m, struct tr_tensor *t, const char *carrier)
{
    const char *suffix = t->name + strlen(m->prefix);
    if (strchr(suffix, '.'))
        return 0;
    t->part = true;
    bool second = strcmp(suffix, "weight") == 0 && strcmp(carrier, "weight") != 0;
    if (!second && (listed(suffix, known, TR_ARRAY_LEN(known)) ||
                    listed(suffix, ignored, TR_ARRAY_LEN(ignored))))
        return 0;
    return tr__quant_fail(m, t, "stands beside %s and is not understood", carrier);
}

/* All tensors of the module stand together, the carrier, number i, among them. */
static int mark_parts(const struct tr_module *m, struct tr_source *s, size_t i, const char *carrier)
{
    size_t length = strlen(m->prefix), first = i;
    int r = 0;
    while (first && strncmp(s->tensors[first - 1].name, m->prefix, length) == 0)
        first--;
    for (; first < s->n_tensors && !r; first++) {
        if (strncmp(s->tensors[first].name, m->prefix, length) != 0)
            break;
        r = mark_part(m, &s->tensors[first], carrier);
    }
    return r;
}

/* The matrix as a tensor: the carrier's place, the matrix' shape. */
static struct tr_tensor describe(const struct tr_tensor *carrier, struct tr_quant *q)
{
    struct tr_tensor t = *carrier;
    t.type = TR_W_COUNT;
    t.type_name = q->stored;
    t.bytes = q->bytes;
    t.quant = q;
    t.part = false;
    if (q->scheme == TR_SCHEME_GPTQ || q->scheme == TR_SCHEME_AWQ)
        t.dims[0] = q->rows;
    t.dims[t.n_dims - 1] = (uint64_t)q->k;
    return t;
}

/* Tensor i, if it carries a module; what it becomes is put in *ret then. */
static int look_at(struct tr_source *s, size_t i, const struct tr_quant_config *config,
                   struct tr_tensor *ret, struct tr_err *err)
{
    struct tr_tensor *t = &s->tensors[i];
    char prefix[TR_MAX_NAME + 1];
    const char *dot = strrchr(t->name, '.');
    const char *suffix = dot ? dot + 1 : t->name;
    if (listed(suffix, ignored, TR_ARRAY_LEN(ignored)))
        t->part = true;
    if (!dot || !is_carrier(t, suffix))
        return 0;
    struct tr_quant *q = calloc(1, sizeof *q);
    if (!q)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct tr_module m = {
        .source = s, .config = config, .prefix = prefix, .carrier = t, .q = q, .err = err};
    snprintf(prefix, sizeof prefix, "%.*s", (int)(suffix - t->name), t->name);
    int r = t->n_dims < 2 ? tr__quant_fail(&m, t, "expected rows and columns")
                          : find_module(&m, suffix);
    if (!r)
        r = mark_parts(&m, s, i, suffix);
    if (r)
        free(q);
    else
        *ret = describe(t, q);
    return r;
}

int tr__quant_find(struct tr_source *s, const struct tr_quant_config *config, struct tr_err *err)
{
    int r = 0;
    for (size_t i = 0; i < s->n_tensors && !r; i++) {
        struct tr_tensor t = {0};
        r = look_at(s, i, config, &t, err);
        if (r || !t.quant)
            continue;
        /* The carrier becomes the matrix. Its new place in the order is among the module's tensors:
         * looking for those of others goes on as before. */
        s->tensors[i] = t;
        memcpy(strrchr(t.name, '.'), ".weight", sizeof ".weight");
    }
    return r ? r : tr__source_seal(s, err);
}
