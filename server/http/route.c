#include "server/http/route.h"

#include <string.h>
#include <strings.h>

#include "config/hash.h"
#include "server/http/head.h"
#include "server/http/hold.h"
#include "server/http/keys.h"
#include "server/http/origin.h"
#include "server/http/reply.h"
#include "server/log.h"
#include "server/server.h"

enum { LOGGED_BODY = 1500 }; /* bytes of a body that log_prompts shows */

/* Fills route, route_index and tail. */
static void find(struct srv_req *req)
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

/* Whose request it is; false: it needs a key that is known. */
static bool find_key(struct srv_req *req, const char *shown)
{
    const struct srv_keys *keys = req->srv->keys;
    bool open = req->route->flags & SRV_ROUTE_OPEN &&
                !(req->route->flags & SRV_ROUTE_PROTECTED && req->srv->options->protect_metrics);
    bool named = shown && keys->n > 0;
    req->key = named ? srv_keys_find(keys, shown) : keys->open ? keys->anonymous : NULL;
    if (req->key)
        req->key->refs++;
    return req->key || open;
}

/* Tells clients apart by their keys: by a number that means nothing outside this process, and by
 * one that does. */
static void identify(struct srv_req *req, const char *shown)
{
    const struct srv *s = req->srv;
    if (!req->key || (req->key == s->keys->anonymous && s->keys->n == 0))
        return;
    struct tr_hash secret = {s->hash_key[0], s->hash_key[1]};
    req->tenant = tr_hash_link(secret, req->key->sha, SRV_SHA_BYTES).lo | 1;
    req->across = req->key->across;
    if (req->key == s->keys->anonymous || !shown)
        return;
    struct tr_hash owner = tr_hash(shown, strlen(shown));
    req->key_hash[0] = owner.lo;
    req->key_hash[1] = owner.hi;
}

static bool is_coded(const char *content_encoding)
{
    return content_encoding && content_encoding[0] && strcasecmp(content_encoding, "identity") != 0;
}

/* Whether the head is one that can be answered by what it asks for. */
static bool admit_head(struct srv_req *req, const struct srv_head *head, bool *now)
{
    struct srv *s = req->srv;
    *now = head->fault != NULL;
    if (head->fault) {
        srv_refuse(req, SRV_PROBLEM_REQUEST, NULL, "%s", head->fault);
        return false;
    }
    if (s->n_conns > s->max_conns && !(req->route && req->route->flags & SRV_ROUTE_ALWAYS)) {
        req->close = true;
        srv_refuse(req, SRV_PROBLEM_CONNECTIONS, NULL, "%d connections are open (max_connections)",
                   s->max_conns);
        return false;
    }
    if (head->bytes > SRV_HEAD_MAX) {
        srv_refuse(req, SRV_PROBLEM_HEADERS, NULL, "the header block is larger than %d bytes",
                   SRV_HEAD_MAX);
        return false;
    }
    /* Who waits for a 100 has sent no body: the refusal may come at once. */
    *now = head->expect != NULL;
    if (head->expect && strcasecmp(head->expect, "100-continue") != 0) {
        srv_refuse(req, SRV_PROBLEM_EXPECTATION, NULL,
                   "the only expectation that is met is 100-continue");
        return false;
    }
    return true;
}

/* Whether the client may ask for it. */
static bool admit_client(struct srv_req *req, const struct srv_head *head,
                         const struct srv_origin *origin)
{
    if (!find_key(req, head->key)) {
        srv_refuse(req, SRV_PROBLEM_KEY, NULL, "missing or unknown API key");
        return false;
    }
    identify(req, head->key);
    if (!(req->route->flags & SRV_ROUTE_OPEN) && !srv_key_admit(req))
        return false;
    bool changes = req->method == SRV_METHOD_POST || req->method == SRV_METHOD_DELETE;
    if (changes && origin->foreign) {
        srv_refuse(req, SRV_PROBLEM_ORIGIN, NULL,
                   "a page of another site asks: cors_origin names those that may");
        return false;
    }
    return true;
}

bool srv_route_admit(struct srv_req *req, const struct srv_head *head,
                     const struct srv_origin *origin, bool *now)
{
    find(req);
    if (!admit_head(req, head, now))
        return false;
    const struct srv_route *r = req->route;
    if (!origin->known_host) {
        srv_refuse(req, SRV_PROBLEM_HOST, NULL, "this Host is none of allowed_hosts");
        return false;
    }
    if (req->method == SRV_METHOD_OPTIONS && (r || strcmp(req->path, "*") == 0))
        return true;
    if (!r) {
        srv_refuse(req, SRV_PROBLEM_PATH, NULL, "no such path");
        return false;
    }
    if (!handler_of(req)) {
        req->allow = allow_of(r);
        srv_refuse(req, SRV_PROBLEM_METHOD, NULL, "this path allows %s", req->allow);
        return false;
    }
    if (!admit_client(req, head, origin))
        return false;
    req->coded = is_coded(head->content_encoding);
    if (req->coded) {
        srv_refuse(req, SRV_PROBLEM_MEDIA_TYPE, NULL, "compressed bodies are not understood");
        return false;
    }
    if (req->method == SRV_METHOD_POST && !r->piece && !is_json(head->content_type)) {
        srv_refuse(req, SRV_PROBLEM_MEDIA_TYPE, NULL, "send Content-Type: application/json");
        return false;
    }
    return true;
}

bool srv_route_admit_key(struct srv_req *req, const unsigned char *sha)
{
    find(req);
    if (!req->route) {
        srv_refuse(req, SRV_PROBLEM_PATH, NULL, "no such path");
        return false;
    }
    if (!handler_of(req)) {
        srv_refuse(req, SRV_PROBLEM_METHOD, NULL, "this path allows %s", allow_of(req->route));
        return false;
    }
    req->key = srv_keys_by_sha(req->srv->keys, sha);
    if (!req->key) {
        srv_refuse(req, SRV_PROBLEM_KEY, NULL, "its API key is not known any more");
        return false;
    }
    req->key->refs++;
    identify(req, NULL);
    if (!(req->route->flags & SRV_ROUTE_OPEN) && !srv_key_admit(req))
        return false;
    if (req->body.len <= req->srv->options->max_body)
        return true;
    srv_refuse(req, SRV_PROBLEM_TOO_LARGE, NULL, "the body is larger than %llu bytes (max_body)",
               (unsigned long long)req->srv->options->max_body);
    return false;
}

void srv_route_run(struct srv_req *req)
{
    if (req->srv->options->log_prompts && req->body.len > 0)
        srv_log(SRV_LOG_INFO, req->id, "body: %.*s", (int)TR_MIN(req->body.len, LOGGED_BODY),
                req->body.data);
    const struct srv_route *r = req->route;
    if (req->method == SRV_METHOD_OPTIONS) {
        req->allow = r ? allow_of(r) : "GET, HEAD, POST, OPTIONS";
        srv_reply(req, 204, NULL);
        return;
    }
    srv_route_answer(req);
}

void srv_route_answer(struct srv_req *req)
{
    enum srv_state state = req->srv->state;
    bool always = req->route->flags & SRV_ROUTE_ALWAYS;
    if (state == SRV_STATE_LOADING && !always)
        srv_refuse(req, SRV_PROBLEM_LOADING, NULL, "the checkpoint is loading");
    else if (req->srv->closing || (state == SRV_STATE_DRAINING && req->method == SRV_METHOD_POST))
        srv_refuse(req, SRV_PROBLEM_DRAIN, NULL, "the daemon is shutting down");
    else if (state == SRV_STATE_SWAPPING && !always)
        srv_hold(req);
    else
        handler_of(req)(req);
}
