/* POST /admin/reload: the checkpoint is loaded again from where the operator says it is. */
#ifndef TR_SERVER_API_RELOAD_H
#define TR_SERVER_API_RELOAD_H

#include "server/http/route.h"

extern const struct srv_route srv_reload_route;

#endif
