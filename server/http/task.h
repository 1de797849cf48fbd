/* Work on one request that is too long for the loop thread. */
#ifndef TR_SERVER_HTTP_TASK_H
#define TR_SERVER_HTTP_TASK_H

#include "config/err.h"
#include "server/http/request.h"

/* Writes the answer to req->out, or fails. Sees the request's body and immutable things only: it
 * may run on a worker. */
typedef int (*srv_task_fn)(struct srv_req *req, struct tr_err *err);

/* Runs fn, on a worker if the body is long, and replies with application/json. */
void srv_task_run(struct srv_req *req, srv_task_fn fn);
/* The same, on a worker always: fn waits for files or for the engine. */
void srv_task_run_aside(struct srv_req *req, srv_task_fn fn);

#endif
