/* POST and GET /v1/batches; one batch, and the end of it. */
#ifndef TR_SERVER_API_BATCHES_H
#define TR_SERVER_API_BATCHES_H

extern const struct srv_route srv_batches_route, srv_batch_route;

#endif
