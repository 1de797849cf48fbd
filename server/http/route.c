#include "server/http/route.h"

#include <string.h>
#include <strings.h>

#include "config/hash.h"
#include "server/http/conn.h"
#include "server/http/head.h"
#include "server/http/origin.h"
#include "server/http/reply.h"
#include "server/server.h"

void srv_route_find(struct srv_req *req)
{
    const struct srv *s = req->srv;
    for (req->route_index = 0; req->route_index < s->n_routes; req->route_index++) {
        const struct srv_route *r = s->routes[req->route_index];
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

/* The Allow header of a route. */
static const char *allow_of(const struct srv_route *r)
{
    static const char *const texts[] = {"OPTIONS",
                                        "GET, HEAD, OPTIONS",
                                        "POST, OPTIONS",
                                        "GET, HEAD, POST, OPTIONS",
                                        "DELETE, OPTIONS",
                                        "GET, HEAD, DELETE, OPTIONS",
                                        "POST, DELETE, OPTIONS",
                                        "GET, HEAD, POST, DELETE, OPTIONS"};
    return texts[(r->get ? 1 : 0) + (r->post ? 2 : 0) + (r->delete ? 4 : 0)];
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

static bool may_enter(const struct srv_req *req, const char *shown)
{
    const struct tr_strings *keys = &req->srv->options->api_key;
    bool open = req->route->flags & SRV_ROUTE_OPEN &&
                !(req->route->flags & SRV_ROUTE_PROTECTED && req->srv->options->protect_metrics);
    if (keys->n == 0 || open)
        return true;
    bool found = false;
    for (size_t i = 0; shown && i < keys->n; i++)
        found |= equal_keys(shown, keys->items[i]);
    return found;
}

const char *srv_route_origin(const struct srv_req *req, const struct srv_head *head)
{
    const struct tr_strings *origins = &req->srv->options->cors_origin;
    if (!head->origin)
        return NULL;
    for (size_t i = 0; i < origins->n; i++)
        if (strcmp(origins->items[i], "*") == 0 || strcmp(origins->items[i], head->origin) == 0)
            return head->origin;
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
        return req->route->delete;
    case SRV_METHOD_OPTIONS:
    case SRV_METHOD_OTHER:
    default:
        return NULL;
    }
}

/* Tells clients apart by their keys: by a number that means nothing outside this process, and by
 * one that does. */
static void identify(struct srv_req *req, const char *key)
{
    const struct srv *s = req->srv;
    if (!key || s->options->api_key.n == 0)
        return;
    struct tr_hash secret = {s->hash_key[0], s->hash_key[1]};
    req->tenant = tr_hash_link(secret, key, strlen(key)).lo | 1;
    struct tr_hash owner = tr_hash(key, strlen(key));
    req->key_hash[0] = owner.lo;
    req->key_hash[1] = owner.hi;
}

static bool is_coded(const char *content_encoding)
{
    return content_encoding && content_encoding[0] && strcasecmp(content_encoding, "identity") != 0;
}

/* No browser comes by a Unix socket. */
static bool is_unix(const struct srv_req *req)
{
    return req->conn && req->conn->unix_peer;
}

bool srv_route_admit(struct srv_req *req, const struct srv_head *head)
{
    const struct srv_route *r = req->route;
    const char *key = srv_head_key(head);
    if (!srv_origin_knows_host(req->srv, head->host) && !is_unix(req)) {
        srv_refuse(req, SRV_PROBLEM_HOST, NULL, "this Host is none of allowed_hosts");
        return false;
    }
    if (!r && req->method == SRV_METHOD_OPTIONS && strcmp(req->path, "*") == 0)
        return true;
    if (!r) {
        srv_refuse(req, SRV_PROBLEM_PATH, NULL, "no such path");
        return false;
    }
    if (req->method == SRV_METHOD_OPTIONS)
        return true;
    if (!handler_of(req)) {
        req->allow = allow_of(r);
        srv_refuse(req, SRV_PROBLEM_METHOD, NULL, "this path allows %s", req->allow);
        return false;
    }
    if (!may_enter(req, key)) {
        srv_refuse(req, SRV_PROBLEM_KEY, NULL, "missing or unknown API key");
        return false;
    }
    identify(req, key);
    bool changes = req->method == SRV_METHOD_POST || req->method == SRV_METHOD_DELETE;
    if (changes && srv_origin_is_foreign(req, head)) {
        srv_refuse(req, SRV_PROBLEM_ORIGIN, NULL,
                   "a page of another site asks: cors_origin names those that may");
        return false;
    }
    req->coded = is_coded(head->content_encoding);
    if (req->coded) {
        srv_refuse(req, SRV_PROBLEM_MEDIA_TYPE, NULL, "compressed bodies are not understood");
        return false;
    }
    if (req->method == SRV_METHOD_POST && !is_json(head->content_type)) {
        srv_refuse(req, SRV_PROBLEM_MEDIA_TYPE, NULL, "send Content-Type: application/json");
        return false;
    }
    return true;
}

void srv_route_run(struct srv_req *req)
{
    const struct srv_route *r = req->route;
    if (req->method == SRV_METHOD_OPTIONS) {
        req->allow = r ? allow_of(r) : "GET, HEAD, POST, OPTIONS";
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
