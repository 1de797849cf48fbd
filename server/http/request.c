#include "server/http/request.h"

#include <stdlib.h>

#include "server/server.h"

void srv_req_drop_body(struct srv_req *req)
{
    req->srv->body_bytes -= req->held;
    req->held = 0;
    tr_buf_done(&req->body);
}

void srv_req_unref(struct srv_req *req)
{
    if (--req->refs > 0)
        return;
    srv_req_drop_body(req);
    tr_buf_done(&req->out);
    req->srv->n_requests--;
    free(req->uri);
    free(req->path);
    free(req->origin);
    free(req->asked_headers);
    free(req->if_none_match);
    free(req);
}
