/* The line in the log that each request leaves at its end. */
#ifndef TR_SERVER_HTTP_ACCESS_H
#define TR_SERVER_HTTP_ACCESS_H

#include "server/http/request.h"

/* The request has left. Probes and scrapes that went well are for log_level=debug. */
void srv_access_log(const struct srv_req *req);

#endif
