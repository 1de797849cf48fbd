/* libmicrohttpd inside libuv's loop: starting, running and stopping it. */
#ifndef TR_SERVER_HTTP_TRANSPORT_H
#define TR_SERVER_HTTP_TRANSPORT_H

#include <uv.h>

#include "config/err.h"

struct srv;
struct MHD_Daemon;

/* One libmicrohttpd. New certificates need a new one; the old ones serve their connections to the
 * end. */
struct srv_mhd {
    struct srv_mhd *next; /* older */
    struct srv *srv;
    struct MHD_Daemon *daemon;
    uv_poll_t poll; /* its epoll descriptor */
    int n_conns;
};

/* Starts libmicrohttpd without a listening socket and ties its epoll descriptor to the loop. */
TR_NODISCARD int srv_transport_start(struct srv *s, struct tr_err *err);
/* New connections are served by a fresh libmicrohttpd, with the certificates of the options in
 * force. On failure nothing has changed. */
TR_NODISCARD int srv_transport_renew(struct srv *s, struct tr_err *err);
/* Runs libmicrohttpd until it has nothing more to do at once, as before every sleep of the loop;
 * those that serve no connection any more are stopped. */
void srv_transport_run(struct srv *s);
/* Ends every connection; no request may be open any more. Handles are closed by the loop. */
void srv_transport_stop(struct srv *s);

#endif
