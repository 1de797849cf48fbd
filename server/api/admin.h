/* Small answers about the daemon itself. */
#ifndef TR_SERVER_API_ADMIN_H
#define TR_SERVER_API_ADMIN_H

#include "server/http/route.h"

extern const struct srv_route srv_models_route, srv_model_route, srv_health_route, srv_readyz_route,
    srv_livez_route, srv_ping_route, srv_version_route, srv_usage_route;

#endif
