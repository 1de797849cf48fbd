/* Small answers about the daemon itself. */
#ifndef TR_SERVER_API_ADMIN_H
#define TR_SERVER_API_ADMIN_H

#include "server/http/request.h"

void srv_models(struct srv_req *req);
void srv_model(struct srv_req *req);
void srv_health(struct srv_req *req);
void srv_livez(struct srv_req *req);
void srv_version(struct srv_req *req);
void srv_metrics_get(struct srv_req *req);
void srv_capabilities(struct srv_req *req);
void srv_openapi_get(struct srv_req *req);

#endif
