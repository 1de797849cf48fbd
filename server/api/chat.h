/* POST /v1/chat/completions and /apply-template. */
#ifndef TR_SERVER_API_CHAT_H
#define TR_SERVER_API_CHAT_H

#include "server/call/call.h"
#include "server/http/route.h"

extern const struct srv_route srv_chat_route, srv_apply_template_route;
/* The fields of a prompt made of messages, for /apply-template. */
extern const struct srv_table srv_apply_template_fields;

/* Appends the id of a call: unique in the daemon, the same each time it is written. */
void srv_call_id(struct tr_buf *out, const struct srv_choice *ch, int number);

#endif
