/* enum and const: the values that the other keywords allow, each as its one text; and what tells
 * whether a value of the document satisfies a schema. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"
#include "engine/text/unicode.h"

enum { MAX_DEPTH = 60 };

/* ---- does it hold? ---- */

/* Whether a value of the document satisfies a schema. */
static bool value_holds(struct tr__schema *s, tr__site schema, tr__site value, int depth);

static bool number_holds(const struct tr__shape *shape, tr__site value)
{
    struct tr__decimal d, m;
    uint32_t x, y;
    int r;

    if (!tr__decimal_of(value, &d))
        return !shape->has_low && !shape->has_high && shape->n_multiples == 0;
    if (shape->has_low &&
        ((r = tr__decimal_compare(&d, &shape->low)) < 0 || (r == 0 && shape->low_strict)))
        return false;
    if (shape->has_high &&
        ((r = tr__decimal_compare(&d, &shape->high)) > 0 || (r == 0 && shape->high_strict)))
        return false;
    for (uint32_t i = 0; i < shape->n_multiples; i++) {
        unsigned places;
        if (!tr__decimal_of(shape->multiples[i], &m))
            return false;
        places = (unsigned)TR_MAX(strlen(d.frac), strlen(m.frac));
        if (places > 9 || !tr__decimal_scaled(&d, places, 2000000000, &x) ||
            !tr__decimal_scaled(&m, places, 2000000000, &y) || y == 0 || x % y != 0)
            return false;
    }
    return true;
}

static bool string_holds(struct tr__schema *s, const struct tr__shape *shape, tr__site value)
{
    struct tr__dfa d = {0};
    struct tr__shape only = *shape;
    struct tr_buf spelled = {0};
    uint32_t chars = 0;
    const char *text;
    size_t n;
    bool holds;

    if (tr_json_as_string(value, &text, &n, NULL) < 0)
        return false;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    if (chars < shape->min_length || chars > shape->max_length)
        return false;
    if (shape->n_patterns == 0)
        return true;
    only.min_length = 0;
    only.max_length = TR__NO_LIMIT;
    only.n_excluded = 0;
    tr__string_language(s, &only, &d);
    tr__json_spell(&spelled, s->spelling, text, n);
    holds = tr__dfa_accepts(&d, spelled.len ? spelled.data : "", spelled.len);
    tr_buf_done(&spelled);
    tr__dfa_done(&d);
    return holds;
}

static bool array_holds(struct tr__schema *s, const struct tr__shape *shape, tr__site value,
                        int depth)
{
    size_t n = tr_json_size(value);

    if (n < shape->min_items || n > shape->max_items)
        return false;
    for (uint32_t k = 0; k < shape->n_schemas; k++) {
        tr__site prefix = tr__member(s, shape->schemas[k], "prefixItems");
        tr__site items = tr__member(s, shape->schemas[k], "items");
        tr__site contains = tr__member(s, shape->schemas[k], "contains");
        bool found = !contains;
        if (n > 0 && tr__member(s, shape->schemas[k], "unevaluatedItems"))
            tr__schema_fail(s, TR_EUNSUPPORTED, shape->schemas[k], "unevaluatedItems",
                            "not supported beside arrays in enum or const");
        for (size_t i = 0; i < n && s->b->r == 0; i++) {
            tr__site item = tr__keep(s, tr_json_at(value, i));
            tr__site schema =
                prefix && i < tr_json_size(prefix) ? tr__keep(s, tr_json_at(prefix, i)) : items;
            if (item && schema && !value_holds(s, schema, item, depth + 1))
                return false;
            found |= item && contains && value_holds(s, contains, item, depth + 1);
        }
        if (!found)
            return false;
    }
    for (size_t i = 0; shape->unique && i < n; i++) {
        for (size_t k = 0; k < i && tr__spend(s->b, 10); k++) {
            struct tr_json a = tr_json_at(value, i), b = tr_json_at(value, k);
            if (tr__json_equal(&a, &b))
                return false;
        }
    }
    return true;
}

static bool has(tr__site object, const char *name)
{
    struct tr_json v = tr_json_get(object, name);

    return tr_json_type(&v) != TR_JSON_ABSENT;
}

static bool object_holds(struct tr__schema *s, const struct tr__shape *shape, tr__site value,
                         int depth)
{
    struct tr__terms t = {0};
    struct tr_json v;
    void *iter = NULL;
    size_t n = tr_json_size(value);

    if (n < shape->min_properties || n > shape->max_properties)
        return false;
    for (uint32_t i = 0; i < shape->names.n; i++)
        if (has(value, shape->names.at[i].key) != (shape->names.at[i].kind != TR__TERM_FORBID))
            return false;
    for (uint32_t k = 0; k < shape->n_schemas; k++) {
        tr__site required = tr__member(s, shape->schemas[k], "required");
        for (size_t i = 0; required && i < tr_json_size(required); i++) {
            const char *name;
            v = tr_json_at(required, i);
            if (tr_json_as_string(&v, &name, NULL, NULL) < 0 || !has(value, name))
                return false;
        }
    }
    while (tr_json_next(value, &iter, &v) && s->b->r == 0) {
        tr__site member = tr__keep(s, v);
        t.n = 0;
        if (!member || !tr__property_terms(s, shape, v.key, &t))
            return false;
        for (uint32_t i = 0; i < t.n; i++)
            if (value_holds(s, t.at[i].site, member, depth + 1) != (t.at[i].kind == TR__TERM_IS))
                return false;
    }
    return true;
}

/* The same of a shape, but for enum and const. */
static bool shape_holds(struct tr__schema *s, const struct tr__shape *shape, tr__site value,
                        int depth)
{
    unsigned type = tr__type_of_value(value);

    if (!(type & shape->types))
        return false;
    for (uint32_t i = 0; i < shape->n_excluded; i++)
        if (tr__json_equal(value, shape->excluded[i]))
            return false;
    if (type & TR__TYPE_NUMBER)
        return number_holds(shape, value);
    if (type == TR__TYPE_STRING)
        return string_holds(s, shape, value);
    if (type == TR__TYPE_ARRAY)
        return array_holds(s, shape, value, depth);
    if (type == TR__TYPE_OBJECT)
        return object_holds(s, shape, value, depth);
    return true;
}

/* In the i-th list of the shape. */
static bool in_list(struct tr__schema *s, const struct tr__shape *shape, uint32_t i, tr__site value)
{
    tr__site list = shape->lists[i];

    if (shape->list_is_const[i])
        return tr__json_equal(list, value);
    for (size_t k = 0; k < tr_json_size(list) && tr__spend(s->b, 6); k++) {
        struct tr_json v = tr_json_at(list, k);
        if (tr__json_equal(&v, value))
            return true;
    }
    return false;
}

static bool all_hold(struct tr__schema *s, tr__site schema, const char *key, tr__site value,
                     int depth, size_t *ret)
{
    tr__site list = tr__member(s, schema, key);
    size_t n = list ? tr_json_size(list) : 0, holding = 0;

    for (size_t i = 0; i < n && s->b->r == 0; i++) {
        tr__site v = tr__keep(s, tr_json_at(list, i));
        holding += v && value_holds(s, v, value, depth + 1);
    }
    *ret = holding;
    return holding == n;
}

static bool value_holds(struct tr__schema *s, tr__site schema, tr__site value, int depth)
{
    struct tr__terms t = {0};
    struct tr__shape shape;
    bool is = true;
    size_t n;
    tr__site v, then, other;

    if (tr_json_type(schema) == TR_JSON_BOOL)
        return tr_json_as_bool(schema, &is, NULL) == 0 && is;
    if (depth > MAX_DEPTH || !tr__spend(s->b, 20)) {
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, NULL,
                        "too deep a check of a value in enum or const");
        return false;
    }
    if (tr_json_size(value) > 0 && tr__member(s, schema, "unevaluatedProperties"))
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, "unevaluatedProperties",
                        "not supported beside objects in enum or const");
    tr__term_add(s, &t, TR__TERM_BASE, schema, NULL);
    tr__shape_of(s, &t, &shape);
    if (s->b->r || !shape_holds(s, &shape, value, depth))
        return false;
    for (uint32_t i = 0; i < shape.n_lists; i++)
        if (!in_list(s, &shape, i, value))
            return false;
    if (!all_hold(s, schema, "allOf", value, depth, &n) ||
        (!all_hold(s, schema, "anyOf", value, depth, &n) && n == 0))
        return false;
    all_hold(s, schema, "oneOf", value, depth, &n);
    if (tr__member(s, schema, "oneOf") && n != 1)
        return false;
    if (tr__member(s, schema, "$ref") &&
        (!(v = tr__ref_target(s, schema)) || !value_holds(s, v, value, depth + 1)))
        return false;
    if ((v = tr__member(s, schema, "not")) && value_holds(s, v, value, depth + 1))
        return false;
    if ((v = tr__member(s, schema, "if"))) {
        then = tr__member(s, schema, "then");
        other = tr__member(s, schema, "else");
        v = value_holds(s, v, value, depth + 1) ? then : other;
        return !v || value_holds(s, v, value, depth + 1);
    }
    if (tr_json_type(value) == TR_JSON_OBJECT &&
        (tr__member(s, schema, "dependentRequired") || tr__member(s, schema, "dependentSchemas") ||
         tr__member(s, schema, "dependencies")))
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, NULL,
                        "objects in enum or const beside dependent keywords");
    return s->b->r == 0;
}

/* ---- emitting ---- */

/* An array or object with white space between its tokens. */
static uint32_t emit_value(struct tr__schema *s, const struct tr_json *v, uint32_t next)
{
    struct tr__nodes *b = s->b;
    bool object = tr_json_type(v) == TR_JSON_OBJECT;
    size_t n = tr_json_size(v), i = n;
    struct tr_buf text = {0};

    if (!object && tr_json_type(v) != TR_JSON_ARRAY) {
        tr__json_text(&text, s->spelling, v, false);
        next = tr__text(b, text.data, text.len, next);
        tr_buf_done(&text);
        return next;
    }
    struct tr_json *members = tr__alloc(s, (n + 1) * sizeof(*members));
    void *iter = NULL;
    for (size_t k = 0; members && k < n; k++) {
        if (object)
            tr_json_next(v, &iter, &members[k]);
        else
            members[k] = tr_json_at(v, k);
    }
    next = tr__byte(b, object ? '}' : ']', object ? '}' : ']', 0, next);
    next = n > 0 ? tr__space(s, next) : next;
    while (members && i-- > 0) {
        next = emit_value(s, &members[i], next);
        if (object) {
            tr_buf_clear(&text);
            tr_buf_addc(&text, '"');
            tr__json_spell(&text, s->spelling, members[i].key, members[i].key_bytes);
            tr_buf_adds(&text, "\":");
            next = tr__text(b, text.data, text.len, tr__space(s, next));
        }
        next = tr__space(s, next);
        if (i > 0)
            next = tr__byte(b, ',', ',', 0, next);
    }
    tr_buf_done(&text);
    return tr__byte(b, object ? '{' : '[', object ? '{' : '[', 0,
                    n > 0 ? next : tr__space(s, next));
}

/* A list without other keywords but one type: nothing to check value by value but the type. */
static bool allowed(struct tr__schema *s, const struct tr__shape *shape, tr__site value)
{
    for (uint32_t i = 1; i < shape->n_lists; i++)
        if (!in_list(s, shape, i, value))
            return false;
    return shape_holds(s, shape, value, 0);
}

/* The one text of a value that is no list of values; false: it cannot stand between tags. */
static bool word_of(struct tr__schema *s, enum tr__form form, tr__site v,
                    struct tr_grammar_text *ret)
{
    bool bare = form >= TR__FORM_TEXT && tr_json_type(v) == TR_JSON_STRING, fits = true;
    struct tr_buf text = {0};

    tr__json_text(&text, s->spelling, v, false);
    if (bare) {
        const char *string = "";
        size_t n = 0;
        tr_buf_clear(&text);
        fits = tr_json_as_string(v, &string, &n, NULL) == 0;
        tr_buf_add(&text, string, n);
    }
    for (size_t i = 0; bare && i < TR_ARRAY_LEN(tr__tags); i++)
        fits &= !text.len || !memmem(text.data, text.len, tr__tags[i], strlen(tr__tags[i]));
    char *copy = tr__alloc(s, text.len + 1);
    if (copy && text.len > 0)
        memcpy(copy, text.data, text.len);
    *ret = (struct tr_grammar_text){copy, copy ? text.len : 0};
    tr_buf_done(&text);
    return fits && copy;
}

uint32_t tr__emit_values(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    tr__site list = shape->lists[0];
    size_t n = shape->list_is_const[0] ? 1 : tr_json_size(list);
    struct tr_grammar_text *words = tr__alloc(s, (n + 1) * sizeof(*words));
    uint32_t n_words = 0, out = 0;

    if (shape->form == TR__FORM_PARAMETERS)
        return tr__schema_fail(s, TR_EUNSUPPORTED, list, NULL,
                               "whole values of arguments are not supported in calls of this form");

    for (size_t i = 0; words && i < n && tr__spend(s->b, 10); i++) {
        tr__site v = shape->list_is_const[0] ? list : tr__keep(s, tr_json_at(list, i));
        if (!v || !allowed(s, shape, v))
            continue;
        if (tr_json_type(v) == TR_JSON_ARRAY || tr_json_type(v) == TR_JSON_OBJECT) {
            out = tr__split(s->b, out, emit_value(s, v, next));
            continue;
        }
        n_words += word_of(s, shape->form, v, &words[n_words]);
    }
    if (s->b->r)
        return 0;
    return tr__split(s->b, out, n_words > 0 ? tr__emit_words(s->b, words, n_words, next) : 0);
}
