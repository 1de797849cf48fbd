/* GET /v1/capabilities and /openapi.json, written from the route and field tables. */
#ifndef TR_SERVER_API_OPENAPI_H
#define TR_SERVER_API_OPENAPI_H

#include "config/buf.h"

struct srv;

void srv_capabilities_document(const struct srv *s, struct tr_buf *out);
void srv_openapi_document(const struct srv *s, struct tr_buf *out);

#endif
