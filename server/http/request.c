#include "server/http/request.h"

#include <stdlib.h>

#include "server/http/keys.h"
#include "server/http/route.h"
#include "server/server.h"

const char *const srv_methods[] = {
    [SRV_METHOD_GET] = "GET",       [SRV_METHOD_HEAD] = "HEAD",       [SRV_METHOD_POST] = "POST",
    [SRV_METHOD_DELETE] = "DELETE", [SRV_METHOD_OPTIONS] = "OPTIONS", [SRV_METHOD_OTHER] = "other"};

uint64_t srv_new_number(struct srv *s)
{
    /* splitmix64 over a secret start: each number once, no order to be seen */
    uint64_t z = s->hash_key[0] + ++s->next_id * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
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
    if (req->upload)
        req->route->dropped(req);
    srv_key_leave(req);
    tr_buf_done(&req->out);
    req->srv->n_requests--;
    free(req->uri);
    free(req->path);
    free(req->origin);
    free(req->asked_headers);
    free(req->if_none_match);
    free(req->media);
    free(req);
}
