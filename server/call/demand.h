/*
 * What an answer may or must call: tool_choice, and the grammar of such answers.
 */
#ifndef TR_SERVER_CALL_DEMAND_H
#define TR_SERVER_CALL_DEMAND_H

#include "config/buf.h"
#include "engine/grammar/grammar.h"
#include "server/call/dialog.h"

enum srv_calls_mode { SRV_CALLS_AUTO, SRV_CALLS_NONE, SRV_CALLS_FORCED };

struct srv_tool_choice {
    enum srv_calls_mode mode;
    const char *name;     /* of the only function that may be called; NULL = it is not just one */
    struct tr_json among; /* a list of those that may; absent = all */
};

/* Reads the dialog's tool_choice, whose tools have been checked. Nothing of it may be forced that
 * no tool is there for. */
TR_NODISCARD int srv_tool_choice_read(struct srv_tool_choice *ret, const struct srv_dialog *d,
                                      struct tr_err *err);

/* The source of a grammar, with all that it borrows. */
struct srv_calls_source {
    struct tr_grammar_source source;
    struct tr_grammar_source *parts;
    struct tr_tool_name *names;
    struct tr_buf text;
    struct tr_buf *schemas;
    char (*labels)[32];
    size_t n;
};

/* The answers that the tools and the choice allow; `beside` (NULL = any text): what an answer
 * without calls is. *ret_any: all of them, there is nothing to constrain. After both,
 * srv_calls_source_done. */
TR_NODISCARD int srv_calls_source(struct srv_calls_source *ret, const struct srv_call *c,
                                  const struct tr_grammar_source *beside, bool *ret_any,
                                  struct tr_err *err);
void srv_calls_source_done(struct srv_calls_source *s);

#endif
