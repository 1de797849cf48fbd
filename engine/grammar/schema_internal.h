/*
 * JSON Schema to nodes, the parts' common ground.
 *
 * What a value must satisfy is a list of terms: "this schema holds", "this one does not", and the
 * pieces these fall into. schema_terms.c takes a list apart until only keywords without a choice
 * are left (allOf and $ref join, anyOf, oneOf, not and if split), schema_shape.c sums the keywords
 * up in a shape, and schema_{string,number,object,array,values}.c emit the shape. Equal lists are
 * one rule, which is how recursion ends.
 */
#ifndef TR_ENGINE_GRAMMAR_SCHEMA_INTERNAL_H
#define TR_ENGINE_GRAMMAR_SCHEMA_INTERNAL_H

#include "config/buf.h"
#include "config/json.h"
#include "engine/grammar/automaton.h"
#include "engine/grammar/compile.h"
#include "engine/grammar/decimal.h"

/* A schema, or a value in it: a cursor that lives as long as the compilation. */
typedef const struct tr_json *tr__site;

enum tr__term_kind {
    TR__TERM_IS,      /* the schema holds */
    TR__TERM_NOT,     /* the schema does not hold */
    TR__TERM_BASE,    /* its keywords that bring no choice and no other schema hold */
    TR__TERM_ANY,     /* its anyOf holds */
    TR__TERM_ONE,     /* its oneOf holds */
    TR__TERM_IF,      /* its if/then/else hold */
    TR__TERM_DEPENDS, /* site is a member of its dependentSchemas or dependentRequired */
    TR__TERM_NEITHER, /* one of its keywords does not hold */
    TR__TERM_UNLESS,  /* site is a keyword's value: that does not hold */
    TR__TERM_VALUE,   /* this value */
    TR__TERM_OBJECT,  /* an object; site is any */
    TR__TERM_FORBID,  /* no object with the property `key` */
    TR__TERM_REQUIRE, /* an object with the property `key` */
    TR__TERM_LACKS    /* an object whose property `key` does not satisfy the schema */
};

/* The schemas with unevaluated keywords whose place in the value a schema shares, through allOf,
 * $ref and the like: to them it tells what it has evaluated. One list is one pointer. */
struct tr__scope {
    const struct tr__scope *up, *next; /* next: of all there are */
    tr__site site;
};

struct tr__term {
    enum tr__term_kind kind;
    tr__site site;
    const char *key;
    const struct tr__scope *scope; /* of schemas that hold; NULL = none */
};

/* How a value is written. */
enum tr__form {
    TR__FORM_JSON,
    TR__FORM_PARAMETERS, /* an object: its members, each in tags */
    TR__FORM_TEXT,       /* between tags: a string as it is */
    TR__FORM_BARE        /* the same, or null */
};

struct tr__terms {
    struct tr__term *at; /* in the arena; grows by copying */
    uint32_t n, cap;
    enum tr__form form;
};

struct tr__schema {
    struct tr__nodes *b;
    struct tr__exprs x;
    const struct tr_grammar_source *source;
    struct json_t *doc;
    tr__site here; /* the schema under way, for errors that do not know their place */
    tr__site root;
    struct tr__chunk *chunks; /* arena */
    size_t arena_bytes;
    struct tr__known { /* rules by their terms */
        struct tr__terms terms;
        uint32_t rule;
    } * known;
    uint32_t n_known, known_cap, n_done;
    uint32_t *table, table_cap;
    struct tr__named { /* $id and $anchor */
        const char *name;
        tr__site site;
        bool anchor;
    } * named;
    uint32_t n_named, named_cap;
    struct tr__leaf { /* schemas of scalar keywords, each of equal ones the first */
        uint64_t hash;
        tr__site site;
    } * leaves; /* arena, hash table */
    uint32_t n_leaves, leaves_cap;
    const struct tr__scope *scopes;
    enum tr__spelling spelling;        /* of strings */
    struct tr__dfa any[TR__SPELLINGS]; /* all strings, by spelling; empty until needed */
    uint32_t any_string;               /* shared rules, TR__NONE until needed */
    uint32_t space;                    /* white space with indentation */
};

/* ---- schema.c ---- */

/* Zeroed memory until the end of the compilation; NULL upon an error. */
void *tr__alloc(struct tr__schema *s, size_t n);
tr__site tr__keep(struct tr__schema *s, struct tr_json v);
/* Sticky error at a keyword of a schema (key NULL: at the site itself). */
uint32_t tr__schema_fail(struct tr__schema *s, int code, tr__site site, const char *key,
                         const char *what);
/* The member of an object; NULL if there is none. */
tr__site tr__member(struct tr__schema *s, tr__site object, const char *key);
/* The rule of a list of terms. */
uint32_t tr__rule_of(struct tr__schema *s, const struct tr__terms *t);
/* White space between two tokens, then next. */
uint32_t tr__space(struct tr__schema *s, uint32_t next);
/* Any string, any value: shared rules. */
uint32_t tr__any_string(struct tr__schema *s);
uint32_t tr__emit_any_char(struct tr__schema *s, unsigned flags, uint32_t next);

/* ---- schema_leaves.c ---- */

/* The first met of the schemas that say the same, if all they say is of scalars; else the site. */
tr__site tr__leaf(struct tr__schema *s, tr__site site);

/* ---- schema_evaluated.c ---- */

/* The scope of what a schema applies in place. */
const struct tr__scope *tr__scope_enter(struct tr__schema *s, tr__site schema,
                                        const struct tr__scope *up);
bool tr__in_scope(const struct tr__scope *scope, tr__site schema);
struct tr__shape;
/* What unevaluatedItems of the i-th schema says of an item at a place; NULL = nothing. */
tr__site tr__unevaluated_item(struct tr__schema *s, const struct tr__shape *shape, uint32_t i,
                              uint32_t place);

/* ---- schema_refs.c ---- */

/* Notes all $id and $anchor. */
void tr__refs_collect(struct tr__schema *s);
/* What the $ref of a schema means; NULL upon an error. */
tr__site tr__ref_target(struct tr__schema *s, tr__site schema);

/* ---- schema_terms.c ---- */

void tr__term_add(struct tr__schema *s, struct tr__terms *t, enum tr__term_kind kind, tr__site site,
                  const char *key); /* without a scope */
/* The node that takes a value of which the terms hold, then the end of the rule. */
uint32_t tr__emit_terms(struct tr__schema *s, const struct tr__terms *t);
/* Joins what joins; false if nothing can satisfy the terms. *splits: alternatives are left. */
bool tr__open_terms(struct tr__schema *s, const struct tr__terms *t, struct tr__terms *ret,
                    bool *splits);
/* The same for terms that neither join nor split (schema_shape.c). */
uint32_t tr__emit_shape(struct tr__schema *s, const struct tr__terms *t);

/* ---- schema_disjoint.c ---- */

enum tr__types {
    TR__TYPE_NULL = 1,
    TR__TYPE_BOOL = 2,
    TR__TYPE_FRACTION = 4, /* a number that is no integer */
    TR__TYPE_INTEGER = 8,
    TR__TYPE_STRING = 16,
    TR__TYPE_ARRAY = 32,
    TR__TYPE_OBJECT = 64,
    TR__TYPE_NUMBER = 12,
    TR__TYPE_ALL = 127
};

/* The types a schema's `type` names. */
unsigned tr__types_named(struct tr__schema *s, tr__site schema, tr__site type);
unsigned tr__type_of_value(const struct tr_json *v);
/* Some type is left by the terms. */
bool tr__possible(struct tr__schema *s, const struct tr__terms *t);
/* What a schema is told apart by; NULL upon an error. */
struct tr__outline;
const struct tr__outline *tr__outline_of(struct tr__schema *s, tr__site schema);
/* No value satisfies both, as far as is easily seen. */
bool tr__disjoint(struct tr__schema *s, const struct tr__outline *a, const struct tr__outline *b);

/* ---- schema_shape.c ---- */

struct tr__pattern {
    const char *text;
    size_t n;
    bool whole;   /* the whole string, not some part */
    bool without; /* does not match */
    tr__site site;
};

struct tr__shape {
    enum tr__form form;
    unsigned types;
    bool has_low, has_high, low_strict, high_strict;
    struct tr__decimal low, high;
    tr__site multiples[8];
    uint32_t n_multiples;
    uint32_t min_length, max_length;
    struct tr__pattern patterns[16];
    uint32_t n_patterns;
    uint32_t min_items, max_items, min_properties, max_properties;
    tr__site sized;       /* the schema with minProperties */
    tr__site unique;      /* uniqueItems: true */
    tr__site schemas[64]; /* BASE terms with keywords of arrays or objects */
    const struct tr__scope *scopes[64];
    uint32_t n_schemas;
    tr__site lists[16]; /* enum, and const (a single value) */
    bool list_is_const[16];
    uint32_t n_lists;
    tr__site excluded[64]; /* values */
    uint32_t n_excluded;
    struct tr__terms names; /* FORBID, REQUIRE, LACKS */
};

/* Sums up BASE, UNLESS, FORBID, REQUIRE and LACKS terms. */
void tr__shape_of(struct tr__schema *s, const struct tr__terms *t, struct tr__shape *ret);

/* ---- emitters: the value, then next ---- */

uint32_t tr__emit_number(struct tr__schema *s, const struct tr__shape *shape, uint32_t next);
uint32_t tr__emit_string(struct tr__schema *s, const struct tr__shape *shape, uint32_t next);
/* All strings: shared, not to be changed. */
const struct tr__dfa *tr__any_language(struct tr__schema *s);
/* The contents of a string, without quotes, of any characters: the language of property names. */
void tr__string_language(struct tr__schema *s, const struct tr__shape *shape, struct tr__dfa *ret);
uint32_t tr__emit_array(struct tr__schema *s, const struct tr__shape *shape, uint32_t next);
uint32_t tr__emit_object(struct tr__schema *s, const struct tr__shape *shape, uint32_t next);
/* What must hold of the property `name`; false: an object may not have it. */
bool tr__property_terms(struct tr__schema *s, const struct tr__shape *shape, const char *name,
                        struct tr__terms *ret);
/* The names that the propertyNames of an object's schemas allow; false if they say nothing. */
bool tr__names_language(struct tr__schema *s, const struct tr__shape *object, struct tr__dfa *ret);
/* The contents of strings, without quotes, of which the terms hold. False if the terms split;
 * *ret_only: nothing but strings satisfies them. */
bool tr__strings_of(struct tr__schema *s, const struct tr__terms *t, bool *ret_only,
                    struct tr__dfa *ret);
/* Of a language of names as they are spelled, and of a pattern. */
bool tr__name_among(const struct tr__schema *s, const struct tr__dfa *names, const char *name,
                    size_t n);
bool tr__name_matches(struct tr__schema *s, const struct tr__pattern *p, const char *name,
                      size_t n);
/* Not in JSON: a string that needs no quotes between tags. */
uint32_t tr__emit_bare_string(struct tr__schema *s, const struct tr__shape *shape, uint32_t next);
/* No text between tags holds one of these. */
extern const char *const tr__tags[3];
/* The values of enum and const that the rest of the shape allows. */
uint32_t tr__emit_values(struct tr__schema *s, const struct tr__shape *shape, uint32_t next);

/* Canonical text of a value; equal values have equal texts. `sorted`: members by name. */
void tr__json_text(struct tr_buf *out, enum tr__spelling spelling, const struct tr_json *v,
                   bool sorted);
bool tr__json_equal(const struct tr_json *a, const struct tr_json *b);
uint64_t tr__json_hash(const struct tr_json *v); /* of equal values equal */
/* Contents of a JSON string in its one canonical spelling. */
void tr__json_spell(struct tr_buf *out, enum tr__spelling spelling, const char *text, size_t n);

/* list ends with NULL. */
bool tr__is_one_of(const char *key, const char *const *list);

/* The language of a pattern's strings, as they are spelled. Errors name its site. */
void tr__pattern_language(struct tr__schema *s, const struct tr__pattern *p, struct tr__dfa *ret);
/* The pattern of a format that is enforced, NULL for others. */
const char *tr__format_pattern(const char *name);

#endif
