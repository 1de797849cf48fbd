/* Lists of terms taken apart: what joins is joined, what splits becomes alternatives. */
#include <string.h>

#include "engine/grammar/schema_internal.h"

enum { MAX_TERMS = 2000, MAX_CHAIN = 400, MAX_SOME = 4 };

/* ---- lists ---- */

static bool same(const struct tr__term *x, const struct tr__term *y)
{
    return x->kind == y->kind && x->scope == y->scope &&
           (x->site ? x->site->node : NULL) == (y->site ? y->site->node : NULL) &&
           (x->key == y->key || (x->key && y->key && strcmp(x->key, y->key) == 0));
}

static void term_put(struct tr__schema *s, struct tr__terms *t, struct tr__term x)
{
    if (!tr__spend(s->b, 1 + t->n / 4))
        return;
    if (x.kind == TR__TERM_IS || x.kind == TR__TERM_NOT)
        x.site = tr__leaf(s, x.site);
    for (uint32_t i = 0; i < t->n; i++)
        if (same(&t->at[i], &x))
            return;
    if (t->n >= MAX_TERMS) {
        tr__schema_fail(s, TR_EUNSUPPORTED, x.site ? x.site : s->root, x.key,
                        "too many schemas at once");
        return;
    }
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 4;
        struct tr__term *grown = tr__alloc(s, cap * sizeof(*grown));
        if (!grown)
            return;
        if (t->n > 0)
            memcpy(grown, t->at, t->n * sizeof(*grown));
        t->at = grown;
        t->cap = cap;
    }
    t->at[t->n++] = x;
}

void tr__term_add(struct tr__schema *s, struct tr__terms *t, enum tr__term_kind kind, tr__site site,
                  const char *key)
{
    term_put(s, t, (struct tr__term){kind, site, key, NULL});
}

static struct tr__terms copy_without(struct tr__schema *s, const struct tr__terms *t,
                                     uint32_t without)
{
    struct tr__terms out = {.form = t->form};

    for (uint32_t i = 0; i < t->n; i++)
        if (i != without)
            term_put(s, &out, t->at[i]);
    return out;
}

/* ---- joining ---- */

struct chain { /* schemas being opened */
    const struct chain *up;
    tr__site site;
    int depth;
};

struct opening {
    struct tr__schema *s;
    struct tr__terms out, opened;
    const struct tr__scope *scope; /* of the schema being opened */
    bool impossible;
};

static void put(struct opening *o, enum tr__term_kind kind, tr__site site, const char *key)
{
    term_put(o->s, &o->out, (struct tr__term){kind, site, key, o->scope});
}

static void open_is(struct opening *o, tr__site site, const struct chain *up);

static void open_not(struct opening *o, tr__site site)
{
    enum tr_json_type type = tr_json_type(site);
    bool value = false;

    if (type == TR_JSON_BOOL) {
        if (tr_json_as_bool(site, &value, NULL) == 0 && value)
            o->impossible = true;
    } else if (type == TR_JSON_OBJECT) {
        tr__term_add(o->s, &o->out, TR__TERM_NEITHER, site, NULL);
    } else {
        tr__schema_fail(o->s, TR_EINVAL, site, NULL, "expected a schema (object or boolean)");
    }
}

/* Each schema of a list; an empty list or none is an error. */
static tr__site list_of(struct tr__schema *s, tr__site schema, const char *key)
{
    tr__site list = tr__member(s, schema, key);

    if (list && (tr_json_type(list) != TR_JSON_ARRAY || tr_json_size(list) == 0)) {
        tr__schema_fail(s, TR_EINVAL, schema, key, "expected a list of schemas, not empty");
        return NULL;
    }
    return list;
}

static void open_depends(struct opening *o, tr__site site, const char *key)
{
    tr__site map = tr__member(o->s, site, key);
    struct tr_json v;
    void *iter = NULL;

    if (map && tr_json_type(map) != TR_JSON_OBJECT)
        tr__schema_fail(o->s, TR_EINVAL, site, key, "expected an object");
    while (map && tr_json_next(map, &iter, &v)) {
        tr__site member = tr__keep(o->s, v);
        if (member)
            put(o, TR__TERM_DEPENDS, member, member->key);
    }
}

static void open_members(struct opening *o, tr__site site, const struct chain *here)
{
    struct tr__schema *s = o->s;
    tr__site list = list_of(s, site, "allOf"), v;

    for (size_t i = 0; list && i < tr_json_size(list) && s->b->r == 0; i++) {
        v = tr__keep(s, tr_json_at(list, i));
        if (v)
            open_is(o, v, here);
    }
    if (tr__member(s, site, "$ref") && (v = tr__ref_target(s, site)))
        open_is(o, v, here);
    if (list_of(s, site, "anyOf"))
        put(o, TR__TERM_ANY, site, NULL);
    if (list_of(s, site, "oneOf"))
        put(o, TR__TERM_ONE, site, NULL);
    if (tr__member(s, site, "if") &&
        (o->scope || tr__member(s, site, "then") || tr__member(s, site, "else")))
        put(o, TR__TERM_IF, site, NULL);
    if ((v = tr__member(s, site, "not")))
        open_not(o, v);
    open_depends(o, site, "dependentRequired");
    open_depends(o, site, "dependentSchemas");
    open_depends(o, site, "dependencies");
}

static void open_is(struct opening *o, tr__site site, const struct chain *up)
{
    struct chain here = {up, site, up ? up->depth + 1 : 0};
    enum tr_json_type type = tr_json_type(site);
    const struct tr__scope *outer = o->scope;
    bool value = true;
    uint32_t before = o->opened.n;

    if (type == TR_JSON_BOOL) {
        if (tr_json_as_bool(site, &value, NULL) == 0 && !value)
            o->impossible = true;
        return;
    }
    if (type != TR_JSON_OBJECT) {
        tr__schema_fail(o->s, TR_EINVAL, site, NULL, "expected a schema (object or boolean)");
        return;
    }
    for (; up; up = up->up)
        if (up->site->node == site->node)
            tr__schema_fail(o->s, TR_EINVAL, site, "$ref", "a circle of references");
    if (here.depth > MAX_CHAIN)
        tr__schema_fail(o->s, TR_EUNSUPPORTED, site, "$ref", "too long a chain of references");
    o->scope = tr__scope_enter(o->s, site, outer);
    term_put(o->s, &o->opened, (struct tr__term){TR__TERM_IS, site, NULL, o->scope});
    if (o->s->b->r == 0 && o->opened.n > before) {
        put(o, TR__TERM_BASE, site, NULL);
        open_members(o, site, &here);
    }
    o->scope = outer;
}

/* ---- splitting ---- */

struct split {
    struct tr__schema *s;
    const struct tr__terms *all;
    uint32_t choice; /* index of the term that splits */
    struct tr__terms next;
    uint32_t out;
};

static void begin(struct split *p)
{
    p->next = copy_without(p->s, p->all, p->choice);
}

static void add(struct split *p, enum tr__term_kind kind, tr__site site, const char *key)
{
    const struct tr__scope *scope = kind == TR__TERM_IS ? p->all->at[p->choice].scope : NULL;

    if (site || key)
        term_put(p->s, &p->next, (struct tr__term){kind, site, key, scope});
}

static void end(struct split *p)
{
    struct tr__nodes *b = p->s->b;
    uint32_t rule = tr__rule_of(p->s, &p->next);

    if (b->r == 0)
        p->out = tr__split(b, p->out, tr__call(b, rule, 0, tr__match(b)));
}

static void one(struct split *p, enum tr__term_kind kind, tr__site site, const char *key)
{
    begin(p);
    add(p, kind, site, key);
    end(p);
}

static void split_any(struct split *p, tr__site schema, enum tr__term_kind kind, const char *key)
{
    tr__site list = list_of(p->s, schema, key);

    for (size_t i = 0; list && i < tr_json_size(list) && p->s->b->r == 0; i++)
        one(p, kind, tr__keep(p->s, tr_json_at(list, i)), NULL);
}

/* Where it matters which of them hold, each choice of some is an alternative. */
static void split_some(struct split *p, tr__site schema)
{
    tr__site list = list_of(p->s, schema, "anyOf");
    size_t n = list ? tr_json_size(list) : 0;

    if (n > MAX_SOME) {
        tr__schema_fail(p->s, TR_EUNSUPPORTED, schema, "anyOf",
                        "more than 4 are not supported beside unevaluated keywords");
        return;
    }
    for (unsigned some = 1; some < 1u << n && p->s->b->r == 0; some++) {
        begin(p);
        for (size_t i = 0; i < n; i++)
            add(p, some >> i & 1 ? TR__TERM_IS : TR__TERM_NOT, tr__keep(p->s, tr_json_at(list, i)),
                NULL);
        end(p);
    }
}

/* Which pairs of n schemas share no value: n rows of n; NULL upon an error. */
static const bool *disjoint_pairs(struct tr__schema *s, tr__site list, size_t n)
{
    const struct tr__outline **outlines;
    bool *disjoint;

    if (!tr__spend(s->b, (int64_t)(n * n)))
        return NULL;
    outlines = tr__alloc(s, n * sizeof(struct tr__outline *));
    disjoint = tr__alloc(s, n * n);
    for (size_t i = 0; outlines && i < n && s->b->r == 0; i++) {
        tr__site site = tr__keep(s, tr_json_at(list, i));
        outlines[i] = site ? tr__outline_of(s, site) : NULL;
    }
    for (size_t i = 0; outlines && disjoint && i < n && s->b->r == 0; i++)
        for (size_t k = 0; k < i && s->b->r == 0; k++)
            disjoint[i * n + k] = disjoint[k * n + i] = tr__disjoint(s, outlines[i], outlines[k]);
    return s->b->r ? NULL : disjoint;
}

static void split_one(struct split *p, tr__site schema)
{
    tr__site list = list_of(p->s, schema, "oneOf");
    size_t n = list ? tr_json_size(list) : 0;
    const bool *disjoint = disjoint_pairs(p->s, list, n);

    for (size_t i = 0; disjoint && i < n && p->s->b->r == 0; i++) {
        begin(p);
        add(p, TR__TERM_IS, tr__keep(p->s, tr_json_at(list, i)), NULL);
        for (size_t k = 0; k < n; k++)
            if (k != i && !disjoint[i * n + k])
                add(p, TR__TERM_NOT, tr__keep(p->s, tr_json_at(list, k)), NULL);
        end(p);
    }
}

static void split_if(struct split *p, tr__site schema)
{
    tr__site condition = tr__member(p->s, schema, "if");

    begin(p);
    add(p, TR__TERM_IS, condition, NULL);
    add(p, TR__TERM_IS, tr__member(p->s, schema, "then"), NULL);
    end(p);
    begin(p);
    add(p, TR__TERM_NOT, condition, NULL);
    add(p, TR__TERM_IS, tr__member(p->s, schema, "else"), NULL);
    end(p);
}

static const char *name_at(struct split *p, tr__site list, size_t i)
{
    struct tr_json v = tr_json_at(list, i);
    const char *name = NULL;

    if (tr_json_as_string(&v, &name, NULL, NULL) < 0)
        tr__schema_fail(p->s, TR_EINVAL, list, NULL, "expected names");
    return name;
}

static void split_depends(struct split *p, tr__site value, const char *key)
{
    one(p, TR__TERM_FORBID, NULL, key);
    begin(p);
    add(p, TR__TERM_REQUIRE, NULL, key);
    if (tr_json_type(value) == TR_JSON_ARRAY)
        for (size_t i = 0; i < tr_json_size(value) && p->s->b->r == 0; i++)
            add(p, TR__TERM_REQUIRE, NULL, name_at(p, value, i));
    else
        add(p, TR__TERM_IS, value, NULL);
    end(p);
}

/* ---- a schema that does not hold: one of its keywords does not ---- */

/* Names and properties: an object lacks one of the names, or has a property that is not so. */
static void split_neither_object(struct split *p, tr__site value, bool required)
{
    struct tr__schema *s = p->s;
    struct tr_json v;
    void *iter = NULL;

    for (size_t i = 0; required && i < tr_json_size(value) && s->b->r == 0; i++) {
        begin(p);
        add(p, TR__TERM_OBJECT, s->root, NULL);
        add(p, TR__TERM_FORBID, NULL, name_at(p, value, i));
        end(p);
    }
    while (!required && tr_json_next(value, &iter, &v)) {
        begin(p);
        add(p, TR__TERM_REQUIRE, NULL, v.key);
        add(p, TR__TERM_LACKS, tr__keep(s, v), v.key);
        end(p);
    }
}

static void split_neither_key(struct split *p, tr__site schema, tr__site value)
{
    static const char *const simple[] = {"type",
                                         "enum",
                                         "const",
                                         "minimum",
                                         "maximum",
                                         "exclusiveMinimum",
                                         "exclusiveMaximum",
                                         "format",
                                         "minLength",
                                         "maxLength",
                                         "pattern",
                                         "minItems",
                                         "maxItems",
                                         "minProperties",
                                         "maxProperties",
                                         NULL};
    static const char *const never[] = {"oneOf",
                                        "if",
                                        "items",
                                        "prefixItems",
                                        "additionalProperties",
                                        "patternProperties",
                                        "propertyNames",
                                        "contains",
                                        "uniqueItems",
                                        "multipleOf",
                                        "dependentRequired",
                                        "dependentSchemas",
                                        "dependencies",
                                        "unevaluatedProperties",
                                        "unevaluatedItems",
                                        "additionalItems",
                                        "$dynamicRef",
                                        "$recursiveRef",
                                        NULL};
    const char *key = value->key;

    if (tr__is_one_of(key, simple)) {
        one(p, TR__TERM_UNLESS, value, key);
    } else if (strcmp(key, "$ref") == 0) {
        one(p, TR__TERM_NOT, tr__ref_target(p->s, schema), NULL);
    } else if (strcmp(key, "not") == 0) {
        one(p, TR__TERM_IS, value, NULL);
    } else if (strcmp(key, "allOf") == 0) {
        split_any(p, schema, TR__TERM_NOT, "allOf");
    } else if (strcmp(key, "anyOf") == 0) {
        begin(p);
        for (size_t i = 0; i < tr_json_size(value); i++)
            add(p, TR__TERM_NOT, tr__keep(p->s, tr_json_at(value, i)), NULL);
        end(p);
    } else if (strcmp(key, "required") == 0 || strcmp(key, "properties") == 0) {
        split_neither_object(p, value, key[0] == 'r');
    } else if (tr__is_one_of(key, never)) {
        tr__schema_fail(p->s, TR_EUNSUPPORTED, schema, key,
                        "the opposite of this keyword is not supported (not, oneOf, if)");
    }
}

static void split_neither(struct split *p, tr__site schema)
{
    struct tr_json v;
    void *iter = NULL;

    if (tr_json_size(schema) == 0)
        tr__schema_fail(p->s, TR_EINVAL, schema, NULL,
                        "the opposite of {} is satisfied by nothing");
    while (tr_json_next(schema, &iter, &v) && p->s->b->r == 0)
        split_neither_key(p, schema, tr__keep(p->s, v));
}

/* ---- both ---- */

static bool splits(enum tr__term_kind kind)
{
    return kind == TR__TERM_ANY || kind == TR__TERM_ONE || kind == TR__TERM_IF ||
           kind == TR__TERM_DEPENDS || kind == TR__TERM_NEITHER;
}

static uint32_t split(struct tr__schema *s, const struct tr__terms *all, uint32_t choice)
{
    struct split p = {.s = s, .all = all, .choice = choice};
    struct tr__term t = all->at[choice];

    switch (t.kind) {
    case TR__TERM_ANY:
        if (t.scope)
            split_some(&p, t.site);
        else
            split_any(&p, t.site, TR__TERM_IS, "anyOf");
        break;
    case TR__TERM_ONE:
        split_one(&p, t.site);
        break;
    case TR__TERM_IF:
        split_if(&p, t.site);
        break;
    case TR__TERM_DEPENDS:
        split_depends(&p, t.site, t.key);
        break;
    default:
        split_neither(&p, t.site);
    }
    return p.out;
}

bool tr__open_terms(struct tr__schema *s, const struct tr__terms *t, struct tr__terms *ret,
                    bool *ret_splits)
{
    struct opening o = {.s = s, .out.form = t->form};

    for (uint32_t i = 0; i < t->n && s->b->r == 0; i++) {
        o.scope = t->at[i].scope;
        if (t->at[i].kind == TR__TERM_IS)
            open_is(&o, t->at[i].site, NULL);
        else if (t->at[i].kind == TR__TERM_NOT)
            open_not(&o, t->at[i].site);
        else
            term_put(s, &o.out, t->at[i]);
    }
    *ret = o.out;
    *ret_splits = false;
    for (uint32_t i = 0; i < o.out.n; i++)
        *ret_splits |= splits(o.out.at[i].kind);
    return s->b->r == 0 && !o.impossible && tr__possible(s, &o.out);
}

uint32_t tr__emit_terms(struct tr__schema *s, const struct tr__terms *t)
{
    struct tr__terms all;
    bool any;

    if (!tr__open_terms(s, t, &all, &any))
        return 0;
    for (uint32_t i = 0; any && i < all.n; i++)
        if (splits(all.at[i].kind))
            return split(s, &all, i);
    return tr__emit_shape(s, &all);
}
