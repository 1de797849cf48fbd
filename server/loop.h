/*
 * The daemon's life: bind, load, serve, drain, end.
 *
 * Everything here happens on the loop thread except loads, which have a thread of their own so
 * that signals are heard, and requests answered (swap.h), meanwhile. The order of the end stands in
 * `close_all`, top to bottom.
 */
#ifndef TR_SERVER_LOOP_H
#define TR_SERVER_LOOP_H

#include "config/options.h"

struct srv_inbox;
struct srv_route;

/* Loads the checkpoint, serves the routes until SIGTERM or SIGINT; the exit status of the process.
 * inbox: requests come from there alone, not from sockets; NULL: as the options say. The log is set
 * up before; only a reload sets it up again. */
int srv_run(const struct tr_options *options, const struct srv_route *const *routes, int n_routes,
            struct srv_inbox *inbox);

#endif
