#include "server/api/openapi.h"

#include <string.h>

#include "config/json.h"
#include "server/call/fields.h"
#include "server/http/reply.h"
#include "server/server.h"

static void add_body(struct tr_buf *out, const struct srv *s, const struct srv_route *r)
{
    struct tr_json defaults = tr_json_root(s->model->defaults, NULL);
    tr_buf_adds(out, "{\"type\":\"object\",\"properties\":{");
    srv_fields_schema(out, r->tables, r->n_tables, &defaults,
                      tr_tokenizer_size(s->model->tokenizer) - 1);
    tr_buf_addf(out, "},%s}", r->rules);
}

/* ---- /v1/capabilities ---- */

static void get_capabilities(struct srv_req *req)
{
    const struct srv *s = req->srv;
    struct tr_buf *out = &req->out;
    tr_buf_adds(out, "{\"object\":\"capabilities\",\"model\":");
    tr_json_quote(out, s->model->name, strlen(s->model->name));
    tr_buf_addf(out,
                ",\"max_model_len\":%d,\"max_choices\":%d,\"max_body\":%llu,\"strict\":%s,"
                "\"endpoints\":{",
                s->model->info->context_length, s->options->max_choices,
                (unsigned long long)s->options->max_body, s->options->strict ? "true" : "false");
    const char *sep = "";
    for (int i = 0; i < s->n_routes; i++) {
        const struct srv_route *r = s->routes[i];
        if (!r->tables)
            continue;
        tr_buf_addf(out, "%s\"%s\":", sep, r->path);
        add_body(out, s, r);
        sep = ",";
    }
    tr_buf_adds(out, "}}");
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_capabilities_route = {
    .path = "/v1/capabilities",
    .doc = "Request fields, their types and ranges",
    .get = get_capabilities,
};

/* ---- /openapi.json ---- */

static const struct srv_error_form *errors_of(const struct srv_route *r)
{
    return r->errors ? r->errors : &srv_error_object;
}

/* Every status of the list of problems, once; they stand in its order. */
static void add_refusals(struct tr_buf *out, const struct srv_route *r)
{
    for (int i = 0; i < SRV_N_PROBLEMS; i++)
        if (i == 0 || srv_problems[i].status != srv_problems[i - 1].status)
            tr_buf_addf(out, ",\"%d\":{\"$ref\":\"#/components/responses/%s\"}",
                        srv_problems[i].status, errors_of(r)->name);
}

static void add_operation(struct tr_buf *out, const struct srv *s, const struct srv_route *r,
                          const char *method)
{
    tr_buf_addf(out, "\"%s\":{\"summary\":", method);
    tr_json_quote(out, r->doc, strlen(r->doc));
    if (r->flags & SRV_ROUTE_PREFIX)
        tr_buf_adds(out, ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
                         "\"schema\":{\"type\":\"string\",\"minLength\":1}}]");
    if (r->flags & SRV_ROUTE_OPEN)
        tr_buf_adds(out, ",\"security\":[]");
    if (strcmp(method, "post") == 0) {
        tr_buf_adds(out, ",\"requestBody\":{\"required\":true,\"content\":{");
        tr_buf_addf(out,
                    "\"%s\":{\"schema\":", r->piece ? "multipart/form-data" : "application/json");
        add_body(out, s, r);
        tr_buf_adds(out, "}}}");
    }
    tr_buf_addf(out,
                ",\"responses\":{\"200\":{\"description\":\"the answer\",\"content\":{\"%s\":"
                "{\"schema\":%s}",
                r->media ? r->media : "application/json",
                r->media    ? "{\"type\":\"string\"}"
                : r->answer ? r->answer
                            : "{\"type\":\"object\"}");
    if (r->flags & SRV_ROUTE_STREAMS)
        tr_buf_adds(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}");
    tr_buf_adds(out, "}}");
    add_refusals(out, r);
    tr_buf_adds(out, "}}");
}

static void add_path(struct tr_buf *out, const struct srv *s, const struct srv_route *r)
{
    const struct {
        const char *name;
        srv_handler handler;
    } methods[] = {{"get", r->get}, {"post", r->post}, {"delete", r->delete}};
    const char *sep = "";
    tr_buf_addf(out, "\"%s%s\":{", r->path, r->flags & SRV_ROUTE_PREFIX ? "{id}" : "");
    for (size_t i = 0; i < TR_ARRAY_LEN(methods); i++) {
        if (!methods[i].handler)
            continue;
        tr_buf_adds(out, sep);
        add_operation(out, s, r, methods[i].name);
        sep = ",";
    }
    tr_buf_addc(out, '}');
}

/* Each form of the routes, once. */
static void add_forms(struct tr_buf *out, const struct srv *s)
{
    const char *sep = "";
    for (int i = 0; i < s->n_routes; i++) {
        const struct srv_error_form *form = errors_of(s->routes[i]);
        int first = 0;
        while (errors_of(s->routes[first]) != form)
            first++;
        if (first < i)
            continue;
        tr_buf_addf(out,
                    "%s\"%s\":{\"description\":\"refused, and why\",\"content\":{"
                    "\"application/json\":{\"schema\":%s}}}",
                    sep, form->name, form->schema);
        sep = ",";
    }
}

static void get_openapi(struct srv_req *req)
{
    const struct srv *s = req->srv;
    struct tr_buf *out = &req->out;
    tr_buf_addf(out,
                "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"trinityd\",\"version\":\"%s\"},"
                "\"security\":[{},{\"bearer\":[]}],\"paths\":{",
                TR_VERSION);
    for (int i = 0; i < s->n_routes; i++) {
        if (i > 0)
            tr_buf_addc(out, ',');
        add_path(out, s, s->routes[i]);
    }
    tr_buf_adds(out, "},\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
                     "\"scheme\":\"bearer\"}},\"responses\":{");
    add_forms(out, s);
    tr_buf_adds(out, "}}}");
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_openapi_route = {
    .path = "/openapi.json",
    .doc = "This description",
    .flags = SRV_ROUTE_OPEN,
    .get = get_openapi,
};
