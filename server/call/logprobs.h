/* Log probabilities as JSON: the legacy arrays of completions, and prompt_logprobs. */
#ifndef TR_SERVER_CALL_LOGPROBS_H
#define TR_SERVER_CALL_LOGPROBS_H

#include "server/call/call.h"

/* Finite, not below -9999; NAN (the first prompt token) is null. */
void srv_logprob_number(struct tr_buf *out, float logprob);
/* A token's name as a JSON string: its text, bytes:\\xNN where that is no text, or token_id:N if the call asks so. */
void srv_token_name(struct tr_buf *out, const struct srv_call *c, int32_t id, bool as_bytes);
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
