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

/* One pass over the header block. NULL = absent. The strings are libmicrohttpd's and die with its
 * call of the handler: nothing keeps a srv_head, what is needed later is copied or worked out. */
struct srv_head {
    const char *authorization, *api_key, *origin, *request_headers, *content_type, *expect,
        *request_id, *transfer_encoding, *content_length;
    int n_content_length, n_transfer_encoding, n_host;
    size_t bytes; /* of names and values */
    bool broken;  /* a name that is no token, or a control character in a value */
};

enum { SRV_HEAD_MAX = 32 * 1024 }; /* names and values together */

void srv_head_read(struct srv_head *head, struct MHD_Connection *mhd);
/* What is wrong with it, NULL = nothing. version "HTTP/1.1", uri as sent. */
const char *srv_head_fault(const struct srv_head *head, const char *version, const char *uri);
/* Content-Length, 0 if there is none; UINT64_MAX beyond 2^64. */
uint64_t srv_head_length(const struct srv_head *head);
/* The key the client showed, NULL if none; borrowed. */
const char *srv_head_key(const struct srv_head *head);
/* Takes over the client's request id if it is short and printable, or makes one. */
void srv_head_id(const struct srv_head *head, struct srv_req *req);

#endif
