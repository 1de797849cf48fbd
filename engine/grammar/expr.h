/*
 * Expressions over characters: what regular expressions, GBNF and EBNF are parsed to, and how they
 * become nodes. An expression is a number; lists are kept last member first, which is the order of
 * emitting. Errors are the sticky ones of the node table given to tr__exprs_init.
 */
#ifndef TR_ENGINE_GRAMMAR_EXPR_H
#define TR_ENGINE_GRAMMAR_EXPR_H

#include "engine/grammar/nodes.h"

struct tr__range {
    uint32_t lo, hi; /* code points */
};

/* Set of code points: ascending disjoint ranges. A zeroed struct is the empty set. */
struct tr__set {
    struct tr__range *at;
    uint32_t n, cap;
};

enum tr__expr_kind {
    TR__EXPR_EMPTY,
    TR__EXPR_NEVER,
    TR__EXPR_SET,
    TR__EXPR_SEQ,
    TR__EXPR_ALT,
    TR__EXPR_REPEAT,
    TR__EXPR_CALL,
    TR__EXPR_BEGIN, /* anchors */
    TR__EXPR_END
};

struct tr__expr {
    uint8_t kind;
    bool anchors;      /* holds an anchor */
    bool nullable;     /* matches the empty text; of calls: it may */
    uint32_t a;        /* SET: first range; SEQ, ALT, REPEAT: last or only member; CALL: rule */
    uint32_t b;        /* SET: number of ranges */
    uint32_t before;   /* the member before this one, 0 = none */
    uint32_t min, max; /* REPEAT; max TR__NO_LIMIT = none */
};

enum { TR__CATEGORIES = 6 }; /* general categories that have a name here */

struct tr__exprs {
    struct tr__nodes *b;
    struct tr__expr *at;
    struct tr__range *ranges;
    uint32_t n, cap, n_ranges, ranges_cap;
    struct tr__set categories[TR__CATEGORIES]; /* empty until needed */
};

/* How characters are written. */
enum tr__spelling {
    TR__SPELL_RAW,     /* UTF-8 */
    TR__SPELL_JSON,    /* inside a JSON string: the escapes that JSON demands, the rest as it is */
    TR__SPELL_GUARDED, /* likewise, and < escaped, so that no tag is in it */
    TR__SPELLINGS
};

void tr__exprs_init(struct tr__exprs *x, struct tr__nodes *b);
void tr__exprs_done(struct tr__exprs *x);

/* ---- sets (charset.c) ---- */

enum { TR__LAST_CHAR = 0x10FFFF };

void tr__set_done(struct tr__set *s);
void tr__set_add(struct tr__nodes *b, struct tr__set *s, uint32_t lo, uint32_t hi);
/* Sorts, joins, and takes the surrogates out. */
void tr__set_tidy(struct tr__nodes *b, struct tr__set *s);
void tr__set_invert(struct tr__nodes *b, struct tr__set *s); /* of a tidy one; tidy after */
/* Adds the characters of a general category (L, M, N, Nd, P, S or its long name); false:
 * unknown. */
bool tr__set_category(struct tr__exprs *x, struct tr__set *s, const char *name, size_t n);
/* The node that takes one character of the ranges; flags go to its first bytes that take a clean
 * character as it is. */
uint32_t tr__emit_ranges(struct tr__nodes *b, const struct tr__range *r, uint32_t n,
                         enum tr__spelling spelling, unsigned flags, uint32_t next);
/* Holds all clean characters. */
bool tr__ranges_clean(const struct tr__range *r, uint32_t n);

/* ---- building ---- */

uint32_t tr__expr_simple(struct tr__exprs *x, enum tr__expr_kind kind); /* EMPTY, NEVER, anchors */
uint32_t tr__expr_set(struct tr__exprs *x, const struct tr__set *s);
uint32_t tr__expr_char(struct tr__exprs *x, uint32_t lo, uint32_t hi);
uint32_t tr__expr_call(struct tr__exprs *x, uint32_t rule);
uint32_t tr__expr_repeat(struct tr__exprs *x, uint32_t of, uint32_t min, uint32_t max);
/* SEQ or ALT: begin with list = 0, add members in order, close (which may return the only one). A
 * member may be in one list only. */
void tr__expr_append(struct tr__exprs *x, uint32_t *list, uint32_t member);
uint32_t tr__expr_close(struct tr__exprs *x, enum tr__expr_kind kind, uint32_t list);
/* The characters of valid UTF-8. */
uint32_t tr__expr_text(struct tr__exprs *x, const char *text, size_t n);

/* ---- emitting ---- */

enum tr__match_kind {
    TR__MATCH_WHOLE, /* the expression is all of the text */
    TR__MATCH_PART   /* it occurs somewhere in it */
};

/* The node from which e, then next. Without rules of its own (`flat`) repetitions are written
 * out. */
uint32_t tr__emit(struct tr__exprs *x, uint32_t e, enum tr__spelling spelling, bool flat,
                  uint32_t next);
/* The same for an expression with anchors as a whole. */
uint32_t tr__emit_match(struct tr__exprs *x, uint32_t e, enum tr__match_kind kind,
                        enum tr__spelling spelling, bool flat, uint32_t next);

/* ---- regular expressions (regex.c) ---- */

/* The expression of an ECMA pattern; errors name the position. param (may be NULL) goes to them. */
uint32_t tr__regex_parse(struct tr__exprs *x, const char *text, size_t n, const char *param);

/* Nesting of groups. */
enum { TR__MAX_NESTING = 200 };

#endif
