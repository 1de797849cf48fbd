/*
 * config.json to struct tr_model_config, strictly.
 *
 * Two generations of files exist. Version 4 writes rope_theta and rope_scaling at the top and the
 * router's switches (score_func, route_norm, n_group); version 5 folds the former into
 * rope_parameters and drops the latter, whose only supported values are then meant. What has
 * different defaults in different programs must be given.
 */
#include "engine/checkpoint/config.h"

#include <math.h>
#include <string.h>

#include "config/json.h"
#include "engine/checkpoint/fields.h"

/* The member of a field, under its key or the only alias in use (prime-rl's for the experts). */
static struct tr_json field_member(const struct tr_json *root, enum tr_field_id id)
{
    struct tr_json v = tr_json_get(root, tr_fields[id].key[TR_KEYS_JSON]);
    if (id != TR_FIELD_N_EXPERTS || tr_json_given(&v))
        return v;
    struct tr_json alias = tr_json_get(root, "num_local_experts");
    return tr_json_given(&alias) ? alias : v;
}

static int read_integers(const struct tr_json *root, struct tr_model_config *c, struct tr_err *err)
{
    for (enum tr_field_id id = 0; id < TR_FIELD_REQUIRED; id++) {
        const struct tr_field *f = &tr_fields[id];
        struct tr_json v = field_member(root, id);
        /* null is the documented way to say "as many as query heads". */
        if (id == TR_FIELD_N_KV_HEADS && tr_json_type(&v) == TR_JSON_NULL) {
            c->n_kv_heads = c->n_heads;
            continue;
        }
        int64_t x;
        int r = tr_json_as_int(&v, f->min, f->max, &x, err);
        if (r)
            return r;
        *tr__field_int(c, id) = (int)x;
    }
    const struct tr_field *f = &tr_fields[TR_FIELD_WINDOW];
    int64_t window = 0;
    int r = tr_json_opt_int(root, f->key[TR_KEYS_JSON], f->min, f->max, &window, err);
    c->window = (int)window;
    return r;
}

/* The value of an optional string must be the one that we compute. */
static int only(const struct tr_json *object, const char *key, const char *want, struct tr_err *err)
{
    const char *s = want;
    int r = tr_json_opt_string(object, key, &s, NULL, err);
    if (r)
        return r;
    struct tr_json v = tr_json_get(object, key);
    return strcmp(s, want) == 0 ? 0 : tr_json_fail(&v, err, "only \"%s\" is supported", want);
}

static int read_theta(const struct tr_json *object, double *theta, struct tr_err *err)
{
    double x = 0;
    int r = tr_json_opt_double(object, "rope_theta", 1, 1e15, &x, err);
    if (r || x == 0)
        return r;
    struct tr_json v = tr_json_get(object, "rope_theta");
    if (*theta != 0 && *theta != x)
        return tr_json_fail(&v, err, "%g contradicts another rope_theta of %g", x, *theta);
    *theta = x;
    return 0;
}

/* rope_scaling, rope_parameters, or the part of the latter for one layer type: no scaling of any
 * kind, and a theta that agrees with the others. */
static int read_rope(const struct tr_json *object, double *theta, struct tr_err *err)
{
    int r = only(object, "rope_type", "default", err);
    if (!r)
        r = only(object, "type", "default", err);
    if (!r)
        r = read_theta(object, theta, err);
    if (r)
        return r;
    static const char *const odd[] = {"factor", "partial_rotary_factor"};
    for (size_t i = 0; i < TR_ARRAY_LEN(odd); i++) {
        struct tr_json v = tr_json_get(object, odd[i]);
        double x = 1;
        r = tr_json_opt_double(object, odd[i], -HUGE_VAL, HUGE_VAL, &x, err);
        if (r)
            return r;
        if (x != 1)
            return tr_json_fail(&v, err, "%g is not supported", x);
    }
    return 0;
}

static int read_all_ropes(const struct tr_json *root, double *theta, struct tr_err *err)
{
    static const char *const blocks[] = {"rope_parameters", "rope_scaling"};
    static const char *const kinds[] = {"sliding_attention", "full_attention"};
    int r = read_theta(root, theta, err);
    for (size_t i = 0; i < TR_ARRAY_LEN(blocks) && !r; i++) {
        struct tr_json block, part;
        r = tr_json_opt_object(root, blocks[i], &block, err);
        if (!r)
            r = read_rope(&block, theta, err);
        for (size_t k = 0; k < TR_ARRAY_LEN(kinds) && !r; k++) {
            r = tr_json_opt_object(&block, kinds[k], &part, err);
            if (!r)
                r = read_rope(&part, theta, err);
        }
    }
    /* The default of every version of the format. */
    if (!r && *theta == 0)
        *theta = 10000;
    return r;
}

static int read_layer_types(const struct tr_json *root, struct tr_model_config *c,
                            struct tr_err *err)
{
    struct tr_json list = tr_json_get(root, "layer_types");
    if (!tr_json_given(&list)) {
        struct tr_json every = tr_json_get(root, "global_attn_every_n_layers");
        if (!tr_json_given(&every))
            return tr_json_fail(&list, err, "missing, and so is global_attn_every_n_layers");
        int64_t n;
        int r = tr_json_as_int(&every, 1, INT32_MAX, &n, err);
        for (int i = 0; i < c->n_layers && !r; i++)
            c->kind[i] = (i + 1) % n ? TR_LOCAL : TR_GLOBAL;
        return r;
    }
    int r = tr_json_expect(&list, TR_JSON_ARRAY, err);
    if (r)
        return r;
    if (tr_json_size(&list) != (size_t)c->n_layers)
        return tr_json_fail(&list, err, "has %zu entries, num_hidden_layers is %d",
                            tr_json_size(&list), c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        struct tr_json v = tr_json_at(&list, (size_t)i);
        const char *s;
        r = tr_json_as_string(&v, &s, NULL, err);
        if (r)
            return r;
        if (strcmp(s, "sliding_attention") == 0)
            c->kind[i] = TR_LOCAL;
        else if (strcmp(s, "full_attention") == 0)
            c->kind[i] = TR_GLOBAL;
        else
            return tr_json_fail(&v, err, "neither sliding_attention nor full_attention");
    }
    return 0;
}

/* Keys of this family and its relatives that would make it another model than the one we compute,
 * with the value at which they do not. */
static const struct {
    const char *key;
    double neutral;
} numbers[] = {
    {"n_group", 1},
    {"num_expert_groups", 1},
    {"topk_group", 1},
    {"num_limited_groups", 1},
    {"partial_rotary_factor", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"router_logit_softcapping", 0},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
};
static const struct {
    const char *key;
    bool neutral;
} flags[] = {
    {"attention_bias", false},    {"mlp_bias", false},        {"use_bias", false},
    {"lm_head_bias", false},      {"rope_interleave", false}, {"rope_interleaved", false},
    {"use_sliding_window", true}, {"qk_norm", true},          {"use_qk_norm", true},
};

static int refuse_keys(const struct tr_json *root, struct tr_err *err)
{
    int r = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(numbers) && !r; i++) {
        struct tr_json v = tr_json_get(root, numbers[i].key);
        double x = numbers[i].neutral;
        r = tr_json_opt_double(root, numbers[i].key, -HUGE_VAL, HUGE_VAL, &x, err);
        if (!r && x != numbers[i].neutral)
            r = tr_json_fail(&v, err, "%g is not supported, only %g", x, numbers[i].neutral);
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(flags) && !r; i++) {
        struct tr_json v = tr_json_get(root, flags[i].key);
        bool x = flags[i].neutral;
        r = tr_json_opt_bool(root, flags[i].key, &x, err);
        if (!r && x != flags[i].neutral)
            r = tr_json_fail(&v, err, "%s is not supported", x ? "true" : "false");
    }
    return r;
}

/* Of several architectures ours must be one. */
static int check_architecture(const struct tr_json *root, struct tr_err *err)
{
    static const char ours[] = "AfmoeForCausalLM";
    struct tr_json list;
    int r = tr_json_opt_array(root, "architectures", &list, err);
    size_t n = tr_json_size(&list);
    for (size_t i = 0; i < n && !r; i++) {
        struct tr_json v = tr_json_at(&list, i);
        const char *s;
        r = tr_json_as_string(&v, &s, NULL, err);
        if (!r && strcmp(s, ours) == 0)
            return 0;
    }
    return r || !n ? r : tr_json_fail(&list, err, "only %s is supported", ours);
}

static int refuse_others(const struct tr_json *root, struct tr_err *err)
{
    struct tr_json v = tr_json_get(root, "model_type");
    const char *type;
    int r = tr_json_as_string(&v, &type, NULL, err);
    if (r)
        return r;
    if (strcmp(type, "afmoe") != 0)
        return tr_json_fail(&v, err, "only \"afmoe\" (Trinity) is supported");
    r = check_architecture(root, err);
    if (!r)
        r = only(root, "hidden_act", "silu", err);
    if (!r)
        r = only(root, "score_func", "sigmoid", err);
    return r ? r : refuse_keys(root, err);
}

static int read_scalars(const struct tr_json *root, struct tr_model_config *c, struct tr_err *err)
{
    double eps, scale;
    bool mup;
    c->route_norm = true;
    int r = tr_json_double(root, "rms_norm_eps", 1e-12, 1, &eps, err);
    if (!r)
        r = tr_json_double(root, "route_scale", 1e-6, 1e6, &scale, err);
    if (!r)
        r = tr_json_bool(root, "mup_enabled", &mup, err);
    if (!r)
        r = tr_json_opt_bool(root, "route_norm", &c->route_norm, err);
    if (!r)
        r = tr_json_opt_bool(root, "tie_word_embeddings", &c->tied, err);
    if (r)
        return r;
    c->norm_eps = (float)eps;
    c->route_scale = (float)scale;
    c->embed_scale = mup ? (float)sqrt(c->hidden_size) : 1;
    return 0;
}

/* An id, a list whose first entry is meant, -1 or nothing. */
static int read_id(const struct tr_json *root, const char *key, int vocab, int *id,
                   struct tr_err *err)
{
    struct tr_json member = tr_json_get(root, key), first = tr_json_at(&member, 0);
    const struct tr_json *v = tr_json_type(&member) == TR_JSON_ARRAY ? &first : &member;
    int64_t x = -1;
    int r = tr_json_given(v) ? tr_json_as_int(v, -1, vocab - 1, &x, err) : 0;
    *id = (int)x;
    return r;
}

int tr__model_config_read(struct tr_model_config *ret, const struct tr_json *root, const char *name,
                          struct tr_err *err)
{
    struct tr_model_config all = {0}, *c = &all;
    int r = tr_json_expect(root, TR_JSON_OBJECT, err);
    if (!r)
        r = refuse_others(root, err);
    if (!r)
        r = read_integers(root, c, err);
    if (!r)
        r = read_scalars(root, c, err);
    if (!r)
        r = read_all_ropes(root, &c->rope_theta, err);
    if (!r)
        r = read_layer_types(root, c, err);
    if (!r)
        r = read_id(root, "bos_token_id", c->vocab_size, &c->bos_id, err);
    if (!r)
        r = read_id(root, "eos_token_id", c->vocab_size, &c->eos_id, err);
    if (!r)
        r = read_id(root, "pad_token_id", c->vocab_size, &c->pad_id, err);
    if (!r)
        r = tr__fields_check(c, TR_KEYS_JSON, name, err);
    if (!r)
        *ret = all;
    return r;
}

int tr__model_config_parse(struct tr_model_config *ret, const char *text, size_t n,
                           const char *name, struct tr_err *err)
{
    struct json_t *doc;
    struct tr_err inner;
    int r = tr_json_parse(&doc, text, n, &inner);
    if (r)
        return tr_err_set(err, r == TR_ENOMEM ? r : TR_EFORMAT, NULL, "%s: %s", name, inner.msg);
    struct tr_json root = tr_json_root(doc, name);
    r = tr__model_config_read(ret, &root, name, err);
    tr_json_free(doc);
    return r;
}
