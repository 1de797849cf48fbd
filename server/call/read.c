#include "server/call/read.h"

#include <stdio.h>
#include <string.h>

#include "server/call/call.h"
#include "server/http/route.h"

static int set_id(struct srv_call *c, struct tr_err *err)
{
    const char *given = NULL;
    if (tr_json_given(&c->params.request_id)) {
        int r = tr_json_as_string(&c->params.request_id, &given, NULL, err);
        if (r < 0)
            return r;
        if (strlen(given) > SRV_ID_BYTES)
            return tr_json_fail(&c->params.request_id, err, "longer than %d bytes", SRV_ID_BYTES);
    }
    if (given)
        snprintf(c->id, sizeof c->id, "%s%s", c->api->id_prefix, given);
    return 0;
}

static int read_document(struct srv_call *c, struct json_t *doc)
{
    const struct srv_route *route = c->req->route;
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_json defaults = tr_json_root(c->context.defaults, NULL);
    int r = srv_fields_take(route->tables, route->n_tables, &root, &defaults, c->context.strict,
                            &c->params, &c->err);
    if (r == 0 && c->params.max_tokens == SRV_ABSENT &&
        c->params.max_completion_tokens == SRV_ABSENT)
        c->params.max_tokens = c->api->default_max_tokens;
    if (r == 0)
        r = srv_params_model(&c->params, &c->context, &c->model, &c->err);
    if (r == 0 && c->model)
        c->context.model = c->model;
    if (r == 0)
        r = srv_params_check(&c->params, c->context.max_choices, &c->err);
    if (r == 0)
        r = srv_params_stops(&c->stops, &c->params, &c->stop_texts, &c->n_stops, &c->err);
    if (r == 0)
        r = set_id(c, &c->err);
    if (r == 0)
        r = c->api->read(c, &c->err);
    return r;
}

void srv_call_read(struct srv_work *work)
{
    struct srv_call *c = TR_CONTAINER_OF(work, struct srv_call, work);
    const struct tr_buf *body = &c->req->body;
    struct json_t *doc = NULL;
    int r = tr_json_parse(&doc, body->data ? body->data : "", body->len, &c->err);
    if (r == 0)
        r = read_document(c, doc);
    tr_json_free(doc);
    if (r < 0 && !c->err.code)
        tr_err_set(&c->err, r, NULL, "%s", tr_err_text(r));
}

int srv_body_take(struct srv_req *req, const struct srv_table *const *tables, size_t n_tables,
                  bool optional, void *params, srv_body_fn use, struct tr_err *err)
{
    const char *bytes = req->body.len ? req->body.data : optional ? "{}" : "";
    struct json_t *doc = NULL;
    int r = tr_json_parse(&doc, bytes, req->body.len ? req->body.len : strlen(bytes), err);
    if (r < 0)
        return r;
    struct tr_json root = tr_json_root(doc, NULL);
    r = srv_fields_take(tables, n_tables, &root, NULL, req->strict && !optional, params, err);
    if (r == 0)
        r = use(req, params, err);
    tr_json_free(doc);
    return r;
}
