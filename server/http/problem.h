/*
 * Every way to refuse, and how each API names it: the one map from errors to statuses and types of
 * errors.
 *
 * An answer that fails in the middle of its stream says the same as one that is refused before it
 * began.
 */
#ifndef TR_SERVER_HTTP_PROBLEM_H
#define TR_SERVER_HTTP_PROBLEM_H

#include "config/buf.h"
#include "config/err.h"

struct srv_req;

enum srv_problem {
    SRV_PROBLEM_REQUEST,
    SRV_PROBLEM_CONTEXT,
    SRV_PROBLEM_NOFIT,
    SRV_PROBLEM_KEY,
    SRV_PROBLEM_ORIGIN,
    SRV_PROBLEM_ENDPOINT,
    SRV_PROBLEM_MODEL,
    SRV_PROBLEM_PATH,
    SRV_PROBLEM_METHOD,
    SRV_PROBLEM_TIMEOUT,
    SRV_PROBLEM_RELOADING,
    SRV_PROBLEM_TOO_LARGE,
    SRV_PROBLEM_URI,
    SRV_PROBLEM_MEDIA_TYPE,
    SRV_PROBLEM_EXPECTATION,
    SRV_PROBLEM_HOST,
    SRV_PROBLEM_CHECKPOINT,
    SRV_PROBLEM_HEADERS,
    SRV_PROBLEM_RATE,
    SRV_PROBLEM_QUEUE,
    SRV_PROBLEM_BUSY,
    SRV_PROBLEM_WATCHERS,
    SRV_PROBLEM_INTERNAL,
    SRV_PROBLEM_MEMORY,
    SRV_PROBLEM_LOADING,
    SRV_PROBLEM_DRAIN,
    SRV_PROBLEM_DEADLINE,
    SRV_PROBLEM_UNHEALTHY,
    SRV_PROBLEM_CONNECTIONS,
    SRV_PROBLEM_VERSION,
    SRV_PROBLEM_STORAGE,
    SRV_N_PROBLEMS
};

struct srv_problem_info {
    int status;
    const char *type, *code;   /* of the error object; code NULL = null */
    const char *messages_type; /* of the messages API */
};

extern const struct srv_problem_info srv_problems[SRV_N_PROBLEMS];

/* What a TR_E… is to a client. */
enum srv_problem srv_problem_of(int code);
/* How an API writes a refusal. */
struct srv_error_form {
    const char *name;   /* of it in openapi.json */
    const char *schema; /* of the document */
    /* Appends the document; req and param may be NULL. */
    void (*write)(struct tr_buf *out, const struct srv_req *req, enum srv_problem why,
                  const char *param, const char *msg);
};

/* {"error":{...}}: the form of whatever has no other. */
extern const struct srv_error_form srv_error_object;

#endif
