/* libmicrohttpd inside libuv's loop: starting, running and stopping it. */
#ifndef TR_SERVER_HTTP_TRANSPORT_H
#define TR_SERVER_HTTP_TRANSPORT_H

#include <microhttpd.h>

#include "config/err.h"

struct srv;

/* The request's life, as libmicrohttpd tells it (http.c). */
void *srv_http_on_uri(void *srv, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result srv_http_on_request(void *srv, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n, void **req);
void srv_http_on_completed(void *srv, struct MHD_Connection *mhd, void **req,
                           enum MHD_RequestTerminationCode how);

/* Starts libmicrohttpd without a listening socket and ties its epoll descriptor to the loop. */
TR_NODISCARD int srv_transport_start(struct srv *s, struct tr_err *err);
/* New connections are served by a fresh libmicrohttpd, with the certificates of the options in force. On failure nothing
 * has changed. */
TR_NODISCARD int srv_transport_renew(struct srv *s, struct tr_err *err);
/* An srv_accept_fn, arg = the server. */
void srv_transport_accept(void *srv, int fd, const struct sockaddr *addr, socklen_t n);
/* Runs libmicrohttpd until it has nothing more to do at once. */
void srv_transport_pump(struct srv *s);
/* Ends every connection; no request may be open any more. Handles are closed by the loop. */
void srv_transport_stop(struct srv *s);

#endif
