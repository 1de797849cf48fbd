/* What a call cost: the usage object of every API, and the ledger that `timings` asks for. */
#ifndef TR_SERVER_CALL_USAGE_H
#define TR_SERVER_CALL_USAGE_H

#include "config/buf.h"

struct srv_call;

/* Tokens of all prompts and choices so far. */
struct srv_usage {
    long long prompt, cached, completion,
        reasoning; /* cached: of the prompt; the last: of the third */
};
struct srv_usage srv_usage_of(const struct srv_call *c);
/* Appends {"prompt_tokens":...} and {"queue_ms":...}. */
void srv_usage_object(struct tr_buf *out, const struct srv_call *c);
void srv_timings_object(struct tr_buf *out, const struct srv_call *c);

#endif
