/* Arrays: items in order, counted by the rule's counter where their number is bounded. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"

enum { MAX_PREFIX = 1000, MAX_UNIQUE = 8 };

struct array {
    struct tr__schema *s;
    const struct tr__shape *shape;
    uint32_t min, max;
    uint32_t n_prefix; /* longest prefixItems */
    bool counted;
    bool closed;       /* nothing behind the prefix */
    tr__site contains; /* schema with contains; NULL */
    uint32_t close;    /* "]", then what follows */
};

static bool is_false(tr__site v)
{
    bool value = true;

    return v && tr_json_as_bool(v, &value, NULL) == 0 && !value;
}

/* ---- reading ---- */

static void read_contains(struct array *a, tr__site schema)
{
    struct tr__schema *s = a->s;
    tr__site contains = tr__member(s, schema, "contains"), v;
    int64_t least = 1;

    if (!contains)
        return;
    v = tr__member(s, schema, "minContains");
    if (v && tr_json_as_int(v, 0, INT64_MAX, &least, NULL) < 0)
        tr__schema_fail(s, TR_EINVAL, schema, "minContains", "expected an integer, not negative");
    if (tr__member(s, schema, "maxContains"))
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, "maxContains", "this keyword is not supported");
    else if (least > 1)
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, "minContains", "more than 1 is not supported");
    else if (least == 1 && a->contains && a->contains->node != contains->node)
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, "contains",
                        "several at once are not supported");
    else if (least == 1)
        a->contains = contains;
}

static void read_schema(struct array *a, tr__site schema)
{
    struct tr__schema *s = a->s;
    tr__site prefix = tr__member(s, schema, "prefixItems"), items = tr__member(s, schema, "items");
    size_t n = prefix ? tr_json_size(prefix) : 0;

    if (prefix && (tr_json_type(prefix) != TR_JSON_ARRAY || n == 0))
        tr__schema_fail(s, TR_EINVAL, schema, "prefixItems",
                        "expected a list of schemas, not empty");
    if (items && tr_json_type(items) != TR_JSON_OBJECT && tr_json_type(items) != TR_JSON_BOOL)
        tr__schema_fail(s, TR_EINVAL, schema, "items",
                        "expected a schema; a list goes to prefixItems");
    if (n > MAX_PREFIX)
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, "prefixItems", "too many");
    a->n_prefix = TR_MAX(a->n_prefix, (uint32_t)n);
    if (is_false(items))
        a->max = TR_MIN(a->max, (uint32_t)n);
    read_contains(a, schema);
}

/* Terms of the item at a place; at n_prefix, of all behind it. */
static struct tr__terms item_terms(struct array *a, uint32_t place, tr__site contained)
{
    struct tr__schema *s = a->s;
    struct tr__terms t = {0};

    for (uint32_t i = 0; i < a->shape->n_schemas; i++) {
        tr__site schema = a->shape->schemas[i], v = NULL;
        tr__site prefix = tr__member(s, schema, "prefixItems");
        if (prefix && place < tr_json_size(prefix))
            v = tr__keep(s, tr_json_at(prefix, place));
        else
            v = tr__member(s, schema, "items");
        if (v)
            tr__term_add(s, &t, TR__TERM_IS, v, NULL);
        if ((v = tr__unevaluated_item(s, a->shape, i, place)))
            tr__term_add(s, &t, TR__TERM_IS, v, NULL);
    }
    if (contained)
        tr__term_add(s, &t, TR__TERM_IS, contained, NULL);
    return t;
}

static uint32_t item_rule(struct array *a, uint32_t place, tr__site contained)
{
    struct tr__terms t = item_terms(a, place, contained);

    return tr__rule_of(a->s, &t);
}

/* ---- emitting ---- */

/* The counter is asked before the white space: behind it there must be a way on. */
static uint32_t end_of(struct array *a, uint32_t items)
{
    if (items < a->min && !a->counted)
        return 0;
    uint32_t end = tr__space(a->s, a->close);
    return a->counted && a->min > 0 ? tr__min(a->s->b, a->min, end) : end;
}

static uint32_t count(struct array *a, uint32_t next)
{
    return a->counted ? tr__inc(a->s->b, a->max, next) : next;
}

/* Behind an item: the end, or a comma and `next`. */
static uint32_t behind(struct array *a, uint32_t items, bool may_end, uint32_t next)
{
    struct tr__nodes *b = a->s->b;
    uint32_t comma = next ? tr__byte(b, ',', ',', 0, tr__space(a->s, next)) : 0;

    return tr__split(b, count(a, comma), may_end ? end_of(a, items) : 0);
}

/* Items behind the prefix, the first of them next. With contains: `more` still waits for it. */
static uint32_t emit_rest(struct array *a)
{
    struct tr__nodes *b = a->s->b;
    uint32_t rule = item_rule(a, a->n_prefix, NULL), loop = tr__hole(b), rest, waiting, found;

    tr__patch(b, loop, behind(a, TR__NO_LIMIT, true, tr__call(b, rule, 0, loop)), 0);
    rest = tr__call(b, rule, 0, loop);
    if (!a->contains)
        return rest;
    found = tr__call(b, item_rule(a, a->n_prefix, a->contains), 0, loop);
    waiting = tr__hole(b);
    tr__patch(b, waiting,
              behind(a, TR__NO_LIMIT, false, tr__split(b, found, tr__call(b, rule, 0, waiting))),
              0);
    return tr__split(b, found, tr__call(b, rule, 0, waiting));
}

static uint32_t emit_items(struct array *a)
{
    struct tr__nodes *b = a->s->b;
    uint32_t next = a->max > a->n_prefix ? emit_rest(a) : 0;
    uint32_t n = TR_MIN(a->n_prefix, a->max);

    for (uint32_t i = n; i-- > 0 && b->r == 0;)
        next = tr__call(b, item_rule(a, i, NULL), 0, behind(a, i + 1, true, next));
    return next;
}

/* ---- items that must differ ---- */

static uint32_t emit_brackets(struct array *a, uint32_t first, uint32_t next)
{
    struct tr__nodes *b = a->s->b;
    uint32_t empty = a->min == 0 && !a->contains ? tr__byte(b, ']', ']', 0, next) : 0;

    return tr__byte(b, '[', '[', 0, tr__space(a->s, tr__split(b, empty, count(a, first))));
}

/* Strings, told apart as names of properties are. */
static uint32_t emit_unique_strings(struct array *a, const struct tr__dfa *d, uint32_t next)
{
    struct tr__nodes *b = a->s->b;
    uint32_t behind = tr__hole(b), names, at, comma;

    a->close = tr__byte(b, ']', ']', 0, next);
    at = tr__name_byte(b, '"', '"', TR__NODE_NAME_END, 0, behind);
    at = tr__dfa_emit_names(b, d, at, &names);
    at = tr__name_byte(b, '"', '"', TR__NODE_NAME_BEGIN, 0, at);
    if (at && names > 0 && a->min > names)
        at = 0;
    comma = at ? tr__byte(b, ',', ',', 0, tr__space(a->s, at)) : 0;
    tr__patch(b, behind, tr__name_room_for(b, 0, names, count(a, comma)), end_of(a, TR__NO_LIMIT));
    return at || a->min == 0 ? emit_brackets(a, at, next) : 0;
}

/* The list of items with a short enum; NULL: they have none. */
static tr__site short_list(struct array *a, tr__site *ret_items)
{
    struct tr__schema *s = a->s;
    tr__site items = NULL, list = NULL, v;

    for (uint32_t i = 0; i < a->shape->n_schemas; i++)
        if ((v = tr__member(s, a->shape->schemas[i], "items")))
            items = v;
    if (items && tr__member(s, items, "$ref"))
        items = tr__ref_target(s, items);
    if (items && tr_json_type(items) == TR_JSON_OBJECT)
        list = tr__member(s, items, "enum");
    *ret_items = items;
    return list && tr_json_size(list) <= MAX_UNIQUE ? list : NULL;
}

/* Values of a short list each. */
static uint32_t emit_unique_values(struct array *a, tr__site items, tr__site list)
{
    struct tr__schema *s = a->s;
    struct tr__nodes *b = s->b;
    uint32_t n = (uint32_t)tr_json_size(list), nodes[1 << MAX_UNIQUE];

    /* nodes[used]: behind an item, when these have been used. */
    for (uint32_t used = 1u << n; used-- > 0 && b->r == 0;) {
        uint32_t count_used = (uint32_t)__builtin_popcount(used), more = 0;
        for (uint32_t i = 0; i < n && count_used < a->max; i++) {
            struct tr__terms t = {0};
            if (used >> i & 1)
                continue;
            tr__term_add(s, &t, TR__TERM_IS, items, NULL);
            tr__term_add(s, &t, TR__TERM_VALUE, tr__keep(s, tr_json_at(list, i)), NULL);
            more = tr__split(b, more, tr__call(b, tr__rule_of(s, &t), 0, nodes[used | 1u << i]));
        }
        if (used == 0)
            return more;
        nodes[used] = tr__split(b, more ? tr__byte(b, ',', ',', 0, tr__space(s, more)) : 0,
                                count_used >= a->min ? tr__space(s, a->close) : 0);
    }
    return 0;
}

static uint32_t emit_unique(struct array *a, uint32_t next)
{
    struct tr__schema *s = a->s;
    struct tr__terms t = item_terms(a, a->n_prefix, NULL);
    struct tr__dfa d = {0};
    tr__site items, list = short_list(a, &items);
    bool plain = a->n_prefix == 0 && !a->contains && s->b->r == 0, only = false;
    uint32_t start = 0, first;

    if (plain && list && t.n == 1) {
        a->close = tr__byte(s->b, ']', ']', 0, next);
        first = emit_unique_values(a, items, list);
        return first || a->min == 0 ? emit_brackets(a, first, next) : 0;
    }
    a->counted = a->min > 1 || a->max != TR__NO_LIMIT;
    if (!plain || !tr__strings_of(s, &t, &only, &d) || !only || a->min > TR__MAX_NAMES)
        tr__schema_fail(s, TR_EUNSUPPORTED, a->shape->unique, "uniqueItems",
                        "only supported for items that are strings, for items with an enum of at "
                        "most 8 values, or for at most one item");
    else
        start = emit_unique_strings(a, &d, next);
    tr__dfa_done(&d);
    return start;
}

/* ---- the whole ---- */

/* What an array of more items than the prefix needs. */
static uint32_t vital_rule(struct array *a)
{
    struct tr__nodes *b = a->s->b;
    uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule);
    uint32_t at = tr__call(b, item_rule(a, a->n_prefix, NULL), 0, tr__match(b));

    for (uint32_t i = 0; i < a->n_prefix && b->r == 0; i++)
        at = tr__call(b, item_rule(a, i, NULL), 0, at);
    tr__rule_enter(b, outer);
    if (b->r == 0)
        b->rules[rule].start = at;
    return rule;
}

static uint32_t emit_counted(struct array *a, uint32_t rule)
{
    struct tr__nodes *b = a->s->b;
    uint32_t start, vital, end = tr__match(b);

    a->close = tr__byte(b, ']', ']', 0, end);
    start = emit_brackets(a, emit_items(a), end);
    vital = a->min > a->n_prefix ? vital_rule(a) : TR__NONE;
    if (b->r)
        return 0;
    b->rules[rule].min = a->min;
    b->rules[rule].max = a->max;
    b->rules[rule].counted = true;
    b->rules[rule].vital = vital;
    return start;
}

uint32_t tr__emit_array(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    struct array a = {.s = s, .shape = shape, .min = shape->min_items, .max = shape->max_items};
    uint32_t rule, outer, first, start;

    for (uint32_t i = 0; i < shape->n_schemas && s->b->r == 0; i++)
        read_schema(&a, shape->schemas[i]);
    if (s->b->r || a.min > a.max || (a.contains && a.max == 0))
        return 0;
    if (a.contains && a.n_prefix > 0)
        return tr__schema_fail(s, TR_EUNSUPPORTED, a.contains, NULL,
                               "with prefixItems not supported");
    if (a.max == 0) {
        a.close = tr__byte(s->b, ']', ']', 0, next);
        return tr__byte(s->b, '[', '[', 0, tr__space(s, a.close));
    }
    bool unique = shape->unique && a.max > 1;
    a.counted =
        !unique && (a.min > a.n_prefix + 1 || (a.max > a.n_prefix && a.max != TR__NO_LIMIT));
    if (!a.counted && !unique) {
        a.close = tr__byte(s->b, ']', ']', 0, next);
        first = emit_items(&a);
        return first || a.min == 0 ? emit_brackets(&a, first, next) : 0;
    }
    rule = tr__rule_new(s->b);
    outer = tr__rule_enter(s->b, rule);
    start = unique ? emit_unique(&a, tr__match(s->b)) : emit_counted(&a, rule);
    tr__rule_enter(s->b, outer);
    if (s->b->r)
        return 0;
    s->b->rules[rule].start = start;
    return tr__call(s->b, rule, 0, next);
}
