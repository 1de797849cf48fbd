/*
 * The head of a request as bytes, before libmicrohttpd sees it: what it would refuse itself, in
 * HTML, without an id, or with two heads.
 */
#ifndef TR_SERVER_HTTP_PEEK_H
#define TR_SERVER_HTTP_PEEK_H

#include "config/base.h"
#include "server/http/problem.h"

enum { SRV_PEEK_BYTES = 64 * 1024 }; /* so much of it is looked at */

/* Whether the n bytes hold the end of a head, or more than one may have. */
bool srv_peek_whole(const char *bytes, size_t n);
/* What is certainly wrong with a request that begins with these n bytes, the chunks of its body
 * included as far as they go; NULL: nothing, or nothing yet. first: it is the first of its
 * connection, and so these bytes are a beginning. */
const char *srv_peek_fault(const char *bytes, size_t n, bool first, enum srv_problem *ret);

#endif
