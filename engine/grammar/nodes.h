/*
 * The node table: what every front end emits and the machine runs.
 *
 * A grammar is a set of rules; a rule is a graph of nodes over bytes, entered at its start and left
 * at its MATCH node. A node either takes one byte of a range, or takes nothing: it splits, calls a
 * rule, or works on the rule's counter, of which every activation of a rule has one, beginning at
 * 0. Nodes are emitted backwards: each names the node that follows, which exists already. Equal
 * nodes are one node, so that lists of words end in shared tails. Node 0 fails.
 *
 * Errors are sticky: after the first, every function returns 0 and b->r says why.
 */
#ifndef TR_ENGINE_GRAMMAR_NODES_H
#define TR_ENGINE_GRAMMAR_NODES_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

enum tr__op {
    TR__OP_FAIL,
    TR__OP_BYTE,  /* a byte lo..hi, then next */
    TR__OP_SPLIT, /* next or arg */
    TR__OP_CALL,  /* rule arg, then next */
    TR__OP_MATCH, /* the rule's end */
    TR__OP_INC,   /* only if counter < arg: counter + 1, then next */
    TR__OP_MIN,   /* only if counter >= arg: next */
    TR__OP_MAX,   /* only if counter <= arg: next */
    TR__OP_ROOM   /* only if language lo of arg names (0: no end) has one not used: next */
};

enum tr__node_flags {
    TR__NODE_CLEAN_STAR =
        1, /* begins a character of a loop that takes every clean one, unbounded */
    TR__NODE_CLEAN_COUNT = 2, /* the same, each of them counted once by the rule's counter */
    TR__NODE_NONEMPTY = 4,    /* CALL: the rule's empty match does not count */
    /* BYTE, of a name that comes once in an object (names.c). */
    TR__NODE_NAME = 8,        /* within; arg: how many names go on from here, 0 = no end of them */
    TR__NODE_NAME_BEGIN = 16, /* before; arg: number of its language */
    TR__NODE_NAME_END = 32    /* behind */
};

struct tr__node {
    uint8_t op, lo, hi, flags;
    uint32_t next, arg;
    uint32_t rule; /* whose counter it means */
};

enum { TR__NONE = 0x7FFFFFFF, TR__NO_LIMIT = 0x7FFFFFFF, TR__LIMIT_MAX = 0x7FFFFF00 };

struct tr__rule {
    uint32_t start;    /* node, 0 until set */
    uint32_t match;    /* its MATCH node */
    uint32_t min, max; /* of the counter: over `min` nothing more is asked, `max` is never passed */
    uint32_t margin;   /* below max, where bounds of its nodes may stand */
    uint32_t body;     /* the rule that a counted repetition calls; TR__NONE */
    uint32_t vital;    /* without this rule `min` cannot be reached; TR__NONE */
    uint32_t rank;     /* a rule comes after those that can call it without taking a byte */
    bool counted;      /* no bounds but these: far from them the counter is forgotten */
    bool nullable;
    bool named;         /* its counter is a record of names (names.c) */
    uint32_t few_names; /* so many names used may be all that can follow some place */
    const char *name;   /* for messages while compiling, in the source; NULL */
    uint32_t name_bytes;
};

struct tr__nodes {
    struct tr__node *nodes;
    struct tr__rule *rules;
    uint16_t *height; /* stack a node needs to reach its rule's end; set by tr__analyse */
    uint32_t n, cap;  /* nodes */
    uint32_t n_rules, rules_cap;
    struct tr__shared { /* hash table of nodes */
        uint32_t hash, node;
    } * shared;
    uint32_t shared_cap;
    uint32_t rule; /* the rule being emitted */
    uint32_t max_nodes;
    int64_t fuel;       /* steps that compiling may still take */
    int r;              /* 0 or the first error */
    struct tr_err *err; /* NULL ok */
};

enum {
    TR__MAX_NODES = 400000,
    TR__MAX_DEPTH = 256,       /* activations on the stack */
    TR__MAX_NAMES = 1024,      /* further properties of an object */
    TR__COMPILE_FUEL = 6500000 /* less than 100 ms */
};

TR_NODISCARD int tr__nodes_init(struct tr__nodes *b, struct tr_err *err);
void tr__nodes_done(struct tr__nodes *b);

/* Spends fuel; false (and the sticky error) when there is none left. */
bool tr__spend(struct tr__nodes *b, int64_t steps);
/* Sets the sticky error unless there is one; returns 0. */
uint32_t tr__nodes_fail(struct tr__nodes *b, int code, const char *param, const char *fmt, ...)
    TR_PRINTF(4, 5);

/* ---- emitting ---- */

uint32_t tr__rule_new(struct tr__nodes *b);
/* Nodes emitted from here on belong to `rule`; returns the rule emitted before. */
uint32_t tr__rule_enter(struct tr__nodes *b, uint32_t rule);
/* The end of the rule being emitted. */
uint32_t tr__match(const struct tr__nodes *b);

uint32_t tr__byte(struct tr__nodes *b, unsigned lo, unsigned hi, unsigned flags, uint32_t next);
uint32_t tr__split(struct tr__nodes *b, uint32_t x, uint32_t y);
uint32_t tr__call(struct tr__nodes *b, uint32_t rule, unsigned flags, uint32_t next);
uint32_t tr__inc(struct tr__nodes *b, uint32_t limit, uint32_t next);
uint32_t tr__min(struct tr__nodes *b, uint32_t limit, uint32_t next);
uint32_t tr__max(struct tr__nodes *b, uint32_t limit, uint32_t next);
/* A byte of a name, or beside it; flags TR__NODE_NAME... */
uint32_t tr__name_byte(struct tr__nodes *b, unsigned lo, unsigned hi, unsigned flags, uint32_t arg,
                       uint32_t next);
uint32_t tr__name_room_for(struct tr__nodes *b, unsigned language, uint32_t names, uint32_t next);
uint32_t tr__text(struct tr__nodes *b, const char *bytes, size_t n, uint32_t next);
/* A split whose ends are set later, for loops. */
uint32_t tr__hole(struct tr__nodes *b);
void tr__patch(struct tr__nodes *b, uint32_t hole, uint32_t x, uint32_t y);

/* ---- after emitting ---- */

/* Empty matches, stack heights, order of rules (analyse.c). TR_EUNSUPPORTED: left recursion, work
 * or size; TR_EINVAL: nothing is in the language. */
TR_NODISCARD int tr__analyse(struct tr__nodes *b, uint32_t root);

#endif
