/*
 * Who is behind a request, as far as a browser tells: pages of other sites must not use a daemon
 * that listens for its own machine.
 */
#ifndef TR_SERVER_HTTP_ORIGIN_H
#define TR_SERVER_HTTP_ORIGIN_H

#include <stdbool.h>

#include "server/http/head.h"
#include "server/http/request.h"

/* Whether requests for this Host (NULL = none was said) are answered: one of allowed_hosts, an
 * address, a name that no public name server knows; any where neither allowed_hosts is set nor only
 * the loopback is listened on. */
bool srv_origin_knows_host(const struct srv *s, const char *host);
/* Whether a page of another site sent this, and none of cors_origin. */
bool srv_origin_is_foreign(const struct srv_req *req, const struct srv_head *head);

#endif
