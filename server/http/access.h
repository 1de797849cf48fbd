/* The line in the log that each request leaves at its end. */
#ifndef TR_SERVER_HTTP_ACCESS_H
#define TR_SERVER_HTTP_ACCESS_H

#include "server/http/request.h"

/* Takes the trace out of a traceparent header (W3C Trace Context, version 00 and its successors);
 * NULL and whatever is malformed leave none. */
void srv_access_trace(struct srv_req *req, const char *traceparent);
/* The request has left. Probes and scrapes that went well are for log_level=debug. */
void srv_access_log(const struct srv_req *req);
const char *srv_method_name(enum srv_method method);

#endif
