/* POST /v1/messages and /v1/messages/count_tokens: the API of Anthropic's clients. */
#ifndef TR_SERVER_API_MESSAGES_H
#define TR_SERVER_API_MESSAGES_H

#include "server/http/route.h"

extern const struct srv_route srv_messages_route, srv_count_tokens_route;

#endif
