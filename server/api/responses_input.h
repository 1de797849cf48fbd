/* A request of the responses API: its fields, and its way into the chat form. */
#ifndef TR_SERVER_API_RESPONSES_INPUT_H
#define TR_SERVER_API_RESPONSES_INPUT_H

#include "server/call/call.h"

extern const struct srv_table srv_responses_fields;

/* An srv_api.read. */
TR_NODISCARD int srv_responses_read(struct srv_call *c, struct tr_err *err);

#endif
