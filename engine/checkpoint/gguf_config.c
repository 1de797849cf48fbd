/*
 * GGUF metadata to struct tr_model_config.
 *
 * The metadata can say less than config.json and its other readers fill the gaps in silence. Here
 * a gap has its one reading that can't make another model (the router is a sigmoid and normalises,
 * no scale is a scale of 1, every fourth layer is global as the only converter means it), or it is
 * an error. There is no key for the embedding scale: every afmoe file means sqrt(d).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/fields.h"
#include "engine/checkpoint/gguf.h"

/* The period that is meant where the file states none. */
enum { DEFAULT_PERIOD = 4 };

enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2 };

static int fail(const struct tr_gguf *g, struct tr_err *err, const char *key, const char *text)
{
    return tr__fields_fail(err, tr__gguf_name(g), key, "%s", text);
}

static int read_integers(const struct tr_gguf *g, struct tr_model_config *c, struct tr_err *err)
{
    for (enum tr_field_id id = 0; id <= TR_FIELD_WINDOW; id++) {
        const struct tr_field *f = &tr_fields[id];
        char key[64];
        snprintf(key, sizeof key, "afmoe.%s", f->key[TR_KEYS_GGUF]);
        int64_t x = 0;
        bool required = id < TR_FIELD_REQUIRED;
        struct tr_gguf_value tokens;
        /* The directory of tokens is the vocabulary, too. */
        if (id == TR_FIELD_VOCAB_SIZE && tr__gguf_find(g, "tokenizer.ggml.tokens", &tokens) &&
            tokens.count >= (uint64_t)f->min && tokens.count <= (uint64_t)f->max) {
            x = (int64_t)tokens.count;
            required = false;
        }
        int r = tr__gguf_int(g, key, required, f->min, f->max, &x, err);
        if (r)
            return r;
        *tr__field_int(c, id) = (int)x;
    }
    return 0;
}

/* One int key that, if given, must have the one value that we compute. */
static int only(const struct tr_gguf *g, const char *key, int64_t want, struct tr_err *err)
{
    int64_t x = want;
    int r = tr__gguf_int(g, key, false, INT64_MIN, INT64_MAX, &x, err);
    if (!r && x != want)
        r = tr__fields_fail(err, tr__gguf_name(g), key, "%lld, only %lld is supported",
                            (long long)x, (long long)want);
    return r;
}

/* The same for numbers that llama.cpp's other models have. */
static int refuse_keys(const struct tr_gguf *g, struct tr_err *err)
{
    static const struct {
        const char *key;
        double neutral;
    } keys[] = {
        {"afmoe.attn_logit_softcapping", 0},   {"afmoe.final_logit_softcapping", 0},
        {"afmoe.router_logit_softcapping", 0}, {"afmoe.logit_scale", 1},
        {"afmoe.residual_scale", 1},
    };
    int r = only(g, "afmoe.expert_group_used_count", 1, err);
    for (size_t i = 0; i < TR_ARRAY_LEN(keys) && !r; i++) {
        double x = keys[i].neutral;
        r = tr__gguf_double(g, keys[i].key, false, -HUGE_VAL, HUGE_VAL, &x, err);
        if (!r && x != keys[i].neutral)
            r = tr__fields_fail(err, tr__gguf_name(g), keys[i].key, "%g is not supported, only %g",
                                x, keys[i].neutral);
    }
    return r;
}

static int read_routing(const struct tr_gguf *g, struct tr_model_config *c, struct tr_err *err)
{
    int64_t gating = GATING_SIGMOID, groups = 1;
    double scale = 1;
    c->route_norm = true;
    int r = tr__gguf_int(g, "afmoe.expert_gating_func", false, 0, INT32_MAX, &gating, err);
    if (!r && gating != GATING_SIGMOID)
        r = fail(g, err, "afmoe.expert_gating_func",
                 gating == GATING_SOFTMAX ? "softmax is not supported" : "unknown function");
    if (!r)
        r = tr__gguf_bool(g, "afmoe.expert_weights_norm", false, &c->route_norm, err);
    if (!r)
        r = tr__gguf_double(g, "afmoe.expert_weights_scale", false, 0, 1e6, &scale, err);
    if (!r)
        r = tr__gguf_int(g, "afmoe.expert_group_count", false, 0, INT32_MAX, &groups, err);
    if (!r && groups > 1)
        r = fail(g, err, "afmoe.expert_group_count", "group-limited routing is not supported");
    /* The format's word for "do not scale". */
    c->route_scale = scale == 0 ? 1 : (float)scale;
    return r;
}

static int read_rope(const struct tr_gguf *g, struct tr_model_config *c, struct tr_err *err)
{
    static const char *const thetas[] = {"afmoe.rope.freq_base", "afmoe.rope.freq_base_swa"};
    static const char *const factors[] = {"afmoe.rope.scaling.factor", "afmoe.rope.scale_linear"};
    int r = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(thetas) && !r; i++) {
        double theta = c->rope_theta;
        r = tr__gguf_double(g, thetas[i], false, 1, 1e15, &theta, err);
        if (!r && c->rope_theta != 0 && theta != c->rope_theta)
            r = fail(g, err, thetas[i], "contradicts afmoe.rope.freq_base");
        c->rope_theta = theta;
    }
    if (c->rope_theta == 0)
        c->rope_theta = 10000;
    for (size_t i = 0; i < TR_ARRAY_LEN(factors) && !r; i++) {
        double factor = 0;
        r = tr__gguf_double(g, factors[i], false, -HUGE_VAL, HUGE_VAL, &factor, err);
        if (!r && factor != 0 && factor != 1)
            r = fail(g, err, factors[i], "RoPE scaling is not supported");
    }
    const char *type = "none";
    size_t n = strlen(type);
    if (!r)
        r = tr__gguf_string(g, "afmoe.rope.scaling.type", false, &type, &n, err);
    if (!r && !(n == 4 && memcmp(type, "none", n) == 0))
        r = fail(g, err, "afmoe.rope.scaling.type", "RoPE scaling is not supported");
    return r ? r : only(g, "afmoe.rope.dimension_count", c->head_dim, err);
}

/* Layer kinds from a period (0: all have a window) or from one flag a layer (true: a window). */
static int read_kinds(const struct tr_gguf *g, struct tr_model_config *c, struct tr_err *err)
{
    static const char key[] = "afmoe.attention.sliding_window_pattern";
    int64_t period = DEFAULT_PERIOD;
    struct tr_gguf_value v;
    if (!tr__gguf_find(g, key, &v) || !v.array) {
        int r = tr__gguf_int(g, key, false, 0, INT32_MAX, &period, err);
        for (int i = 0; i < c->n_layers && !r; i++)
            c->kind[i] = period == 0 || (i + 1) % period ? TR_LOCAL : TR_GLOBAL;
        return r;
    }
    if (v.count != (uint64_t)c->n_layers)
        return tr__fields_fail(err, tr__gguf_name(g), key, "has %llu entries for %d layers",
                               (unsigned long long)v.count, c->n_layers);
    for (int i = 0; i < c->n_layers; i++) {
        int64_t x;
        if (!tr__gguf_next_int(&v, &x) || x < 0 || x > 1)
            return fail(g, err, key, "neither a period nor a flag for each layer");
        c->kind[i] = x ? TR_LOCAL : TR_GLOBAL;
    }
    return 0;
}

static int read_id(const struct tr_gguf *g, const char *key, int vocab, int *id, struct tr_err *err)
{
    int64_t x = -1;
    int r = tr__gguf_int(g, key, false, 0, vocab - 1, &x, err);
    *id = (int)x;
    return r;
}

int tr__gguf_config(const struct tr_gguf *g, struct tr_model_config *ret, struct tr_err *err)
{
    struct tr_model_config c = {0};
    const char *arch;
    size_t n;
    double eps = 0;
    int r = tr__gguf_string(g, "general.architecture", true, &arch, &n, err);
    if (!r && !(n == 5 && memcmp(arch, "afmoe", n) == 0))
        r = fail(g, err, "general.architecture", "only afmoe (Trinity) is supported");
    if (!r)
        r = refuse_keys(g, err);
    if (!r)
        r = read_integers(g, &c, err);
    if (!r)
        r = tr__gguf_double(g, "afmoe.attention.layer_norm_rms_epsilon", true, 1e-12, 1, &eps, err);
    if (!r)
        r = only(g, "afmoe.attention.value_length", c.head_dim, err);
    if (!r)
        r = read_routing(g, &c, err);
    if (!r)
        r = read_rope(g, &c, err);
    if (!r)
        r = read_kinds(g, &c, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.bos_token_id", c.vocab_size, &c.bos_id, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.eos_token_id", c.vocab_size, &c.eos_id, err);
    if (!r)
        r = read_id(g, "tokenizer.ggml.padding_token_id", c.vocab_size, &c.pad_id, err);
    if (!r)
        r = tr__fields_check(&c, TR_KEYS_GGUF, tr__gguf_name(g), err);
    if (r)
        return r;
    c.norm_eps = (float)eps;
    c.embed_scale = (float)sqrt(c.hidden_size);
    *ret = c;
    return 0;
}
