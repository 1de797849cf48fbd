#include "server/http/problem.h"

#include <string.h>

#include "config/json.h"

#define INVALID    "invalid_request_error"
#define SERVER     "server_error"
#define OVERLOADED "overloaded_error"

/* By status: openapi.c names each once. */
const struct srv_problem_info srv_problems[SRV_N_PROBLEMS] = {
    [SRV_PROBLEM_REQUEST] = {400, INVALID, NULL, INVALID},
    [SRV_PROBLEM_CONTEXT] = {400, INVALID, "context_length_exceeded", INVALID},
    [SRV_PROBLEM_NOFIT] = {400, INVALID, "insufficient_kv", INVALID},
    [SRV_PROBLEM_KEY] = {401, "authentication_error", "invalid_api_key", "authentication_error"},
    [SRV_PROBLEM_ORIGIN] = {403, "permission_error", "foreign_origin", "permission_error"},
    [SRV_PROBLEM_ENDPOINT] = {403, "permission_error", "endpoint_not_allowed", "permission_error"},
    [SRV_PROBLEM_MODEL] = {404, "not_found_error", "model_not_found", "not_found_error"},
    [SRV_PROBLEM_PATH] = {404, "not_found_error", "not_found", "not_found_error"},
    [SRV_PROBLEM_METHOD] = {405, INVALID, "method_not_allowed", INVALID},
    [SRV_PROBLEM_TIMEOUT] = {408, INVALID, "request_timeout", INVALID},
    [SRV_PROBLEM_RELOADING] = {409, INVALID, "reload_under_way", INVALID},
    [SRV_PROBLEM_TOO_LARGE] = {413, INVALID, "request_too_large", "request_too_large"},
    [SRV_PROBLEM_URI] = {414, INVALID, "uri_too_long", INVALID},
    [SRV_PROBLEM_MEDIA_TYPE] = {415, INVALID, "unsupported_media_type", INVALID},
    [SRV_PROBLEM_EXPECTATION] = {417, INVALID, "expectation_failed", INVALID},
    [SRV_PROBLEM_HOST] = {421, INVALID, "unknown_host", INVALID},
    [SRV_PROBLEM_CHECKPOINT] = {422, INVALID, "bad_checkpoint", INVALID},
    [SRV_PROBLEM_HEADERS] = {431, INVALID, "headers_too_large", INVALID},
    [SRV_PROBLEM_RATE] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
    [SRV_PROBLEM_QUEUE] = {429, "rate_limit_error", "queue_full", "rate_limit_error"},
    [SRV_PROBLEM_BUSY] = {429, "rate_limit_error", "too_many_bodies", "rate_limit_error"},
    [SRV_PROBLEM_WATCHERS] = {429, "rate_limit_error", "too_many_watchers", "rate_limit_error"},
    [SRV_PROBLEM_INTERNAL] = {500, SERVER, "server_error", "api_error"},
    [SRV_PROBLEM_MEMORY] = {503, SERVER, "out_of_memory", OVERLOADED},
    [SRV_PROBLEM_LOADING] = {503, SERVER, "loading", OVERLOADED},
    [SRV_PROBLEM_DRAIN] = {503, SERVER, "shutting_down", OVERLOADED},
    [SRV_PROBLEM_DEADLINE] = {503, SERVER, "deadline_exceeded", OVERLOADED},
    [SRV_PROBLEM_UNHEALTHY] = {503, SERVER, "engine_stalled", OVERLOADED},
    [SRV_PROBLEM_CONNECTIONS] = {503, SERVER, "too_many_connections", OVERLOADED},
    [SRV_PROBLEM_VERSION] = {505, INVALID, "http_version", INVALID},
    [SRV_PROBLEM_STORAGE] = {507, SERVER, "insufficient_storage", OVERLOADED},
};

enum srv_problem srv_problem_of(int code)
{
    switch (code) {
    case TR_EINVAL:
    case TR_EUNSUPPORTED:
        return SRV_PROBLEM_REQUEST;
    case TR_ETOOLONG:
        return SRV_PROBLEM_CONTEXT;
    case TR_ENOFIT:
        return SRV_PROBLEM_NOFIT;
    case TR_ENOTFOUND:
        return SRV_PROBLEM_MODEL;
    case TR_EQUEUE:
        return SRV_PROBLEM_QUEUE;
    case TR_EFULL:
        return SRV_PROBLEM_STORAGE;
    case TR_ENOMEM:
        return SRV_PROBLEM_MEMORY;
    case TR_ELOADING:
        return SRV_PROBLEM_LOADING;
    case TR_EDRAIN:
    case TR_ECANCELED: /* nobody but a draining daemon cancels what a client still waits for */
        return SRV_PROBLEM_DRAIN;
    case TR_EDEADLINE:
        return SRV_PROBLEM_DEADLINE;
    default:
        return SRV_PROBLEM_INTERNAL;
    }
}

static void add_string_or_null(struct tr_buf *out, const char *s)
{
    if (s)
        tr_json_quote(out, s, strlen(s));
    else
        tr_buf_adds(out, "null");
}

static void write_object(struct tr_buf *out, const struct srv_req *req, enum srv_problem why,
                         const char *param, const char *msg)
{
    (void)req;
    tr_buf_adds(out, "{\"error\":{\"message\":");
    add_string_or_null(out, msg);
    tr_buf_addf(out, ",\"type\":\"%s\",\"param\":", srv_problems[why].type);
    add_string_or_null(out, param);
    tr_buf_adds(out, ",\"code\":");
    add_string_or_null(out, srv_problems[why].code);
    tr_buf_adds(out, "}}");
}

const struct srv_error_form srv_error_object = {
    "Refused",
    "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
    "\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{"
    "\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
    "\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}}}}}",
    write_object,
};
