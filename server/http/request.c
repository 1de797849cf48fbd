#include "server/http/request.h"

#include <stdlib.h>
#include <string.h>

#include "server/server.h"

static const char *const methods[] = {
    [SRV_METHOD_GET] = "GET",       [SRV_METHOD_HEAD] = "HEAD",       [SRV_METHOD_POST] = "POST",
    [SRV_METHOD_DELETE] = "DELETE", [SRV_METHOD_OPTIONS] = "OPTIONS", [SRV_METHOD_OTHER] = "other"};

enum srv_method srv_method_of(const char *name)
{
    int i = 0;
    while (i < SRV_METHOD_OTHER && strcmp(name, methods[i]) != 0)
        i++;
    return (enum srv_method)i;
}

const char *srv_method_name(enum srv_method method)
{
    return methods[method];
}

struct srv_req *srv_req_ref(struct srv_req *req)
{
    req->refs++;
    return req;
}

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
    free(req);
}
