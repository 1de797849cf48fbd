/* POST /v1/responses. */
#ifndef TR_SERVER_API_RESPONSES_H
#define TR_SERVER_API_RESPONSES_H

#include "server/call/call.h"

void srv_responses(struct srv_req *req);

extern const struct srv_api srv_responses_api;

/* responses_input.c: the fields of a request, and an srv_api.read. */
extern const struct srv_table srv_responses_fields;
TR_NODISCARD int srv_responses_read(struct srv_call *c, struct tr_err *err);

#endif
