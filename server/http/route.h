/*
 * A path and who answers it, and what every request goes through before its handler.
 *
 * The table itself stands with the APIs; the server is handed it. A route also says what its
 * requests and answers look like, which is not looked at here: it makes GET /v1/capabilities and
 * /openapi.json.
 */
#ifndef TR_SERVER_HTTP_ROUTE_H
#define TR_SERVER_HTTP_ROUTE_H

#include "server/http/request.h"

struct srv_api;
struct srv_error_form;
struct srv_head;
struct srv_origin;
struct srv_table;

enum srv_route_flags {
    SRV_ROUTE_OPEN = 1,       /* no API key needed */
    SRV_ROUTE_PREFIX = 2,     /* the path may go on: srv_req.tail */
    SRV_ROUTE_ALWAYS = 4,     /* answered while loading, too */
    SRV_ROUTE_STREAMS = 8,    /* the answer may be a stream of events */
    SRV_ROUTE_PROTECTED = 16, /* open unless protect_metrics is set */
    SRV_ROUTE_OWN = 32,       /* a key's own affairs: every key may, and it costs nothing */
    SRV_ROUTE_ADMIN = 64      /* only for keys of admin_key */
};

typedef void (*srv_handler)(struct srv_req *req);

struct srv_route {
    const char *path;
    const char *doc; /* one line */
    unsigned flags;
    srv_handler get, post, delete; /* NULL = method not allowed */
    /* Takes what has come of a form's body: by srv_work_again, then srv_exchange_taken. NULL: the
     * body is JSON, and collected. */
    srv_handler piece;
    srv_handler dropped;                   /* its request goes: frees req->upload */
    const struct srv_api *api;             /* of a post that makes a call */
    const struct srv_error_form *errors;   /* of its refusals; NULL = srv_error_object */
    const char *rate_prefix;               /* of the API's own headers of limits; NULL = none */
    const struct srv_table *const *tables; /* fields of a body; NULL = not told */
    size_t n_tables;
    const char *rules;  /* further members of the schema of a body */
    const char *media;  /* type of an answer that is text; NULL = JSON, of which */
    const char *answer; /* is the schema; NULL = some object */
};

/* Finds the route, judges the head in the order in which a client can mend it, and fills what comes
 * of its key; false: refused (the reply is made), the body is not wanted. *now: the refusal need
 * not wait for it. */
bool srv_route_admit(struct srv_req *req, const struct srv_head *head,
                     const struct srv_origin *origin, bool *now);
/* The same for a request that has no head: its key is known by its SHA-256 (zeros: it has none). */
bool srv_route_admit_key(struct srv_req *req, const unsigned char *sha);
/* Runs the handler of a request whose body is complete. */
void srv_route_run(struct srv_req *req);
/* The handler alone, once the daemon's state lets it run. */
void srv_route_answer(struct srv_req *req);

#endif
