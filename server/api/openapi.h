/* GET /v1/capabilities and /openapi.json, written from the routes and their fields. */
#ifndef TR_SERVER_API_OPENAPI_H
#define TR_SERVER_API_OPENAPI_H

#include "server/http/route.h"

extern const struct srv_route srv_capabilities_route, srv_openapi_route;

#endif
