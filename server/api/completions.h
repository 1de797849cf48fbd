/* POST /v1/completions. */
#ifndef TR_SERVER_API_COMPLETIONS_H
#define TR_SERVER_API_COMPLETIONS_H

#include "server/call/call.h"

void srv_completions(struct srv_req *req);

extern const struct srv_api srv_completions_api;

#endif
