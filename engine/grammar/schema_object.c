/*
 * Objects: the properties in the order of the schema, then, where others are allowed, any further
 * ones. Each place between two properties is one node, so that many optional ones cost no more than
 * themselves. A name that is declared does not come back among the further ones.
 *
 * In tags, the braces, commas and colons are gone; so are names that a tag cannot hold.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"
#include "engine/text/tools.h"

enum { MAX_PATTERNS = 5, PROPERTY_FUEL = 100 };

struct property {
    const char *name;
    size_t bytes;
    bool required, forbidden;
    struct tr__terms terms;
};

struct key_pattern { /* of patternProperties */
    struct tr__pattern pattern;
    tr__site schema; /* that it stands in */
    tr__site value;  /* what the property must satisfy */
};

struct object {
    struct tr__schema *s;
    const struct tr__shape *shape;
    struct property *properties;
    struct property none; /* given out after an error */
    uint32_t n, cap;
    uint32_t *table, table_cap; /* by name: index + 1 */
    struct key_pattern patterns[MAX_PATTERNS];
    uint32_t n_patterns;
    uint32_t *required_from; /* required properties at this place or behind */
    uint32_t min, max;
    bool counted, open; /* open: further properties */
    bool tags;          /* TR__FORM_PARAMETERS */
    uint32_t close;     /* "}", then what follows */
    uint32_t further;   /* the first of further properties */
    struct further {
        uint32_t start, names; /* names: 0 = no end of them */
        unsigned set;
    } languages[1 << MAX_PATTERNS];
    uint32_t n_languages;
    uint32_t behind; /* what follows a further one, a hole until the count is settled */
};

/* ---- names ---- */

static uint32_t hash_of(const char *name)
{
    uint32_t h = 2166136261u;

    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h ^ h >> 15;
}

static bool grow(struct object *o)
{
    uint32_t cap = o->cap ? 2 * o->cap : 16;
    struct property *grown = tr__alloc(o->s, cap * sizeof(*grown));
    uint32_t *table = tr__alloc(o->s, 2 * (size_t)cap * sizeof(*table));

    if (!grown || !table)
        return false;
    if (o->n > 0)
        memcpy(grown, o->properties, o->n * sizeof(*grown));
    o->properties = grown;
    o->cap = cap;
    o->table = table;
    o->table_cap = 2 * cap;
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t at = hash_of(grown[i].name) & (o->table_cap - 1);
        while (table[at])
            at = (at + 1) & (o->table_cap - 1);
        table[at] = i + 1;
    }
    return true;
}

static struct property *property(struct object *o, const char *name, size_t bytes)
{
    uint32_t at;

    if (!tr__spend(o->s->b, PROPERTY_FUEL) || (o->n == o->cap && !grow(o)))
        return &o->none;
    for (at = hash_of(name) & (o->table_cap - 1); o->table[at]; at = (at + 1) & (o->table_cap - 1))
        if (strcmp(o->properties[o->table[at] - 1].name, name) == 0)
            return &o->properties[o->table[at] - 1];
    o->properties[o->n] = (struct property){.name = name, .bytes = bytes};
    o->table[at] = ++o->n;
    return &o->properties[o->n - 1];
}

static void read_required(struct object *o, tr__site schema)
{
    tr__site list = tr__member(o->s, schema, "required");
    const char *name;

    if (list && tr_json_type(list) != TR_JSON_ARRAY)
        tr__schema_fail(o->s, TR_EINVAL, schema, "required", "expected a list of names");
    for (size_t i = 0; list && i < tr_json_size(list) && o->s->b->r == 0; i++) {
        struct tr_json v = tr_json_at(list, i);
        if (tr_json_as_string(&v, &name, NULL, NULL) < 0)
            tr__schema_fail(o->s, TR_EINVAL, schema, "required", "expected a list of names");
        else
            property(o, name, strlen(name))->required = true;
    }
}

static tr__site map_of(struct tr__schema *s, tr__site schema, const char *key)
{
    tr__site map = tr__member(s, schema, key);

    if (map && tr_json_type(map) != TR_JSON_OBJECT) {
        tr__schema_fail(s, TR_EINVAL, schema, key, "expected an object of schemas");
        return NULL;
    }
    return map;
}

static void read_patterns(struct object *o, tr__site schema)
{
    tr__site map = map_of(o->s, schema, "patternProperties");
    struct tr_json v;
    void *iter = NULL;

    while (map && tr_json_next(map, &iter, &v)) {
        if (o->n_patterns == MAX_PATTERNS) {
            tr__schema_fail(o->s, TR_EUNSUPPORTED, schema, "patternProperties",
                            "more than 5 are not supported");
            return;
        }
        tr__site value = tr__keep(o->s, v);
        o->patterns[o->n_patterns++] =
            (struct key_pattern){.pattern = {.text = v.key, .n = v.key_bytes, .site = value},
                                 .schema = schema,
                                 .value = value};
    }
}

static void read_names(struct object *o)
{
    const struct tr__shape *shape = o->shape;
    struct tr_json v;

    for (uint32_t i = 0; i < shape->n_schemas && o->s->b->r == 0; i++) {
        tr__site map = map_of(o->s, shape->schemas[i], "properties");
        void *iter = NULL;
        while (map && tr_json_next(map, &iter, &v))
            property(o, v.key, v.key_bytes);
        read_patterns(o, shape->schemas[i]);
    }
    for (uint32_t i = 0; i < shape->n_schemas && o->s->b->r == 0; i++)
        read_required(o, shape->schemas[i]);
    for (uint32_t i = 0; i < shape->names.n; i++) {
        const struct tr__term *t = &shape->names.at[i];
        struct property *p = property(o, t->key, strlen(t->key));
        p->required |= t->kind != TR__TERM_FORBID;
        p->forbidden |= t->kind == TR__TERM_FORBID;
    }
}

/* ---- what holds of a property ---- */

/* Adds (t not NULL) what a schema's properties, patterns (those of the set) and
 * additionalProperties say; false if they say nothing. */
static bool own_terms(struct object *o, tr__site schema, const char *name, unsigned patterns,
                      struct tr__terms *t)
{
    struct tr__schema *s = o->s;
    tr__site map = name ? map_of(s, schema, "properties") : NULL;
    tr__site v = map ? tr__member(s, map, name) : NULL, rest;
    bool known = v != NULL;

    if (v && t)
        tr__term_add(s, t, TR__TERM_IS, v, NULL);
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        if (o->patterns[i].schema != schema || !(patterns >> i & 1))
            continue;
        if (t)
            tr__term_add(s, t, TR__TERM_IS, o->patterns[i].value, NULL);
        known = true;
    }
    if (!known && (rest = tr__member(s, schema, "additionalProperties"))) {
        if (t)
            tr__term_add(s, t, TR__TERM_IS, rest, NULL);
        known = true;
    }
    return known;
}

/* And what the i-th schema's unevaluatedProperties says, if none it looks at says anything. */
static void add_terms(struct object *o, uint32_t i, const char *name, unsigned patterns,
                      struct tr__terms *t)
{
    const struct tr__shape *shape = o->shape;
    tr__site schema = shape->schemas[i];
    tr__site rest = tr__member(o->s, schema, "unevaluatedProperties");

    if (own_terms(o, schema, name, patterns, t) || !rest)
        return;
    for (uint32_t k = 0; k < shape->n_schemas; k++)
        if (k != i && tr__in_scope(shape->scopes[k], schema) &&
            (own_terms(o, shape->schemas[k], name, patterns, NULL) ||
             tr__member(o->s, shape->schemas[k], "unevaluatedProperties")))
            return;
    tr__term_add(o->s, t, TR__TERM_IS, rest, NULL);
}

static bool has_false(const struct tr__terms *t)
{
    bool value = true;

    for (uint32_t i = 0; i < t->n; i++)
        if (t->at[i].kind == TR__TERM_IS && tr_json_as_bool(t->at[i].site, &value, NULL) == 0 &&
            !value)
            return true;
    return false;
}

static bool terms_of(struct object *o, const struct tr__dfa *names, const char *name, size_t n,
                     struct tr__terms *t)
{
    unsigned patterns = 0;

    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (tr__name_matches(o->s, &o->patterns[i].pattern, name, n))
            patterns |= 1u << i;
    for (uint32_t i = 0; i < o->shape->n_schemas; i++)
        add_terms(o, i, name, patterns, t);
    for (uint32_t i = 0; i < o->shape->names.n; i++) {
        const struct tr__term *x = &o->shape->names.at[i];
        if (strcmp(x->key, name) != 0)
            continue;
        if (x->kind == TR__TERM_FORBID)
            return false;
        if (x->kind == TR__TERM_LACKS)
            tr__term_add(o->s, t, TR__TERM_NOT, x->site, NULL);
    }
    return (!names || tr__name_among(o->s, names, name, n)) && !has_false(t);
}

static bool fits_a_tag(const char *name, size_t n)
{
    return n > 0 && !memchr(name, '>', n) && !memchr(name, '\n', n) && !memchr(name, '\0', n);
}

/* How values of the property are written; name NULL: of those that are not declared. */
static enum tr__form form_of(const struct object *o, const char *name)
{
    unsigned types = o->tags ? tr_tool_parameter_types(o->s->root, name) : TR_TOOL_OTHER;

    return !(types & TR_TOOL_STRING) ? TR__FORM_JSON
           : types == TR_TOOL_ANY    ? TR__FORM_TEXT
                                     : TR__FORM_BARE;
}

bool tr__property_terms(struct tr__schema *s, const struct tr__shape *shape, const char *name,
                        struct tr__terms *ret)
{
    struct object o = {.s = s, .shape = shape};
    struct tr__dfa names = {0};
    bool restricted, allowed;

    for (uint32_t i = 0; i < shape->n_schemas && s->b->r == 0; i++)
        read_patterns(&o, shape->schemas[i]);
    restricted = tr__names_language(s, shape, &names);
    allowed = terms_of(&o, restricted ? &names : NULL, name, strlen(name), ret);
    tr__dfa_done(&names);
    return allowed && s->b->r == 0;
}

/* Takes out the properties that may not be; false if one of them is required. */
static bool settle_properties(struct object *o, const struct tr__dfa *names)
{
    bool possible = true;

    for (uint32_t i = 0; i < o->n && o->s->b->r == 0; i++) {
        struct property *p = &o->properties[i];
        p->forbidden |= !terms_of(o, names, p->name, p->bytes, &p->terms) ||
                        (o->tags && !fits_a_tag(p->name, p->bytes));
        p->terms.form = form_of(o, p->name);
        possible &= !(p->forbidden && p->required);
    }
    return possible && o->s->b->r == 0;
}

/* ---- further properties ---- */

static uint32_t text(struct object *o, const char *words, uint32_t next)
{
    return tr__text(o->s->b, words, strlen(words), next);
}

/* The end of a key, the value, what is between it and the next key. */
static uint32_t emit_key_end(struct object *o, const struct tr__terms *t, unsigned flags,
                             uint32_t behind)
{
    struct tr__nodes *b = o->s->b;

    if (o->tags)
        behind = text(o, "\n</parameter>\n", behind);
    behind = tr__call(b, tr__rule_of(o->s, t), 0, behind);
    behind = o->tags ? text(o, "\n", behind) : text(o, ":", tr__space(o->s, behind));
    return flags ? tr__name_byte(b, o->tags ? '>' : '"', o->tags ? '>' : '"', flags, 0, behind)
                 : text(o, o->tags ? ">" : "\"", behind);
}

/* Of a further property: from its first byte on the name counts as begun. */
static uint32_t emit_further_key(struct object *o, const struct tr__dfa *keys, unsigned set,
                                 const struct tr__terms *t, uint32_t behind)
{
    struct tr__nodes *b = o->s->b;
    uint32_t names, at = emit_key_end(o, t, TR__NODE_NAME_END, behind);

    at = tr__dfa_emit_names(b, keys, at, &names);
    at = o->tags ? text(o, "parameter=", at) : at;
    at = tr__name_byte(b, o->tags ? '<' : '"', o->tags ? '<' : '"', TR__NODE_NAME_BEGIN, set, at);
    if (at)
        o->languages[o->n_languages++] = (struct further){at, names, set};
    return at;
}

static uint32_t emit_key_begin(struct object *o, uint32_t next)
{
    return text(o, o->tags ? "<parameter=" : "\"", next);
}

/* The declared names as they are spelled. */
static struct tr_grammar_text *declared_names(struct object *o)
{
    struct tr_grammar_text *words = tr__alloc(o->s, (o->n + 1) * sizeof(*words));
    struct tr_buf spelled = {0};

    for (uint32_t i = 0; words && i < o->n; i++) {
        tr_buf_clear(&spelled);
        tr__json_spell(&spelled, o->s->spelling, o->properties[i].name, o->properties[i].bytes);
        char *copy = tr__alloc(o->s, spelled.len + 1);
        if (copy && spelled.len > 0)
            memcpy(copy, spelled.data, spelled.len);
        words[i] = (struct tr_grammar_text){copy, copy ? spelled.len : 0};
    }
    tr_buf_done(&spelled);
    return o->s->b->r ? NULL : words;
}

/* Names that are not declared, match the patterns of the set and none else. */
static void further_names(struct object *o, const struct tr__dfa *names, unsigned set,
                          struct tr__dfa *ret)
{
    struct tr__schema *s = o->s;
    struct tr_grammar_text *words = declared_names(o);
    struct tr__dfa other = {0};

    tr__dfa_copy(s->b, tr__any_language(s), ret);
    if (names && tr__names_language(s, o->shape, &other))
        tr__dfa_meet(s->b, ret, &other, false);
    if (words)
        tr__dfa_drop_words(s->b, ret, words, o->n);
    for (uint32_t i = 0; i < o->n_patterns && s->b->r == 0; i++) {
        tr__pattern_language(s, &o->patterns[i].pattern, &other);
        tr__dfa_meet(s->b, ret, &other, !(set >> i & 1));
    }
    if (o->tags) {
        static const char fitting[] = "[^>\n\\x00]+";
        uint32_t e = tr__regex_parse(&s->x, fitting, sizeof(fitting) - 1, NULL);
        tr__dfa_of(&s->x, e, TR__MATCH_WHOLE, TR__SPELL_RAW, &other);
        tr__dfa_meet(s->b, ret, &other, false);
    }
}

static void emit_further(struct object *o, const struct tr__dfa *names)
{
    struct tr__nodes *b = o->s->b;
    uint32_t behind = tr__hole(b), out = 0;

    for (unsigned set = 0; set < 1u << o->n_patterns && b->r == 0; set++) {
        struct tr__dfa keys = {0};
        struct tr__terms t = {.form = form_of(o, NULL)};
        for (uint32_t i = 0; i < o->shape->n_schemas; i++)
            add_terms(o, i, NULL, set, &t);
        if (has_false(&t))
            continue;
        further_names(o, names, set, &keys);
        if (!tr__dfa_empty(&keys))
            out = tr__split(b, out, emit_further_key(o, &keys, set, &t, behind));
        tr__dfa_done(&keys);
    }
    o->open = out != 0;
    o->further = out;
    o->behind = behind;
}

/* ---- the chain of places ---- */

/* White space and "}", where no required property is missing any more. The counter is asked first:
 * behind white space there must be a way on. */
static uint32_t close_at(struct object *o, uint32_t place)
{
    struct tr__nodes *b = o->s->b;
    bool enough = o->min <= o->required_from[0];

    if (o->required_from[place] > 0)
        return 0;
    uint32_t end = o->tags ? o->close : tr__space(o->s, o->close);
    return o->counted && !enough ? tr__min(b, o->min, end) : end;
}

static uint32_t comma_to(struct object *o, uint32_t next)
{
    struct tr__nodes *b = o->s->b;

    if (next == 0)
        return 0;
    if (!o->tags)
        next = tr__byte(b, ',', ',', 0, tr__space(o->s, next));
    return o->counted ? tr__inc(b, o->max, next) : next;
}

/* From one further property to the next, as long as there is a name left. */
static uint32_t emit_next_further(struct object *o)
{
    uint32_t out = 0;

    for (uint32_t i = 0; i < o->n_languages; i++) {
        const struct further *f = &o->languages[i];
        out = tr__split(o->s->b, out,
                        tr__name_room_for(o->s->b, f->set, f->names, comma_to(o, f->start)));
    }
    return out;
}

/* The first property is at `place` or behind; the counter holds it already. */
static uint32_t emit_place(struct object *o, uint32_t place, uint32_t later)
{
    struct tr__nodes *b = o->s->b;
    const struct property *p = &o->properties[place];
    uint32_t behind, take, left = o->n - place - 1, still = o->required_from[place + 1];
    struct tr_buf key = {0};

    if (p->forbidden)
        return later;
    behind = tr__split(b, comma_to(o, later), close_at(o, place + 1));
    tr__json_spell(&key, o->s->spelling, p->name, p->bytes);
    take = emit_key_begin(o, tr__text(b, key.data, key.len, emit_key_end(o, &p->terms, 0, behind)));
    tr_buf_done(&key);
    if (p->required)
        return take;
    if (o->counted && o->max != TR__NO_LIMIT && still > 0)
        take = tr__max(b, o->max - still, take);
    if (o->counted && !o->open && o->min + 1 > left && later)
        later = tr__min(b, o->min + 1 - left, later);
    return tr__split(b, take, later);
}

static uint32_t emit_open(struct object *o, uint32_t next)
{
    return o->tags ? next : tr__byte(o->s->b, '{', '{', 0, tr__space(o->s, next));
}

static uint32_t emit_members(struct object *o)
{
    uint32_t next = o->further, first;
    struct tr__nodes *b = o->s->b;

    for (uint32_t i = o->n; i-- > 0 && b->r == 0;)
        next = emit_place(o, i, next);
    first = o->counted && next ? tr__inc(b, o->max, next) : next;
    first = tr__split(b, first, o->required_from[0] == 0 && o->min == 0 ? o->close : 0);
    return emit_open(o, first);
}

/* Drops the forbidden properties; further names have been told before. */
static void compact(struct object *o)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < o->n; i++)
        if (!o->properties[i].forbidden)
            o->properties[n++] = o->properties[i];
    o->n = n;
}

static void count_required(struct object *o)
{
    o->required_from[o->n] = 0;
    for (uint32_t i = o->n; i-- > 0;)
        o->required_from[i] = o->required_from[i + 1] + o->properties[i].required;
}

/* What the optional properties need that a lower bound asks for. */
static uint32_t vital_rule(struct object *o)
{
    struct tr__nodes *b = o->s->b;
    uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule), at = tr__match(b);

    for (uint32_t i = 0; i < o->n && b->r == 0; i++)
        if (!o->properties[i].required)
            at = tr__call(b, tr__rule_of(o->s, &o->properties[i].terms), 0, at);
    tr__rule_enter(b, outer);
    if (b->r == 0)
        b->rules[rule].start = at;
    return rule;
}

/* What bounds on the number of properties leave to count; false if they cannot be met. */
static bool settle_count(struct object *o)
{
    uint32_t required = o->required_from[0];
    bool low, high;

    if (o->min > o->max || required > o->max || (!o->open && o->n < o->min))
        return false;
    low = o->min > required;
    high = o->max != TR__NO_LIMIT && (o->open || o->max < o->n);
    if (low && o->open && o->min > required + 1) {
        tr__schema_fail(o->s, TR_EUNSUPPORTED, o->shape->sized ? o->shape->sized : o->s->root,
                        "minProperties",
                        "not supported above the required ones, but for one, unless "
                        "additionalProperties is false");
        return false;
    }
    o->counted = low || high;
    if (low && !o->open) {
        uint32_t vital = vital_rule(o);
        if (o->s->b->r == 0)
            o->s->b->rules[o->s->b->rule].vital = vital;
    }
    return o->s->b->r == 0;
}

static uint32_t emit_object(struct object *o, uint32_t next)
{
    struct tr__dfa names = {0};
    bool restricted = tr__names_language(o->s, o->shape, &names),
         possible = settle_properties(o, restricted ? &names : NULL);
    uint32_t start = 0;

    o->close = o->tags ? next : tr__byte(o->s->b, '}', '}', 0, next);
    if (possible) {
        emit_further(o, restricted ? &names : NULL);
        compact(o);
        count_required(o);
        if (o->s->b->r == 0 && settle_count(o)) {
            tr__patch(o->s->b, o->behind, close_at(o, o->n), emit_next_further(o));
            start = o->max == 0 ? emit_open(o, o->close) : emit_members(o);
        }
    }
    tr__dfa_done(&names);
    return start;
}

uint32_t tr__emit_object(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    struct object o = {.s = s,
                       .shape = shape,
                       .min = shape->min_properties,
                       .max = shape->max_properties,
                       .tags = shape->form == TR__FORM_PARAMETERS};
    enum tr__spelling spelling = s->spelling;
    uint32_t rule, outer, start;

    read_names(&o);
    o.required_from = tr__alloc(s, (o.n + 1) * sizeof(*o.required_from));
    if (s->b->r)
        return 0;
    s->spelling = o.tags ? TR__SPELL_RAW : spelling; /* of the names */
    if (o.min == 0 && o.max == TR__NO_LIMIT) {
        start = emit_object(&o, next);
        s->spelling = spelling;
        return start;
    }
    rule = tr__rule_new(s->b);
    outer = tr__rule_enter(s->b, rule);
    start = emit_object(&o, tr__match(s->b));
    s->spelling = spelling;
    tr__rule_enter(s->b, outer);
    if (s->b->r)
        return 0;
    s->b->rules[rule].start = start;
    return tr__call(s->b, rule, 0, next);
}
