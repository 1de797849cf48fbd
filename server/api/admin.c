#include "server/api/admin.h"

#include <string.h>

#include "config/json.h"
#include "server/api/schema.h"
#include "server/http/keys.h"
#include "server/http/reply.h"
#include "server/server.h"

static void add_model(struct tr_buf *out, const struct srv *s, const char *name)
{
    const struct tr_engine_info *info = s->model->info;
    tr_buf_adds(out, "{\"id\":");
    tr_json_quote(out, name, strlen(name));
    tr_buf_addf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"trinityd\",\"root\":",
                (long long)s->created);
    tr_json_quote(out, s->model->name, strlen(s->model->name));
    tr_buf_addf(out,
                ",\"parent\":null,\"max_model_len\":%d,\"context_length\":%d,"
                "\"max_input_tokens\":%d,\"permission\":[],\"meta\":{\"n_ctx_train\":%d,"
                "\"n_params\":%llu,\"size\":%llu,\"n_vocab\":%d,\"n_embd\":%d,\"weights\":",
                info->context_length, info->context_length, info->context_length,
                info->context_length, (unsigned long long)info->n_params,
                (unsigned long long)info->file_bytes, info->vocab_size, info->hidden_size);
    tr_json_quote(out, info->weights, strlen(info->weights));
    tr_buf_adds(out, "}}");
}

static void get_models(struct srv_req *req)
{
    tr_buf_adds(&req->out, "{\"object\":\"list\",\"data\":[");
    const struct srv *s = req->srv;
    add_model(&req->out, s, s->model->name);
    for (size_t i = 0; i < s->model->names.n; i++)
        if (strcmp(s->model->names.items[i], "*") != 0 &&
            strcmp(s->model->names.items[i], s->model->name) != 0) {
            tr_buf_addc(&req->out, ',');
            add_model(&req->out, s, s->model->names.items[i]);
        }
    tr_buf_adds(&req->out, "]}");
    srv_reply(req, 200, "application/json");
}

static void get_model(struct srv_req *req)
{
    const struct srv *s = req->srv;
    bool found =
        strcmp(req->tail, s->model->name) == 0 || tr_strings_has(&s->model->names, req->tail);
    if (!found || strcmp(req->tail, "*") == 0) {
        srv_refuse(req, SRV_PROBLEM_MODEL, "model", "no such model is served here");
        return;
    }
    add_model(&req->out, s, req->tail);
    srv_reply(req, 200, "application/json");
}

#define MODEL                                                                                      \
    SRV_OBJECT("\"id\",\"object\",\"created\",\"owned_by\",\"max_model_len\"",                     \
               "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"model\"},"                    \
               "\"created\":{\"type\":\"integer\"},\"owned_by\":{\"type\":\"string\"},"            \
               "\"max_model_len\":{\"type\":\"integer\"}")

const struct srv_route srv_models_route = {
    .path = "/v1/models",
    .doc = "The model that is served",
    .get = get_models,
    .answer = SRV_OBJECT(
        "\"object\",\"data\"",
        "\"object\":{\"const\":\"list\"},\"data\":{\"type\":\"array\",\"items\":" MODEL "}"),
};

const struct srv_route srv_model_route = {
    .path = "/v1/models/",
    .doc = "One model",
    .flags = SRV_ROUTE_PREFIX,
    .get = get_model,
    .answer = MODEL,
};

static void get_health(struct srv_req *req)
{
    const struct srv_model *m = req->srv->model;
    switch (req->srv->state) {
    case SRV_STATE_LOADING:
        srv_refuse(req, SRV_PROBLEM_LOADING, NULL, "the checkpoint is loading");
        return;
    case SRV_STATE_SWAPPING:
        srv_refuse(req, SRV_PROBLEM_LOADING, NULL, "the next checkpoint is loading");
        return;
    case SRV_STATE_LEAVING:
    case SRV_STATE_DRAINING:
        srv_refuse(req, SRV_PROBLEM_DRAIN, NULL, "the daemon is shutting down");
        return;
    case SRV_STATE_READY:
    default:
        break;
    }
    if (!srv_engine_alive(req->srv)) {
        srv_refuse(req, SRV_PROBLEM_UNHEALTHY, NULL, "the engine does not respond");
        return;
    }
    tr_buf_adds(&req->out, "{\"status\":\"ok\",\"model\":");
    tr_json_quote(&req->out, m->name, strlen(m->name));
    tr_buf_addf(&req->out, ",\"system_fingerprint\":\"%s\"}", m->fingerprint);
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_health_route = {
    .path = "/health",
    .doc = "Ready to serve",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS,
    .get = get_health,
};

const struct srv_route srv_readyz_route = {
    .path = "/readyz",
    .doc = "Ready to serve",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS,
    .get = get_health,
};

const struct srv_route srv_ping_route = {
    .path = "/ping",
    .doc = "Ready to serve",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS,
    .get = get_health,
};

static void get_livez(struct srv_req *req)
{
    if (req->srv->state != SRV_STATE_LOADING && !srv_engine_alive(req->srv)) {
        srv_refuse(req, SRV_PROBLEM_UNHEALTHY, NULL, "the engine does not respond");
        return;
    }
    tr_buf_adds(&req->out, "{\"status\":\"ok\"}");
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_livez_route = {
    .path = "/livez",
    .doc = "The process lives",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS,
    .get = get_livez,
};

static void get_usage(struct srv_req *req)
{
    srv_key_usage(&req->out, req->key);
    srv_reply(req, 200, "application/json");
}

#define USE                                                                                        \
    SRV_OBJECT("\"requests\",\"prompt_tokens\",\"cached_tokens\",\"completion_tokens\"",           \
               "\"requests\":{\"type\":\"integer\"},\"prompt_tokens\":{\"type\":\"integer\"},"     \
               "\"cached_tokens\":{\"type\":\"integer\"},"                                         \
               "\"completion_tokens\":{\"type\":\"integer\"}")

const struct srv_route srv_usage_route = {
    .path = "/v1/usage",
    .doc = "What the key has used, and may use",
    .flags = SRV_ROUTE_OWN | SRV_ROUTE_ALWAYS,
    .get = get_usage,
    .answer = SRV_OBJECT("\"key\",\"running\",\"total\",\"minute\",\"limits\"",
                         "\"key\":{\"type\":[\"string\",\"null\"]},"
                         "\"running\":{\"type\":\"integer\"},\"total\":" USE ",\"minute\":" USE
                         ",\"limits\":{\"type\":\"object\"}"),
};

static void get_version(struct srv_req *req)
{
    tr_buf_addf(&req->out, "{\"version\":\"%s\"}", TR_VERSION);
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_version_route = {
    .path = "/version",
    .doc = "Version of the daemon",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS,
    .get = get_version,
    .answer = SRV_OBJECT("\"version\"", "\"version\":{\"type\":\"string\"}"),
};
