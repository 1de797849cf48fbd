/*
 * GET /v1/engine and /v1/engine/events: the engine at work, once or a few times a second.
 *
 * Nobody waits for the engine: a drawing is asked for, and sent when it is there. However many
 * watch, it is asked for and written once.
 */
#ifndef TR_SERVER_API_ENGINE_VIEW_H
#define TR_SERVER_API_ENGINE_VIEW_H

#include "server/http/route.h"

extern const struct srv_route srv_engine_route, srv_engine_events_route;

/* Once the loop is closed. */
void srv_watch_done(struct srv *s);

#endif
