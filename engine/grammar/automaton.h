/*
 * Deterministic automata over bytes, for what expressions alone cannot say: both of two languages,
 * or one without the other. They are made while compiling and emitted into the node table.
 */
#ifndef TR_ENGINE_GRAMMAR_AUTOMATON_H
#define TR_ENGINE_GRAMMAR_AUTOMATON_H

#include "engine/grammar/expr.h"
#include "engine/grammar/grammar.h"

/* State 0 is dead, 1 the start. A zeroed struct is the empty language. */
struct tr__dfa {
    uint8_t class_of[256];
    uint32_t n_classes, n, cap; /* states */
    uint32_t *to;               /* n x n_classes */
    uint8_t *accept;
};

enum { TR__MAX_STATES = 20000 };

void tr__dfa_done(struct tr__dfa *d);
/* The language of e, repetitions written out. Errors: the sticky ones of x->b. */
void tr__dfa_of(struct tr__exprs *x, uint32_t e, enum tr__match_kind kind,
                enum tr__spelling spelling, struct tr__dfa *ret);
/* A new automaton of `classes` byte classes with its dead state and start. */
bool tr__dfa_begin(struct tr__nodes *b, struct tr__dfa *d, uint32_t classes);
/* Another state; 0 upon an error. */
uint32_t tr__dfa_add(struct tr__nodes *b, struct tr__dfa *d);
/* d = d and e, or with `without` d and not e. e is emptied. */
void tr__dfa_meet(struct tr__nodes *b, struct tr__dfa *d, struct tr__dfa *e, bool without);
/* d without the words. */
void tr__dfa_drop_words(struct tr__nodes *b, struct tr__dfa *d, const struct tr_grammar_text *words,
                        uint32_t n);
void tr__dfa_copy(struct tr__nodes *b, const struct tr__dfa *from, struct tr__dfa *ret);
bool tr__dfa_accepts(const struct tr__dfa *d, const char *bytes, size_t n);
bool tr__dfa_empty(const struct tr__dfa *d); /* of one made by the functions above */
uint32_t tr__dfa_emit(struct tr__nodes *b, const struct tr__dfa *d, uint32_t next);
/* The same for names that come once; *ret_names: how many there are, 0 = no end of them. */
uint32_t tr__dfa_emit_names(struct tr__nodes *b, const struct tr__dfa *d, uint32_t next,
                            uint32_t *ret_names);
/* The strings of d of min..max characters, then next, counted at run time. False if that cannot
 * be done: d has strings shorter than min. `any`: the automaton of all strings, of which d is a
 * part. */
bool tr__dfa_emit_counted(struct tr__nodes *b, const struct tr__dfa *d, const struct tr__dfa *any,
                          uint32_t min, uint32_t max, uint32_t next, uint32_t *ret);

/* Makes states dead from which nothing is accepted. */
void tr__dfa_trim(struct tr__nodes *b, struct tr__dfa *d);

#endif
