/* The table of paths, and what every request goes through before its handler. */
#ifndef TR_SERVER_HTTP_ROUTE_H
#define TR_SERVER_HTTP_ROUTE_H

#include "server/http/request.h"

enum srv_route_flags {
    SRV_ROUTE_OPEN = 1,      /* no API key needed */
    SRV_ROUTE_PREFIX = 2,    /* the path may go on: srv_req.tail */
    SRV_ROUTE_ALWAYS = 4,    /* answered while loading, too */
    SRV_ROUTE_MESSAGES = 8,  /* refusals in the form of the messages API */
    SRV_ROUTE_DELETABLE = 16 /* DELETE goes to the post handler, too */
};

struct srv_route {
    const char *path;
    srv_handler get, post; /* NULL = method not allowed */
    unsigned flags;
    const char *doc; /* one line for openapi.json */
};

extern const struct srv_route srv_routes[];
extern const int srv_n_routes;

/* Fills route and tail. */
void srv_route_find(struct srv_req *req);
/* Judges the header block; false: refused (the reply is made), the body is not wanted. */
bool srv_route_admit(struct srv_req *req);
/* Runs the handler of a request whose body is complete. */
void srv_route_run(struct srv_req *req);
/* Allow header of a route. */
const char *srv_route_allow(const struct srv_route *route);
/* The key the client showed, NULL if none; borrowed from the headers. */
const char *srv_route_key(const struct srv_req *req);
/* The origin to name in Access-Control-Allow-Origin, NULL = no such header. */
const char *srv_route_origin(const struct srv_req *req);

#endif
