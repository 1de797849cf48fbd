/*
 * The values of a template, as Python sees them. All live in the vm's arena and never change after
 * they are made (the sandbox refuses append, update and the like), so sharing is free and there are
 * no cycles; namespace, iterator, loop, cycler and joiner objects are the exceptions, and none of
 * them can be reached from inside itself by anything that recurses.
 */
#ifndef TR_ENGINE_TEXT_TEMPLATE_VALUE_H
#define TR_ENGINE_TEXT_TEMPLATE_VALUE_H

#include "engine/text/template/vm.h"

enum tpl_type {
    TPL_UNDEFINED, /* u.str names it for messages, may be NULL; aux: how it came to be */
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_BIG, /* an integer beyond 64 bits: u.str has its digits; printed, not computed with */
    TPL_FLOAT,
    TPL_STR,
    TPL_LIST,
    TPL_TUPLE, /* u.list, as TPL_LIST */
    TPL_DICT,
    TPL_VIEW,  /* d.keys() etc.: u.dict, aux = enum tpl_view */
    TPL_RANGE, /* u.range */
    TPL_ITER,  /* what a generator is in Python: true, no length, consumed once */
    TPL_NAMESPACE,
    TPL_MACRO,
    TPL_METHOD,   /* u.method: receiver and method number */
    TPL_FUNCTION, /* a global function; aux: its place in call.c's table */
    TPL_LOOP,
    TPL_CYCLER,
    TPL_JOINER,
    TPL_ABSENT /* an argument that was not given; no template sees it */
};

enum tpl_view { TPL_KEYS, TPL_VALUES, TPL_ITEMS };

/* aux of an undefined value */
enum tpl_missing {
    TPL_NO_NAME,   /* a variable without value */
    TPL_NO_MEMBER, /* x.name or x['name'] that is not there */
    TPL_NO_ITEM,   /* first of nothing and the like; str is the message */
    TPL_UNSAFE     /* a method that would change its object: an error once called */
};

struct tpl_str {
    const char *s;            /* n bytes of UTF-8, not terminated */
    struct tpl_piece *pieces; /* NULL: all bytes have `origin` */
    struct tpl_room *room;    /* NULL, or the block that s ends in and that it may grow into */
    uint32_t n, n_pieces;
    int32_t chars; /* code points, -1 = not counted yet */
    uint16_t origin;
    bool markup; /* came out of |safe or |escape: `+` and `%` escape what they join to it */
};

struct tpl_value {
    uint8_t type; /* enum tpl_type */
    uint32_t aux;
    union {
        bool b;
        int64_t i;
        double f;
        struct tpl_str *str;
        struct tpl_list *list;
        struct tpl_dict *dict;
        struct tpl_range *range;
        struct tpl_stream *iter;
        struct tpl_namespace *ns;
        struct tpl_macro *macro;
        struct tpl_method *method;
        struct tpl_loop *loop;
        struct tpl_cycler *cycler;
        struct tpl_joiner *joiner;
    } u;
};

struct tpl_list {
    struct tpl_value *v;
    uint32_t n;
};

struct tpl_pair {
    struct tpl_value key, value;
};

struct tpl_dict {
    struct tpl_pair *v; /* in insertion order, keys unique */
    uint32_t *sorted;   /* places in v by key, NULL for small ones */
    uint32_t n;
};

struct tpl_range {
    int64_t start, stop, step;
    uint32_t n;
};

struct tpl_stream {
    struct tpl_list items;
    uint32_t at; /* next to be given */
};

struct tpl_namespace {
    struct tpl_pair *v;
    uint32_t n, cap;
};

struct tpl_cycler {
    struct tpl_list items;
    uint32_t at;
};

struct tpl_joiner {
    struct tpl_value separator;
    bool used;
};

struct tpl_method {
    struct tpl_value self;
    int id; /* methods.c */
};

/* Constructors. */
static inline struct tpl_value tpl_none(void)
{
    return (struct tpl_value){.type = TPL_NONE};
}
static inline struct tpl_value tpl_bool(bool b)
{
    return (struct tpl_value){.type = TPL_BOOL, .u.b = b};
}
static inline struct tpl_value tpl_int(int64_t i)
{
    return (struct tpl_value){.type = TPL_INT, .u.i = i};
}
static inline struct tpl_value tpl_float(double f)
{
    return (struct tpl_value){.type = TPL_FLOAT, .u.f = f};
}
static inline struct tpl_value tpl_of_str(struct tpl_str *s)
{
    return (struct tpl_value){.type = TPL_STR, .u.str = s};
}
static inline struct tpl_value tpl_undefined(enum tpl_missing how, struct tpl_str *name)
{
    return (struct tpl_value){.type = TPL_UNDEFINED, .aux = how, .u.str = name};
}
/* The bytes are borrowed and must outlive the arena. */
struct tpl_value tr_tpl_str(struct tpl_vm *vm, const char *s, size_t n, enum tpl_origin origin);
struct tpl_value tr_tpl_literal(struct tpl_vm *vm, const char *s); /* of the template's origin */
/* A list or tuple of n elements to be filled in by the caller before anybody else sees it. */
struct tpl_value tr_tpl_list(struct tpl_vm *vm, size_t n, enum tpl_type type);
struct tpl_value tr_tpl_pair(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b);
struct tpl_value tr_tpl_stream(struct tpl_vm *vm, struct tpl_value list);
/* Takes n pairs in order; of equal keys the last value stands at the first one's place. Keys that
 * Python cannot hash are an error. The array becomes the dict's. */
struct tpl_value tr_tpl_dict(struct tpl_vm *vm, struct tpl_pair *v, size_t n);

static inline bool tpl_is_str(struct tpl_value v)
{
    return v.type == TPL_STR;
}
static inline bool tpl_is_number(struct tpl_value v)
{
    return v.type == TPL_BOOL || v.type == TPL_INT || v.type == TPL_FLOAT;
}
static inline bool tpl_is_integer(struct tpl_value v) /* bool counts, as in Python */
{
    return v.type == TPL_BOOL || v.type == TPL_INT;
}
static inline int64_t tpl_integer(struct tpl_value v)
{
    return v.type == TPL_BOOL ? v.u.b : v.u.i;
}
static inline double tpl_number(struct tpl_value v)
{
    return v.type == TPL_FLOAT ? v.u.f : (double)tpl_integer(v);
}

bool tr_tpl_truth(struct tpl_vm *vm, struct tpl_value v);
bool tr_tpl_equal(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b);
bool tr_tpl_same(struct tpl_value a, struct tpl_value b); /* Python's `is` */
/* -1, 0, 1; 2 if a NaN is involved. `op` is for the message when the types have no order. */
int tr_tpl_compare(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b, const char *op);
bool tr_tpl_contains(struct tpl_vm *vm, struct tpl_value in, struct tpl_value what);
bool tr_tpl_str_is(struct tpl_value v, const char *s); /* a string with these bytes */
/* The value of a key; NULL if the dict has none. */
const struct tpl_value *tr_tpl_dict_get(struct tpl_vm *vm, const struct tpl_dict *d,
                                        struct tpl_value key);
struct tpl_value *tr_tpl_namespace_get(const struct tpl_namespace *ns, const struct tpl_str *name);
void tr_tpl_namespace_set(struct tpl_vm *vm, struct tpl_namespace *ns, struct tpl_value name,
                          struct tpl_value value);
/* len(); -1 if the value has none. */
int64_t tr_tpl_length(struct tpl_value v);
/* The name Python gives the type, for messages. */
const char *tr_tpl_type_name(struct tpl_value v);
/* Ends the render, saying what was undefined if v is. */
_Noreturn void tr_tpl_fail_type(struct tpl_vm *vm, struct tpl_value v, const char *what);

/* Stable order of the numbers 0..n-1. compare may fail; it gets `arg` and two of the numbers. */
uint32_t *tr_tpl_sort(struct tpl_vm *vm, size_t n,
                      int (*compare)(struct tpl_vm *vm, const void *arg, uint32_t a, uint32_t b),
                      const void *arg);

/* Walks anything iterable. */
struct tpl_cursor {
    struct tpl_value of;
    uint64_t at; /* element, or byte of a string */
};
bool tr_tpl_iterable(struct tpl_value v);
/* Fails if v is not iterable. */
struct tpl_cursor tr_tpl_iterate(struct tpl_vm *vm, struct tpl_value v);
bool tr_tpl_next(struct tpl_vm *vm, struct tpl_cursor *c, struct tpl_value *ret);
/* list(v) */
struct tpl_value tr_tpl_to_list(struct tpl_vm *vm, struct tpl_value v);

/* x.name, x[key], x[a:b:c] (a bound that is not given is none). Never an error for what is missing,
 * except on undefined values. */
struct tpl_value tr_tpl_attr(struct tpl_vm *vm, struct tpl_value of, struct tpl_value name);
struct tpl_value tr_tpl_item(struct tpl_vm *vm, struct tpl_value of, struct tpl_value key);
struct tpl_value tr_tpl_slice(struct tpl_vm *vm, struct tpl_value of, const struct tpl_value at[3]);

#endif
