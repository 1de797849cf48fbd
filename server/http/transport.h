/* libmicrohttpd inside libuv's loop: starting, running and stopping it. */
#ifndef TR_SERVER_HTTP_TRANSPORT_H
#define TR_SERVER_HTTP_TRANSPORT_H

#include <sys/socket.h>

#include "config/err.h"

struct srv;
struct srv_conn;

/* Starts libmicrohttpd without a listening socket and ties its epoll descriptor to the loop. */
TR_NODISCARD int srv_transport_start(struct srv *s, struct tr_err *err);
/* New connections are served by a fresh libmicrohttpd, with the certificates of the options in
 * force. On failure nothing has changed. */
TR_NODISCARD int srv_transport_renew(struct srv *s, struct tr_err *err);
/* An srv_accept_fn, arg = the server. */
void srv_transport_accept(void *srv, int fd, const struct sockaddr *addr, socklen_t n);
/* Hands a connection to libmicrohttpd. */
void srv_transport_take_over(struct srv_conn *c);
/* An srv_exhausted_fn, likewise: a connection between requests gives way. */
void srv_transport_exhausted(void *srv);
/* Ends every connection; no request may be open any more. Handles are closed by the loop. */
void srv_transport_stop(struct srv *s);

#endif
