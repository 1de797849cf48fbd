/* What can be tried of a checkpoint's text side in a few milliseconds, before anybody is served. */
#ifndef TR_SERVER_PROBE_H
#define TR_SERVER_PROBE_H

#include "engine/text/chat.h"

struct srv_probe {
    bool exact;   /* the tokenizer is one whose ids spell the text; else the next two are 0 */
    int texts;    /* in so many scripts, encoded and decoded */
    int specials; /* added tokens, each of which was found by its spelling */
    int rendered; /* tokens of a question by the chat template; 0: none, or it was refused .. */
    struct tr_err refused; /* .. for this, which need be no fault; code 0: it was not */
};

/* chat NULL: there is no template. TR_EINTERNAL: what came back is not what went in; err says
 * where. */
TR_NODISCARD int srv_probe(struct srv_probe *ret, const struct tr_tokenizer *tokenizer,
                           const struct tr_chat *chat, struct tr_err *err);

#endif
