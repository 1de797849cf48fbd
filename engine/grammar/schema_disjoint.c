/* What is seen at once of a schema: its types, and whether it can share a value with another. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"

enum { MAX_DEPTH = 12, MAX_PARTS = 32, MAX_MARKS = 8 };

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
static tr__site list_of(struct tr__schema *s, const struct parts *p, bool *is_const)
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

/* Values by their hashes, ascending; at = NULL: not known. */
struct values {
    const uint64_t *at;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static struct values values_of(struct tr__schema *s, const struct parts *p)
{
    bool is_const;
    tr__site list = list_of(s, p, &is_const);
    size_t n = list && !is_const ? tr_json_size(list) : 1;
    uint64_t *at = list && tr__spend(s->b, 8 * (int64_t)n) ? tr__alloc(s, n * sizeof(*at)) : NULL;

    for (size_t i = 0; at && i < n; i++) {
        struct tr_json v = is_const ? *list : tr_json_at(list, i);
        at[i] = tr__json_hash(&v);
    }
    if (at)
        qsort(at, n, sizeof(*at), compare);
    return (struct values){at, n};
}

static bool values_disjoint(struct tr__schema *s, const struct values *a, const struct values *b)
{
    if (!a->at || !b->at || !tr__spend(s->b, (int64_t)((a->n + b->n) / 4)))
        return false;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        if (a->at[i] == b->at[k])
            return false;
        if (a->at[i] < b->at[k])
            i++;
        else
            k++;
    }
    return true;
}

/* ---- outlines ---- */

struct tr__outline {
    unsigned types;
    struct parts parts;
    struct values values;
    struct mark { /* a required property whose values are known */
        const char *name;
        struct values values;
    } marks[MAX_MARKS];
    int n_marks;
};

static void property_parts(struct tr__schema *s, const struct parts *p, const char *name,
                           struct parts *ret)
{
    for (int i = 0; i < p->n; i++) {
        tr__site properties = tr__member(s, p->at[i], "properties");
        if (properties)
            add_parts(s, tr__member(s, properties, name), ret);
    }
}

static void add_marks(struct tr__schema *s, struct tr__outline *o, tr__site required)
{
    for (size_t i = 0; i < tr_json_size(required) && o->n_marks < MAX_MARKS; i++) {
        struct tr_json v = tr_json_at(required, i);
        struct parts parts = {.n = 0};
        struct mark *m = &o->marks[o->n_marks];
        if (tr_json_as_string(&v, &m->name, NULL, NULL) < 0)
            continue;
        property_parts(s, &o->parts, m->name, &parts);
        m->values = values_of(s, &parts);
        o->n_marks += m->values.at != NULL;
    }
}

const struct tr__outline *tr__outline_of(struct tr__schema *s, tr__site schema)
{
    struct tr__outline *o = tr__alloc(s, sizeof(*o));

    if (!o)
        return NULL;
    o->types = types_of(s, schema, 0);
    add_parts(s, schema, &o->parts);
    o->values = values_of(s, &o->parts);
    for (int i = 0; i < o->parts.n; i++) {
        tr__site required = tr__member(s, o->parts.at[i], "required");
        if (required)
            add_marks(s, o, required);
    }
    return s->b->r ? NULL : o;
}

static bool marks_disjoint(struct tr__schema *s, const struct tr__outline *a,
                           const struct tr__outline *b)
{
    for (int i = 0; i < a->n_marks; i++)
        for (int k = 0; k < b->n_marks; k++)
            if (strcmp(a->marks[i].name, b->marks[k].name) == 0 &&
                values_disjoint(s, &a->marks[i].values, &b->marks[k].values))
                return true;
    return false;
}

/* ---- objects that one of two does not have ---- */

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

/* An object of p has a property that q's objects do not have. */
static bool refuses_required(struct tr__schema *s, const struct parts *p, const struct parts *q)
{
    for (int i = 0; i < p->n; i++) {
        tr__site list = tr__member(s, p->at[i], "required");
        for (size_t k = 0; list && k < tr_json_size(list); k++) {
            struct tr_json v = tr_json_at(list, k);
            const char *name;
            if (tr_json_as_string(&v, &name, NULL, NULL) == 0 && refuses(s, q, name))
                return true;
        }
    }
    return false;
}

bool tr__disjoint(struct tr__schema *s, const struct tr__outline *a, const struct tr__outline *b)
{
    unsigned types = a->types & b->types;

    return types == 0 || values_disjoint(s, &a->values, &b->values) ||
           (types == TR__TYPE_OBJECT &&
            (marks_disjoint(s, a, b) || refuses_required(s, &a->parts, &b->parts) ||
             refuses_required(s, &b->parts, &a->parts)));
}
