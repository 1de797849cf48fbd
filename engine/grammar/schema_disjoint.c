/* What is seen at once of a schema: its types, and whether it can share a value with another. */
#include <string.h>

#include "engine/grammar/schema_internal.h"

enum { MAX_DEPTH = 12, MAX_PARTS = 32 };

/* ---- types ---- */

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned types;
    } known[] = {{"null", TR__TYPE_NULL},     {"boolean", TR__TYPE_BOOL},
                 {"number", TR__TYPE_NUMBER}, {"integer", TR__TYPE_INTEGER},
                 {"string", TR__TYPE_STRING}, {"array", TR__TYPE_ARRAY},
                 {"object", TR__TYPE_OBJECT}};

    for (size_t i = 0; i < TR_ARRAY_LEN(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].types;
    return 0;
}

unsigned tr__types_named(struct tr__schema *s, tr__site schema, tr__site type)
{
    bool list = tr_json_type(type) == TR_JSON_ARRAY;
    size_t n = list ? tr_json_size(type) : 1;
    unsigned types = 0;
    const char *name;

    for (size_t i = 0; i < n; i++) {
        struct tr_json v = list ? tr_json_at(type, i) : *type;
        unsigned one = tr_json_as_string(&v, &name, NULL, NULL) == 0 ? type_named(name) : 0;
        if (!one)
            tr__schema_fail(
                s, TR_EINVAL, schema, "type",
                "expected null, boolean, number, integer, string, array, object or a list of them");
        types |= one;
    }
    if (n == 0)
        tr__schema_fail(s, TR_EINVAL, schema, "type", "the list is empty");
    return types;
}

unsigned tr__type_of_value(const struct tr_json *v)
{
    double d;
    int64_t i;

    switch (tr_json_type(v)) {
    case TR_JSON_NULL:
        return TR__TYPE_NULL;
    case TR_JSON_BOOL:
        return TR__TYPE_BOOL;
    case TR_JSON_NUMBER:
        if (tr_json_as_int(v, INT64_MIN, INT64_MAX, &i, NULL) == 0)
            return TR__TYPE_INTEGER;
        if (tr_json_as_double(v, -1e308, 1e308, &d, NULL) < 0)
            return 0;
        return d > 9e15 || d < -9e15 ? TR__TYPE_INTEGER : TR__TYPE_FRACTION;
    case TR_JSON_STRING:
        return TR__TYPE_STRING;
    case TR_JSON_ARRAY:
        return TR__TYPE_ARRAY;
    case TR_JSON_OBJECT:
        return TR__TYPE_OBJECT;
    default:
        return 0;
    }
}

static unsigned types_of_values(tr__site list)
{
    unsigned types = 0;

    for (size_t i = 0; i < tr_json_size(list); i++) {
        struct tr_json v = tr_json_at(list, i);
        types |= tr__type_of_value(&v);
    }
    return types;
}

static unsigned types_of(struct tr__schema *s, tr__site schema, int depth);

static unsigned types_of_list(struct tr__schema *s, tr__site list, bool all, int depth)
{
    unsigned types = all ? TR__TYPE_ALL : 0;

    for (size_t i = 0; i < tr_json_size(list); i++) {
        tr__site v = tr__keep(s, tr_json_at(list, i));
        unsigned one = v ? types_of(s, v, depth + 1) : 0;
        types = all ? types & one : types | one;
    }
    return types;
}

/* At least the types of the schema's values. */
static unsigned types_of(struct tr__schema *s, tr__site schema, int depth)
{
    unsigned types = TR__TYPE_ALL;
    bool value = true;
    tr__site v;

    if (tr_json_type(schema) == TR_JSON_BOOL)
        return tr_json_as_bool(schema, &value, NULL) == 0 && !value ? 0 : TR__TYPE_ALL;
    if (depth > MAX_DEPTH || !tr__spend(s->b, 4))
        return types;
    if ((v = tr__member(s, schema, "type")))
        types &= tr__types_named(s, schema, v);
    if ((v = tr__member(s, schema, "const")))
        types &= tr__type_of_value(v);
    if ((v = tr__member(s, schema, "enum")))
        types &= types_of_values(v);
    if ((v = tr__member(s, schema, "allOf")))
        types &= types_of_list(s, v, true, depth);
    if ((v = tr__member(s, schema, "anyOf")))
        types &= types_of_list(s, v, false, depth);
    if ((v = tr__member(s, schema, "oneOf")))
        types &= types_of_list(s, v, false, depth);
    if (tr__member(s, schema, "$ref") && (v = tr__ref_target(s, schema)))
        types &= types_of(s, v, depth + 1);
    return types;
}

bool tr__possible(struct tr__schema *s, const struct tr__terms *t)
{
    unsigned types = TR__TYPE_ALL;
    tr__site v;

    for (uint32_t i = 0; i < t->n && s->b->r == 0; i++) {
        const struct tr__term *x = &t->at[i];
        if (x->kind == TR__TERM_OBJECT || x->kind == TR__TERM_REQUIRE || x->kind == TR__TERM_LACKS)
            types &= TR__TYPE_OBJECT;
        if (x->kind != TR__TERM_BASE)
            continue;
        if ((v = tr__member(s, x->site, "type")))
            types &= tr__types_named(s, x->site, v);
        if ((v = tr__member(s, x->site, "const")))
            types &= tr__type_of_value(v);
        if (!(v = tr__member(s, x->site, "enum")))
            continue;
        if (tr_json_type(v) != TR_JSON_ARRAY || tr_json_size(v) == 0)
            tr__schema_fail(s, TR_EINVAL, x->site, "enum", "expected a list of values, not empty");
        types &= types_of_values(v);
    }
    return s->b->r == 0 && types != 0;
}

/* ---- parts that all hold ---- */

struct parts {
    tr__site at[MAX_PARTS];
    int n;
};

static void add_parts(struct tr__schema *s, tr__site schema, struct parts *p)
{
    tr__site v;

    if (!schema || tr_json_type(schema) != TR_JSON_OBJECT || p->n == MAX_PARTS)
        return;
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->node == schema->node)
            return;
    p->at[p->n++] = schema;
    if ((v = tr__member(s, schema, "allOf")))
        for (size_t i = 0; i < tr_json_size(v); i++)
            add_parts(s, tr__keep(s, tr_json_at(v, i)), p);
    if (tr__member(s, schema, "$ref") && (v = tr__ref_target(s, schema)))
        add_parts(s, v, p);
}

/* enum, or const as a list of one; NULL if no part has any. */
static tr__site values_of(struct tr__schema *s, const struct parts *p, bool *is_const)
{
    tr__site v;

    for (int i = 0; i < p->n; i++) {
        *is_const = false;
        if ((v = tr__member(s, p->at[i], "enum")) && tr_json_type(v) == TR_JSON_ARRAY)
            return v;
        *is_const = true;
        if ((v = tr__member(s, p->at[i], "const")))
            return v;
    }
    return NULL;
}

static bool values_disjoint(struct tr__schema *s, const struct parts *p, const struct parts *q)
{
    bool p_const, q_const;
    tr__site a = values_of(s, p, &p_const), b = values_of(s, q, &q_const);
    size_t n = a && !p_const ? tr_json_size(a) : 1, m = b && !q_const ? tr_json_size(b) : 1;

    if (!a || !b || !tr__spend(s->b, (int64_t)(n * m)))
        return false;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < m; k++) {
            struct tr_json x = p_const ? *a : tr_json_at(a, i), y = q_const ? *b : tr_json_at(b, k);
            if (tr__json_equal(&x, &y))
                return false;
        }
    }
    return true;
}

static bool requires(struct tr__schema *s, const struct parts *p, const char *name)
{
    for (int i = 0; i < p->n; i++) {
        tr__site list = tr__member(s, p->at[i], "required");
        for (size_t k = 0; list && k < tr_json_size(list); k++) {
            struct tr_json v = tr_json_at(list, k);
            const char *one;
            if (tr_json_as_string(&v, &one, NULL, NULL) == 0 && strcmp(one, name) == 0)
                return true;
        }
    }
    return false;
}

/* Some part has no such property and allows no others. */
static bool refuses(struct tr__schema *s, const struct parts *p, const char *name)
{
    bool value = true;

    for (int i = 0; i < p->n; i++) {
        tr__site properties = tr__member(s, p->at[i], "properties"), own = NULL, rest;
        rest = tr__member(s, p->at[i], "additionalProperties");
        if (properties)
            own = tr__member(s, properties, name);
        if (own && tr_json_as_bool(own, &value, NULL) == 0 && !value)
            return true;
        if (!own && rest && !tr__member(s, p->at[i], "patternProperties") &&
            tr_json_as_bool(rest, &value, NULL) == 0 && !value)
            return true;
    }
    return false;
}

static void property_parts(struct tr__schema *s, const struct parts *p, const char *name,
                           struct parts *ret)
{
    for (int i = 0; i < p->n; i++) {
        tr__site properties = tr__member(s, p->at[i], "properties");
        if (properties)
            add_parts(s, tr__member(s, properties, name), ret);
    }
}

/* An object of p has a property that q's objects do not have, or not with such a value. */
static bool objects_disjoint(struct tr__schema *s, const struct parts *p, const struct parts *q)
{
    for (int i = 0; i < p->n; i++) {
        tr__site list = tr__member(s, p->at[i], "required");
        for (size_t k = 0; list && k < tr_json_size(list); k++) {
            struct tr_json v = tr_json_at(list, k);
            struct parts x = {.n = 0}, y = {.n = 0};
            const char *name;
            if (tr_json_as_string(&v, &name, NULL, NULL) < 0)
                continue;
            if (refuses(s, q, name))
                return true;
            property_parts(s, p, name, &x);
            property_parts(s, q, name, &y);
            if (requires(s, q, name) && values_disjoint(s, &x, &y))
                return true;
        }
    }
    return false;
}

bool tr__disjoint(struct tr__schema *s, tr__site a, tr__site b)
{
    unsigned types = types_of(s, a, 0) & types_of(s, b, 0);
    struct parts p = {.n = 0}, q = {.n = 0};

    if (types == 0)
        return true;
    add_parts(s, a, &p);
    add_parts(s, b, &q);
    if (values_disjoint(s, &p, &q))
        return true;
    return types == TR__TYPE_OBJECT && (objects_disjoint(s, &p, &q) || objects_disjoint(s, &q, &p));
}
