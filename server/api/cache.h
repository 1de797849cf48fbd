/* The KV cache seen from outside: what fits into it, and computed prefixes as files. */
#ifndef TR_SERVER_API_CACHE_H
#define TR_SERVER_API_CACHE_H

#include "server/http/route.h"

extern const struct srv_route srv_capacity_route, srv_snapshots_route, srv_snapshot_route;

#endif
