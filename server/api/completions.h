/* POST /v1/completions. */
#ifndef TR_SERVER_API_COMPLETIONS_H
#define TR_SERVER_API_COMPLETIONS_H

#include "server/http/route.h"

extern const struct srv_route srv_completions_route;

#endif
