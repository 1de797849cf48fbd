/*
 * The header block: one pass that finds what the server needs, and the faults libmicrohttpd lets
 * pass.
 *
 * libmicrohttpd 0.9.75 accepts requests that a proxy in front may read differently (both length
 * headers, two lengths, blanks in names, NUL in values): request smuggling. Whatever is ambiguous
 * is refused and the connection closed.
 */
#ifndef TR_SERVER_HTTP_HEAD_H
#define TR_SERVER_HTTP_HEAD_H

#include "server/http/request.h"

enum { SRV_HEAD_MAX = 32 * 1024 }; /* names and values together */

void srv_head_read(struct srv_head *head, struct MHD_Connection *mhd);
/* What is wrong with it, NULL = nothing. version "HTTP/1.1", uri as sent. */
const char *srv_head_fault(const struct srv_head *head, const char *version, const char *uri);
/* Content-Length, 0 if there is none; UINT64_MAX beyond 2^64. */
uint64_t srv_head_length(const struct srv_head *head);
/* Takes over the client's request id if it is short and printable, or makes one. */
void srv_head_id(struct srv_req *req);

#endif
