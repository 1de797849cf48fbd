#include "server/http/route.h"

#include <string.h>
#include <strings.h>

#include "config/hash.h"
#include "server/api/admin.h"
#include "server/api/cache.h"
#include "server/api/chat.h"
#include "server/api/completions.h"
#include "server/api/messages.h"
#include "server/api/responses.h"
#include "server/api/tokenize.h"
#include "server/log.h"
#include "server/server.h"

const struct srv_route srv_routes[] = {
    {"/v1/completions", NULL, srv_completions, 0, "Complete a prompt"},
    {"/v1/chat/completions", NULL, srv_chat, 0, "Answer a conversation"},
    {"/v1/responses", NULL, srv_responses, 0, "Answer a conversation: the responses API"},
    {"/v1/messages", NULL, srv_messages, SRV_ROUTE_MESSAGES,
     "Answer a conversation: the messages API"},
    {"/v1/messages/count_tokens", NULL, srv_count_tokens, SRV_ROUTE_MESSAGES,
     "Tokens of the prompt that messages make"},
    {"/v1/models", srv_models, NULL, 0, "The model that is served"},
    {"/v1/models/", srv_model, NULL, SRV_ROUTE_PREFIX, "One model"},
    {"/v1/capabilities", srv_capabilities, NULL, 0, "Request fields, their types and ranges"},
    {"/v1/capacity", srv_capacity, NULL, 0, "What fits into the KV cache"},
    {"/v1/snapshots", srv_snapshots, srv_snapshot_save, 0, "Saved prefixes; save one"},
    {"/v1/snapshots/", NULL, srv_snapshot, SRV_ROUTE_PREFIX | SRV_ROUTE_DELETABLE,
     "Restore, or delete, a saved prefix"},
    {"/tokenize", NULL, srv_tokenize, 0, "Text to token ids"},
    {"/detokenize", NULL, srv_detokenize, 0, "Token ids to text"},
    {"/apply-template", NULL, srv_apply_template, 0, "Messages to the prompt they make"},
    {"/tokenizer_info", srv_tokenizer_info, NULL, 0, "What the tokenizer is"},
    {"/health", srv_health, NULL, SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS, "Ready to serve"},
    {"/readyz", srv_health, NULL, SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS, "Ready to serve"},
    {"/livez", srv_livez, NULL, SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS, "The process lives"},
    {"/ping", srv_health, NULL, SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS, "Ready to serve"},
    {"/version", srv_version, NULL, SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS, "Version of the daemon"},
    {"/metrics", srv_metrics_get, NULL, SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS, "Prometheus metrics"},
    {"/openapi.json", srv_openapi_get, NULL, SRV_ROUTE_OPEN, "This description"},
};
const int srv_n_routes = TR_ARRAY_LEN(srv_routes);
_Static_assert(TR_ARRAY_LEN(srv_routes) <= SRV_MAX_ROUTES, "every route has its counters");

void srv_route_find(struct srv_req *req)
{
    for (int i = 0; i < srv_n_routes; i++) {
        const struct srv_route *r = &srv_routes[i];
        size_t n = strlen(r->path);
        bool match = r->flags & SRV_ROUTE_PREFIX
                         ? strncmp(req->path, r->path, n) == 0 && req->path[n]
                         : strcmp(req->path, r->path) == 0;
        if (match) {
            req->route = r;
            req->tail = req->path + n;
            return;
        }
    }
}

const char *srv_route_allow(const struct srv_route *route)
{
    if (route->flags & SRV_ROUTE_DELETABLE)
        return "POST, DELETE, OPTIONS";
    if (route->get && route->post)
        return "GET, HEAD, POST, OPTIONS";
    return route->get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

const char *srv_method_name(enum srv_method method)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "DELETE", "OPTIONS", "other"};
    return names[method];
}

const char *srv_route_key(const struct srv_req *req)
{
    const char *bearer = req->head.authorization;
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0) {
        bearer += 7;
        bearer += strspn(bearer, " ");
        if (*bearer)
            return bearer;
    }
    return req->head.api_key && *req->head.api_key ? req->head.api_key : NULL;
}

/* Its time depends on the shown key's length only. */
static bool equal_keys(const char *shown, const char *key)
{
    size_t n = strlen(shown), m = strlen(key);
    size_t diff = n ^ m;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)(shown[i] ^ key[m ? i % m : 0]);
    return diff == 0;
}

static bool may_enter(const struct srv_req *req)
{
    const struct tr_strings *keys = &req->srv->options->api_key;
    if (keys->n == 0 || req->route->flags & SRV_ROUTE_OPEN)
        return true;
    const char *shown = srv_route_key(req);
    bool found = false;
    for (size_t i = 0; shown && i < keys->n; i++)
        found |= equal_keys(shown, keys->items[i]);
    return found;
}

const char *srv_route_origin(const struct srv_req *req)
{
    const struct tr_strings *origins = &req->srv->options->cors_origin;
    if (!req->head.origin)
        return NULL;
    for (size_t i = 0; i < origins->n; i++)
        if (strcmp(origins->items[i], "*") == 0 || strcmp(origins->items[i], req->head.origin) == 0)
            return req->head.origin;
    return NULL;
}

static bool is_json(const char *content_type)
{
    if (!content_type)
        return true;
    size_t n = strcspn(content_type, ";");
    while (n > 0 && (content_type[n - 1] == ' ' || content_type[n - 1] == '\t'))
        n--;
    return n == strlen("application/json") && strncasecmp(content_type, "application/json", n) == 0;
}

static srv_handler handler_of(const struct srv_req *req)
{
    switch (req->method) {
    case SRV_METHOD_GET:
    case SRV_METHOD_HEAD:
        return req->route->get;
    case SRV_METHOD_POST:
        return req->route->post;
    case SRV_METHOD_DELETE:
        return req->route->flags & SRV_ROUTE_DELETABLE ? req->route->post : NULL;
    case SRV_METHOD_OPTIONS:
    case SRV_METHOD_OTHER:
    default:
        return NULL;
    }
}

/* Tells clients apart by their keys; a number that means nothing outside this process. */
static uint64_t tenant_of(const struct srv_req *req)
{
    const struct srv *s = req->srv;
    const char *key = s->options->api_key.n ? srv_route_key(req) : NULL;
    struct tr_hash secret = {s->hash_key[0], s->hash_key[1]};
    return key ? tr_hash_link(secret, key, strlen(key)).lo | 1 : 0;
}

bool srv_route_admit(struct srv_req *req)
{
    const struct srv_route *r = req->route;
    if (!r && req->method == SRV_METHOD_OPTIONS && strcmp(req->path, "*") == 0)
        return true;
    if (!r) {
        srv_refuse(req, SRV_PROBLEM_PATH, NULL, "no such path");
        return false;
    }
    if (req->method == SRV_METHOD_OPTIONS)
        return true;
    if (!handler_of(req)) {
        req->allow = srv_route_allow(r);
        srv_refuse(req, SRV_PROBLEM_METHOD, NULL, "this path allows %s", req->allow);
        return false;
    }
    if (!may_enter(req)) {
        srv_refuse(req, SRV_PROBLEM_KEY, NULL, "missing or unknown API key");
        return false;
    }
    req->tenant = tenant_of(req);
    if (req->method == SRV_METHOD_POST && !is_json(req->head.content_type)) {
        srv_refuse(req, SRV_PROBLEM_MEDIA_TYPE, NULL, "send Content-Type: application/json");
        return false;
    }
    return true;
}

void srv_route_run(struct srv_req *req)
{
    const struct srv_route *r = req->route;
    if (req->method == SRV_METHOD_OPTIONS) {
        req->allow = r ? srv_route_allow(r) : "GET, HEAD, POST, OPTIONS";
        srv_reply(req, 204, NULL);
        return;
    }
    enum srv_state state = req->srv->state;
    if (state == SRV_STATE_LOADING && !(r->flags & SRV_ROUTE_ALWAYS))
        srv_refuse(req, SRV_PROBLEM_LOADING, NULL, "the checkpoint is loading");
    else if (state == SRV_STATE_DRAINING && req->method == SRV_METHOD_POST)
        srv_refuse(req, SRV_PROBLEM_DRAIN, NULL, "the daemon is shutting down");
    else
        handler_of(req)(req);
}
