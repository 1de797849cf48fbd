/* The paths that the daemon serves: an API is a file of its own, and a row here. */
#ifndef TR_SERVER_API_ROUTES_H
#define TR_SERVER_API_ROUTES_H

#include "server/http/route.h"

extern const struct srv_route *const srv_routes[];
extern const int srv_n_routes;

#endif
