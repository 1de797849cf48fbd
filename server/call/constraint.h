/*
 * Constrained answers: what a client demands of an answer's text, by whichever name, to a grammar.
 */
#ifndef TR_SERVER_CALL_CONSTRAINT_H
#define TR_SERVER_CALL_CONSTRAINT_H

#include "config/buf.h"
#include "config/err.h"
#include "engine/grammar/grammar.h"

struct srv_call;

enum { SRV_N_CONSTRAINT_WORDS = 8 };
/* A body without them has no constraint: compiling one takes too long for the loop thread. */
extern const char *const srv_constraint_words[SRV_N_CONSTRAINT_WORDS];
/* The grammar that the parameters ask for; *ret stays untouched if they ask for none. Reads the
 * rules of the call's turns. The error's param is the field with, for a schema, the JSON pointer of
 * the place in it. */
TR_NODISCARD int srv_constraint_read(struct tr_grammar **ret, const struct srv_call *c,
                                     struct tr_err *err);

#endif
