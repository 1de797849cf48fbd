/* What the answers of completions and of chat have in common: the envelope, usage, errors within a
 * stream. */
#ifndef TR_SERVER_API_OPENAI_H
#define TR_SERVER_API_OPENAI_H

#include "server/call/call.h"

/* Appends {"id":...,"choices":[ to c->req->out: of its answer, or of each of its chunks. */
void srv_openai_head(struct srv_call *c, const char *object);
/* Appends a list of ids. */
void srv_openai_ids(struct tr_buf *out, const int32_t *ids, size_t n);
/* Appends a whole answer to c->req->out; add appends a choice's object. */
void srv_openai_answer(struct srv_call *c, const char *object,
                       void (*add)(struct tr_buf *out, struct srv_choice *ch));
/* Closes a chunk that has one choice: ],"usage":... and the end of the event. */
void srv_openai_chunk_end(struct tr_buf *out, const struct srv_call *c);
/* Most of an srv_api.end: the usage chunk, and data: [DONE]. */
void srv_openai_end(struct srv_call *c, const char *object);
/* An srv_api.fault. */
void srv_openai_fault(struct srv_call *c, const struct tr_err *err);

/* Appends what was asked for beside the text, each field behind a comma: the ids that the choice
 * has gathered; the prompt's ids and logprobs. */
void srv_openai_token_ids(struct tr_buf *out, const struct srv_choice *ch);
void srv_openai_prompt(struct tr_buf *out, const struct srv_choice *ch);
/* Appends the stop_reason of a choice. */
void srv_openai_stop_reason(struct tr_buf *out, const struct srv_choice *ch);

#endif
