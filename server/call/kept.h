/*
 * What calls keep in memory, counted: prompts, lists, texts and grammars from the moment they are
 * read, and answers while they are gathered.
 *
 * Together they have a budget, request_memory. What would exceed it is refused when it has been
 * read; answers that are gathered whole may take as much again.
 */
#ifndef TR_SERVER_CALL_KEPT_H
#define TR_SERVER_CALL_KEPT_H

#include "server/call/call.h"

/* A grammar that calls share. */
struct srv_kept_grammar {
    struct srv_kept_grammar *next;
    const struct tr_grammar *grammar;
    size_t bytes;
    int users;
};

/* Counts what a call that was read will keep while it waits; false: there is no room for it. A call
 * alone always has room: max_body bounds it. Loop thread, as all of these. */
bool srv_kept_take(struct srv_call *c);
/* n more bytes of its answer; false: too much. */
bool srv_kept_grow(struct srv_call *c, size_t n);
/* The call ends. */
void srv_kept_give(struct srv_call *c);
/* About the bytes of an answer that is given whole. */
size_t srv_kept_answer(const struct srv_call *c);

#endif
