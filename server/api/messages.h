/* POST /v1/messages and /v1/messages/count_tokens: the API of Anthropic's clients. */
#ifndef TR_SERVER_API_MESSAGES_H
#define TR_SERVER_API_MESSAGES_H

#include "server/call/call.h"

void srv_messages(struct srv_req *req);
void srv_count_tokens(struct srv_req *req);

extern const struct srv_api srv_messages_api;
/* Appends {"type":"error",...}: what these routes answer for any refusal. */
void srv_messages_error(struct tr_buf *out, int status, const char *request_id, const char *msg);

/* messages_input.c: the fields of a request, the translation of one, and an srv_api.read. */
struct srv_translation;
extern const struct srv_table srv_messages_fields;
TR_NODISCARD int srv_messages_translate(struct srv_params *p, struct srv_translation *t,
                                        struct tr_err *err);
TR_NODISCARD int srv_messages_read(struct srv_call *c, struct tr_err *err);

#endif
