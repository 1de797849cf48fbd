/* Running libmicrohttpd from libuv's loop. */
#ifndef TR_SERVER_HTTP_PUMP_H
#define TR_SERVER_HTTP_PUMP_H

#include <uv.h>

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

/* Runs libmicrohttpd until it has nothing more to do at once; those that serve no connection any
 * more are stopped. */
void srv_pump_run(struct srv *s);
/* Ends it and every connection of it; the loop frees m. */
void srv_mhd_stop(struct srv_mhd *m);

#endif
