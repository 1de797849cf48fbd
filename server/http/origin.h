/*
 * Who is behind a request, as far as a browser tells: pages of other sites must not use a daemon
 * that listens for its own machine.
 */
#ifndef TR_SERVER_HTTP_ORIGIN_H
#define TR_SERVER_HTTP_ORIGIN_H

#include "server/http/head.h"

struct srv_origin {
    const char *allowed; /* for Access-Control-Allow-Origin, NULL = no such header; borrowed */
    bool foreign;        /* a page of another site sent this, and none of cors_origin */
    /* Requests for its Host (or for none) are answered: by a Unix socket, where no browser comes;
     * one of allowed_hosts, an address, a name that no public name server knows; any where neither
     * allowed_hosts is set nor only the loopback is listened on. */
    bool known_host;
};

struct srv_origin srv_origin_of(const struct srv_req *req, const struct srv_head *head);

#endif
