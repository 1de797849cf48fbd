/* Equal leaves of a schema are one: long lists of properties mostly have a few kinds of values. */

#include "engine/grammar/schema_internal.h"

enum { MAX_VALUES = 16 };

static bool is_remark(const char *key)
{
    static const char *const remarks[] = {"title",     "description", "default",
                                          "examples",  "deprecated",  "readOnly",
                                          "writeOnly", "$comment",    NULL};

    return tr__is_one_of(key, remarks);
}

static bool is_scalar(const struct tr_json *v)
{
    return tr_json_type(v) != TR_JSON_ARRAY && tr_json_type(v) != TR_JSON_OBJECT;
}

/* Says the same wherever it stands. */
static bool is_plain(const struct tr_json *v)
{
    static const char *const keys[] = {"type",
                                       "enum",
                                       "const",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "multipleOf",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       NULL};

    if (!tr__is_one_of(v->key, keys))
        return false;
    if (tr_json_type(v) != TR_JSON_ARRAY)
        return is_scalar(v);
    for (size_t i = 0; i < tr_json_size(v); i++) {
        struct tr_json one = tr_json_at(v, i);
        if (i == MAX_VALUES || !is_scalar(&one))
            return false;
    }
    return true;
}

/* False if the schema is no leaf. */
static bool hash_leaf(tr__site site, uint64_t *ret)
{
    struct tr_json v;
    void *iter = NULL;

    *ret = 1;
    while (tr_json_next(site, &iter, &v)) {
        if (is_remark(v.key))
            continue;
        if (!is_plain(&v))
            return false;
        uint64_t h = tr__json_hash(&v);
        for (const char *k = v.key; *k; k++)
            h = (h ^ (uint8_t)*k) * 0x100000001B3u;
        *ret += h ^ h >> 31; /* in whatever order */
    }
    return true;
}

static bool covers(tr__site a, tr__site b)
{
    struct tr_json v, w;
    void *iter = NULL;

    while (tr_json_next(a, &iter, &v)) {
        w = tr_json_get(b, v.key);
        if (!is_remark(v.key) && (tr_json_type(&w) == TR_JSON_ABSENT || !tr__json_equal(&v, &w)))
            return false;
    }
    return true;
}

static void place(struct tr__leaf *leaves, uint32_t cap, struct tr__leaf leaf)
{
    uint32_t at = (uint32_t)leaf.hash & (cap - 1);

    while (leaves[at].site)
        at = (at + 1) & (cap - 1);
    leaves[at] = leaf;
}

static bool grow(struct tr__schema *s)
{
    uint32_t cap = s->leaves_cap ? 2 * s->leaves_cap : 64;
    struct tr__leaf *grown = tr__alloc(s, cap * sizeof(*grown));

    if (!grown)
        return false;
    for (uint32_t i = 0; i < s->leaves_cap; i++)
        if (s->leaves[i].site)
            place(grown, cap, s->leaves[i]);
    s->leaves = grown;
    s->leaves_cap = cap;
    return true;
}

tr__site tr__leaf(struct tr__schema *s, tr__site site)
{
    uint64_t hash;
    uint32_t at;

    if (!site || tr_json_type(site) != TR_JSON_OBJECT || !tr__spend(s->b, 4) ||
        !hash_leaf(site, &hash) || (s->n_leaves >= s->leaves_cap / 2 && !grow(s)))
        return site;
    for (at = (uint32_t)hash & (s->leaves_cap - 1); s->leaves[at].site;
         at = (at + 1) & (s->leaves_cap - 1)) {
        const struct tr__leaf *x = &s->leaves[at];
        if (x->site->node == site->node ||
            (x->hash == hash && covers(x->site, site) && covers(site, x->site)))
            return x->site;
    }
    s->n_leaves++;
    s->leaves[at] = (struct tr__leaf){hash, site};
    return site;
}
