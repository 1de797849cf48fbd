/* POST /v1/responses. */
#ifndef TR_SERVER_API_RESPONSES_H
#define TR_SERVER_API_RESPONSES_H

#include "server/http/route.h"

extern const struct srv_route srv_responses_route;

#endif
