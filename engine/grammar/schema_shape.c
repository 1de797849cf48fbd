/* Keywords summed up in a shape, and the shape emitted, type by type. */
#include <string.h>

#include "engine/grammar/schema_internal.h"

/* ---- keywords ---- */

struct keyword {
    struct tr__schema *s;
    struct tr__shape *shape;
    tr__site schema, value;
    bool unless; /* the keyword must not hold */
    const struct tr__scope *scope;
};

static void bad(const struct keyword *k, const char *what)
{
    tr__schema_fail(k->s, TR_EINVAL, k->schema, k->value->key, what);
}

static void apply_type(const struct keyword *k)
{
    unsigned types = tr__types_named(k->s, k->schema, k->value);

    k->shape->types &= k->unless ? ~types : types;
}

static void apply_values(const struct keyword *k)
{
    struct tr__shape *shape = k->shape;
    bool is_const = strcmp(k->value->key, "const") == 0;
    size_t n = is_const ? 1 : tr_json_size(k->value);

    if (!k->unless) {
        if (shape->n_lists == TR_ARRAY_LEN(shape->lists)) {
            bad(k, "too many lists of values at once");
            return;
        }
        shape->list_is_const[shape->n_lists] = is_const;
        shape->lists[shape->n_lists++] = k->value;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (shape->n_excluded == TR_ARRAY_LEN(shape->excluded)) {
            tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, k->value->key,
                            "too many values are excluded");
            return;
        }
        shape->excluded[shape->n_excluded++] =
            is_const ? k->value : tr__keep(k->s, tr_json_at(k->value, i));
    }
}

static void bound_low(struct tr__shape *shape, const struct tr__decimal *d, bool strict)
{
    int r = shape->has_low ? tr__decimal_compare(d, &shape->low) : 1;

    if (r > 0 || (r == 0 && strict)) {
        shape->low = *d;
        shape->low_strict = strict;
    }
    shape->has_low = true;
}

static void bound_high(struct tr__shape *shape, const struct tr__decimal *d, bool strict)
{
    int r = shape->has_high ? tr__decimal_compare(d, &shape->high) : -1;

    if (r < 0 || (r == 0 && strict)) {
        shape->high = *d;
        shape->high_strict = strict;
    }
    shape->has_high = true;
}

static void apply_bound(const struct keyword *k)
{
    bool strict = k->value->key[0] == 'e', low = strstr(k->value->key, "inimum") != NULL;
    struct tr__decimal d;

    if (tr_json_type(k->value) != TR_JSON_NUMBER) {
        bad(k, "expected a number");
        return;
    }
    if (!tr__decimal_of(k->value, &d)) {
        tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, k->value->key,
                        "a bound of too many digits");
        return;
    }
    if (k->unless) {
        k->shape->types &= TR__TYPE_NUMBER;
        low = !low;
        strict = !strict;
    }
    if (low)
        bound_low(k->shape, &d, strict);
    else
        bound_high(k->shape, &d, strict);
}

static void apply_multiple(const struct keyword *k)
{
    struct tr__shape *shape = k->shape;

    if (tr_json_type(k->value) != TR_JSON_NUMBER)
        bad(k, "expected a number");
    else if (shape->n_multiples == TR_ARRAY_LEN(shape->multiples))
        tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, k->value->key, "too many at once");
    else
        shape->multiples[shape->n_multiples++] = k->value;
}

/* minLength and the like: which numbers of the shape they bound. */
static void apply_size(const struct keyword *k)
{
    struct tr__shape *shape = k->shape;
    const char *key = k->value->key;
    bool length = strstr(key, "Length") != NULL, items = strstr(key, "Items") != NULL;
    bool low = key[1] == 'i';
    uint32_t *min = length  ? &shape->min_length
                    : items ? &shape->min_items
                            : &shape->min_properties;
    uint32_t *max = length  ? &shape->max_length
                    : items ? &shape->max_items
                            : &shape->max_properties;
    int64_t n;

    if (tr_json_as_int(k->value, 0, INT64_MAX, &n, NULL) < 0) {
        bad(k, "expected an integer, not negative");
        return;
    }
    if (k->unless) {
        shape->types &= length ? TR__TYPE_STRING : items ? TR__TYPE_ARRAY : TR__TYPE_OBJECT;
        if (low && n == 0)
            shape->types = 0;
        n += low ? -1 : 1;
        low = !low;
    }
    if (!length && !items)
        shape->sized = k->schema;
    n = TR_MIN(n, (int64_t)TR__NO_LIMIT);
    if (low && n > TR__LIMIT_MAX)
        tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, key, "too large");
    else if (low)
        *min = TR_MAX(*min, (uint32_t)n);
    else if (n <= TR__LIMIT_MAX)
        *max = TR_MIN(*max, (uint32_t)n);
}

static void add_pattern(const struct keyword *k, struct tr__pattern p)
{
    if (k->shape->n_patterns == TR_ARRAY_LEN(k->shape->patterns)) {
        tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, k->value->key,
                        "too many patterns at once");
        return;
    }
    if (k->unless)
        k->shape->types &= TR__TYPE_STRING;
    k->shape->patterns[k->shape->n_patterns++] = p;
}

static void apply_pattern(const struct keyword *k)
{
    struct tr__pattern p = {.without = k->unless, .site = k->value};

    if (tr_json_as_string(k->value, &p.text, &p.n, NULL) < 0)
        bad(k, "expected a string");
    else
        add_pattern(k, p);
}

static void apply_format(const struct keyword *k)
{
    struct tr__pattern p = {.without = k->unless, .whole = true, .site = k->value};
    const char *name;

    if (tr_json_as_string(k->value, &name, NULL, NULL) < 0) {
        bad(k, "expected a string");
        return;
    }
    p.text = tr__format_pattern(name);
    if (p.text) {
        p.n = strlen(p.text);
        add_pattern(k, p);
    } else if (k->unless) {
        k->shape->types = 0; /* a mere remark always holds */
    }
}

static void apply_schemas(const struct keyword *k)
{
    struct tr__shape *shape = k->shape;

    if (shape->n_schemas > 0 && shape->schemas[shape->n_schemas - 1] == k->schema &&
        shape->scopes[shape->n_schemas - 1] == k->scope)
        return;
    if (shape->n_schemas == TR_ARRAY_LEN(shape->schemas))
        tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, k->value->key,
                        "too many schemas at once");
    else {
        shape->scopes[shape->n_schemas] = k->scope;
        shape->schemas[shape->n_schemas++] = k->schema;
    }
}

static void apply_unique(const struct keyword *k)
{
    bool value = false;

    if (tr_json_as_bool(k->value, &value, NULL) < 0)
        bad(k, "expected a boolean");
    else if (value)
        k->shape->unique = k->schema;
}

static void apply_never(const struct keyword *k)
{
    bool value = false;

    if (tr_json_as_bool(k->value, &value, NULL) == 0 && value)
        return;
    tr__schema_fail(k->s, TR_EUNSUPPORTED, k->schema, k->value->key,
                    "this keyword is not supported");
}

static const struct {
    const char *key;
    void (*apply)(const struct keyword *k);
} keywords[] = {
    {"type", apply_type},
    {"enum", apply_values},
    {"const", apply_values},
    {"minimum", apply_bound},
    {"maximum", apply_bound},
    {"exclusiveMinimum", apply_bound},
    {"exclusiveMaximum", apply_bound},
    {"multipleOf", apply_multiple},
    {"minLength", apply_size},
    {"maxLength", apply_size},
    {"minItems", apply_size},
    {"maxItems", apply_size},
    {"minProperties", apply_size},
    {"maxProperties", apply_size},
    {"pattern", apply_pattern},
    {"format", apply_format},
    {"uniqueItems", apply_unique},
    {"items", apply_schemas},
    {"prefixItems", apply_schemas},
    {"contains", apply_schemas},
    {"properties", apply_schemas},
    {"patternProperties", apply_schemas},
    {"additionalProperties", apply_schemas},
    {"propertyNames", apply_schemas},
    {"required", apply_schemas},
    {"unevaluatedItems", apply_schemas},
    {"unevaluatedProperties", apply_schemas},
    {"additionalItems", apply_never},
    {"$dynamicRef", apply_never},
    {"$recursiveRef", apply_never},
};

static void apply(struct keyword *k)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(keywords); i++) {
        if (strcmp(keywords[i].key, k->value->key) == 0) {
            keywords[i].apply(k);
            return;
        }
    }
}

static void apply_all(struct tr__schema *s, struct tr__shape *shape, const struct tr__term *base)
{
    tr__site schema = base->site;
    struct tr_json v;
    void *iter = NULL;

    while (tr_json_next(schema, &iter, &v) && s->b->r == 0)
        apply(&(struct keyword){s, shape, schema, tr__keep(s, v), false, base->scope});
}

void tr__shape_of(struct tr__schema *s, const struct tr__terms *t, struct tr__shape *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->form = t->form;
    ret->types = t->form == TR__FORM_JSON         ? TR__TYPE_ALL
                 : t->form == TR__FORM_PARAMETERS ? TR__TYPE_OBJECT
                 : t->form == TR__FORM_TEXT       ? TR__TYPE_STRING
                                                  : TR__TYPE_STRING | TR__TYPE_NULL;
    ret->max_length = ret->max_items = ret->max_properties = TR__NO_LIMIT;
    for (uint32_t i = 0; i < t->n && s->b->r == 0; i++) {
        const struct tr__term *x = &t->at[i];
        switch (x->kind) {
        case TR__TERM_BASE:
            s->here = x->site;
            apply_all(s, ret, x);
            break;
        case TR__TERM_UNLESS:
            apply(&(struct keyword){s, ret, x->site->up, x->site, true, NULL});
            break;
        case TR__TERM_REQUIRE:
        case TR__TERM_LACKS:
            ret->types &= TR__TYPE_OBJECT;
            tr__term_add(s, &ret->names, x->kind, x->site, x->key);
            break;
        case TR__TERM_FORBID:
            tr__term_add(s, &ret->names, x->kind, x->site, x->key);
            break;
        case TR__TERM_VALUE:
            if (ret->n_lists < TR_ARRAY_LEN(ret->lists)) {
                ret->list_is_const[ret->n_lists] = true;
                ret->lists[ret->n_lists++] = x->site;
            }
            break;
        case TR__TERM_OBJECT:
            ret->types &= TR__TYPE_OBJECT;
            break;
        default:
            break;
        }
    }
}

/* ---- emitting ---- */

static bool excluded(const struct tr__shape *shape, unsigned type, bool value)
{
    bool is = false;

    for (uint32_t i = 0; i < shape->n_excluded; i++)
        if (tr__type_of_value(shape->excluded[i]) == type &&
            (type == TR__TYPE_NULL ||
             (tr_json_as_bool(shape->excluded[i], &is, NULL) == 0 && is == value)))
            return true;
    return false;
}

static uint32_t add_word(struct tr__schema *s, uint32_t out, const char *word, uint32_t next)
{
    return tr__split(s->b, out, tr__text(s->b, word, strlen(word), next));
}

uint32_t tr__emit_shape(struct tr__schema *s, const struct tr__terms *t)
{
    struct tr__shape shape;
    uint32_t next = tr__match(s->b), out = 0;

    tr__shape_of(s, t, &shape);
    if (s->b->r)
        return 0;
    if (shape.n_lists > 0)
        return tr__emit_values(s, &shape, next);
    for (uint32_t i = 0; i < shape.n_excluded; i++)
        if (tr__type_of_value(shape.excluded[i]) & shape.types & (TR__TYPE_ARRAY | TR__TYPE_OBJECT))
            return tr__schema_fail(s, TR_EUNSUPPORTED, shape.excluded[i], NULL,
                                   "excluding an array or object is not supported");
    if (shape.types & TR__TYPE_NULL && !excluded(&shape, TR__TYPE_NULL, false))
        out = add_word(s, out, "null", next);
    if (shape.types & TR__TYPE_BOOL && !excluded(&shape, TR__TYPE_BOOL, true))
        out = add_word(s, out, "true", next);
    if (shape.types & TR__TYPE_BOOL && !excluded(&shape, TR__TYPE_BOOL, false))
        out = add_word(s, out, "false", next);
    if (shape.types & TR__TYPE_NUMBER)
        out = tr__split(s->b, out, tr__emit_number(s, &shape, next));
    if (shape.types & TR__TYPE_STRING)
        out = tr__split(s->b, out,
                        shape.form >= TR__FORM_TEXT ? tr__emit_bare_string(s, &shape, next)
                                                    : tr__emit_string(s, &shape, next));
    if (shape.types & TR__TYPE_ARRAY)
        out = tr__split(s->b, out, tr__emit_array(s, &shape, next));
    if (shape.types & TR__TYPE_OBJECT)
        out = tr__split(s->b, out, tr__emit_object(s, &shape, next));
    return out;
}
