/* Log probabilities as JSON: the legacy arrays of completions, and prompt_logprobs. */
#ifndef TR_SERVER_CALL_LOGPROBS_H
#define TR_SERVER_CALL_LOGPROBS_H

#include "config/buf.h"
#include "engine/engine.h"

struct srv_call;
struct srv_choice;

enum { SRV_LOGPROB_PARTS = 4 };

/* Written JSON of log probabilities: comma-separated elements of as many arrays as the API's shape
 * has. */
struct srv_logprobs {
    struct tr_buf part[SRV_LOGPROB_PARTS];
    int n; /* elements in each */
};

void srv_logprobs_done(struct srv_logprobs *l);
/* Forgets what has been written. */
void srv_logprobs_clear(struct srv_logprobs *l);
/* An srv_api.logprob: one element each of tokens, token_logprobs, top_logprobs and text_offset. */
void srv_legacy_logprob(struct srv_call *c, struct srv_logprobs *to, const struct tr_event *e,
                        size_t offset);
/* The same for chats: one object in the first part. */
void srv_chat_logprob(struct srv_call *c, struct srv_logprobs *to, const struct tr_event *e,
                      size_t offset);
/* The object with the four arrays, or null. */
void srv_legacy_logprobs(struct tr_buf *out, const struct srv_choice *ch, bool with_prompt);
/* One element of prompt_logprobs: {"ID":{"logprob":x,"rank":n,"decoded_token":"text"},...}. */
void srv_prompt_logprob(const struct srv_call *c, struct tr_buf *out, const struct tr_event *e);

#endif
