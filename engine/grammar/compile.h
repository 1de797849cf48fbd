/* What the front ends share: each emits a rule into the node table and returns its number. */
#ifndef TR_ENGINE_GRAMMAR_COMPILE_H
#define TR_ENGINE_GRAMMAR_COMPILE_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/nodes.h"

/* The node that takes one of the words (which are sorted), then next. */
uint32_t tr__emit_words(struct tr__nodes *b, struct tr_grammar_text *words, uint32_t n,
                        uint32_t next);

/* A grammar inside another: its rule. Errors tell its name. */
uint32_t tr__compile_part(struct tr__nodes *b, const struct tr_grammar_source *source);
/* JSON Schema, any object, parameters (schema.c). */
uint32_t tr__compile_schema(struct tr__nodes *b, const struct tr_grammar_source *source);
/* GBNF and EBNF (bnf.c). */
uint32_t tr__compile_bnf(struct tr__nodes *b, const struct tr_grammar_source *source);

#endif
