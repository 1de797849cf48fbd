/* A request that has left, as spans: its own, and of a call its waiting, prefill and decoding. */
#ifndef TR_SERVER_HTTP_SPAN_H
#define TR_SERVER_HTTP_SPAN_H

#include "server/http/request.h"

/* Nothing without an endpoint, or if the caller's traceparent says that it is not sampled. */
void srv_span_tell(const struct srv_req *req);

#endif
