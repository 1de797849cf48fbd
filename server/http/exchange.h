/* A request's way through libmicrohttpd, as its callbacks tell it: head, body, answer, end. */
#ifndef TR_SERVER_HTTP_EXCHANGE_H
#define TR_SERVER_HTTP_EXCHANGE_H

#include <microhttpd.h>

#include "config/err.h"
#include "server/http/request.h"

/* libmicrohttpd's access handler, and its MHD_OPTION_NOTIFY_COMPLETED; `srv` is the server. */
enum MHD_Result srv_exchange_on_request(void *srv, struct MHD_Connection *mhd, const char *url,
                                        const char *method, const char *version, const char *data,
                                        size_t *n, void **req);
void srv_exchange_on_completed(void *srv, struct MHD_Connection *mhd, void **req,
                               enum MHD_RequestTerminationCode how);

/* A piece of a body that goes elsewhere was taken (srv_route.piece): more may come. err: what is
 * wrong with it, the rest is not wanted; NULL = nothing. */
void srv_exchange_taken(struct srv_req *req, const struct tr_err *err);
/* The one way for a request to leave its connection. gone: its client got no whole answer. */
void srv_exchange_leave(struct srv_req *req, bool gone);

#endif
