/* Answers to a request: plain, refusing, or a stream of events. */
#ifndef TR_SERVER_HTTP_REPLY_H
#define TR_SERVER_HTTP_REPLY_H

#include "server/http/problem.h"
#include "server/http/request.h"

/* Replies with what stands in req->out. Exactly one reply per request. */
void srv_reply(struct srv_req *req, int status, const char *content_type);
/* Replies with the error in the route's form; what stood in req->out is dropped. param NULL =
 * null. */
void srv_refuse(struct srv_req *req, enum srv_problem why, const char *param, const char *fmt, ...)
    TR_PRINTF(4, 5);
/* The same for an engine or parser error. */
void srv_refuse_err(struct srv_req *req, const struct tr_err *err);

/* Begins a stream of events, after srv_later; write to req->out, then flush. */
void srv_stream_begin(struct srv_req *req);
/* The same for an answer of n bytes that comes in pieces. */
void srv_pieces_begin(struct srv_req *req, uint64_t n, const char *content_type);
void srv_stream_flush(struct srv_req *req);
/* Nothing follows; with close the connection ends as well. The generator is not called any more. */
void srv_stream_end(struct srv_req *req, bool close);
/* Unread bytes exceed the limit: stop producing until `proceed`. */
bool srv_stream_full(struct srv_req *req);

#endif
