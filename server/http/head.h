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

#include <microhttpd.h>

#include "server/http/request.h"

/* One pass over the header block. NULL = absent. The strings are libmicrohttpd's and die with its
 * call of the handler: nothing keeps a srv_head, what is needed later is copied or worked out. */
struct srv_head {
    const char *authorization, *api_key, *origin, *request_headers, *private_network, *fetch_site,
        *content_type, *content_encoding, *expect, *request_id, *traceparent, *transfer_encoding,
        *content_length, *host, *if_none_match;
    int n_content_length, n_transfer_encoding, n_host;
    const char *fault;        /* what is wrong with it; NULL = nothing */
    const char *key;          /* that the client showed; NULL = none */
    char trace[33], span[17]; /* of a traceparent that is as it should be; "" = none */
    bool sampled;             /* its flag */
    uint64_t length;          /* Content-Length, 0 if there is none; UINT64_MAX beyond 2^64 */
    size_t bytes;             /* of names and values */
    bool broken;              /* a name that is no token, or a control character in a value */
    const char *end;          /* of the lines so far, as they lie in libmicrohttpd's buffer */
};

enum { SRV_HEAD_MAX = 32 * 1024 }; /* names and values together */

/* libmicrohttpd 0.9.75 reads lines of chunks that others read differently, out of our sight: what
 * comes behind such a body is not taken for a request. */
#if MHD_VERSION < 0x00097707
enum { SRV_HEAD_LAX_CHUNKS = true };
#else
enum { SRV_HEAD_LAX_CHUNKS = false };
#endif

/* The request line as libmicrohttpd has it: pieces of its buffer. */
struct srv_line {
    const char *method, *version; /* "POST", "HTTP/1.1" */
    const char *uri;              /* a copy, as sent */
};

/* Fills all of it. A request_id that is too long or not printable counts as absent. */
void srv_head_read(struct srv_head *head, struct MHD_Connection *mhd, const struct srv_line *line);
/* What is wrong with the trailers of a chunked body, NULL = nothing. */
const char *srv_head_trailer_fault(struct MHD_Connection *mhd);

#endif
