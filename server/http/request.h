/*
 * A request as the rest of the server sees it: what was asked, and how to answer, without
 * libmicrohttpd.
 *
 * Life: the request line makes it, the header block is judged, the body is collected, the route's
 * handler runs. The handler either replies before it returns or keeps a reference and replies
 * later, always on the loop thread. A stream is pulled: bytes wait in `out` until the client takes
 * them; `proceed` and `stop` of its generator tell the owner that there is room again, or that
 * nobody will read any more.
 */
#ifndef TR_SERVER_HTTP_REQUEST_H
#define TR_SERVER_HTTP_REQUEST_H

#include <stdbool.h>

#include "config/buf.h"
#include "config/list.h"

struct srv;
struct srv_inquiry;
struct srv_conn;
struct srv_key;
struct srv_model;
struct srv_req;
struct srv_route;
struct srv_upload;
struct MHD_Connection;

enum { SRV_ID_BYTES = 128 }; /* longest request id that is taken over from the client */

enum srv_method {
    SRV_METHOD_GET,
    SRV_METHOD_HEAD,
    SRV_METHOD_POST,
    SRV_METHOD_DELETE,
    SRV_METHOD_OPTIONS,
    SRV_METHOD_OTHER
};

extern const char *const srv_methods[SRV_METHOD_OTHER + 1]; /* their names */

enum srv_phase {
    SRV_PHASE_BODY,    /* the body is arriving (or is being thrown away) */
    SRV_PHASE_PENDING, /* the handler has run and will reply later: the connection is suspended */
    SRV_PHASE_REPLIED, /* the reply is ready for libmicrohttpd */
    SRV_PHASE_SENDING  /* libmicrohttpd has it */
};

struct srv_generator {
    void (*proceed)(struct srv_req *req); /* the client has read: there is room again */
    void (*stop)(struct srv_req *req);    /* the client is gone; comes at most once */
};

/* What a request's call has come to, for its line in the log and its spans. */
struct srv_ledger {
    bool made;  /* there was a call */
    bool begun; /* it has come to a token: the times below are known */
    bool constrained;
    long long prompt, cached, completion; /* tokens; cached: of the prompt */
    double queue_ms, first_ms, token_ms;  /* waiting; to the first token; each token after it */
    double prefill_ms, decode_ms;         /* of the longest of its prompts */
    const char *operation;                /* as the field names it: "chat", "text_completion" */
    char model[64];                       /* the id that was asked for */
    const char *finish;                   /* of its first choice, or "error"; NULL = none */
    int tool_calls;
};

struct srv_req {
    struct srv *srv;
    struct srv_conn *conn;   /* NULL once the connection has left */
    struct srv_inquiry *ask; /* of a request that has no connection: see inbox.h */
    struct tr_list replied;  /* of such, when it has its answer */
    int refs;                /* one of the connection, one of each pending owner */
    uint64_t number;         /* no other's, hard to guess: what its ids are made of */
    char id[SRV_ID_BYTES + 1];
    int64_t begun_ns; /* CLOCK_MONOTONIC at the request line */
    enum srv_method method;
    enum srv_phase phase;
    char *uri;                     /* owned: path and query as sent */
    char *path;                    /* owned: decoded path */
    const struct srv_route *route; /* NULL = no such path */
    int route_index;               /* in srv.routes */
    const char *tail;              /* what follows the route's prefix */
    struct srv_model *model;       /* a reference of its work (srv_work_begin), else NULL */
    struct srv_key *key;           /* a reference; NULL: an open path needs none */
    bool counted;                  /* among the key's running requests */
    uint64_t tenant;               /* of the key the client showed, 0 = there are no keys */
    bool across;                   /* its priority counts before other keys' requests */
    bool background;               /* all others come first */
    uint64_t key_hash[2];          /* of the key: the same in every process; 0 without keys */
    char *origin;                  /* owned: for Access-Control-Allow-Origin, NULL = not sent */
    char *asked_headers;           /* owned: of a preflight, NULL = none */
    char *media;                   /* owned: Content-Type of the body, NULL = none */
    char *if_none_match;           /* owned: ETags of answers that the client has, NULL = none */
    bool private_network;          /* a preflight asks for access from a public page */
    bool chunked;                  /* the body has no length of its own */
    bool coded;                    /* it is compressed, which is not understood */
    bool strict;                   /* unknown fields are errors */
    char trace[33], span[17];      /* of the caller's traceparent, "" = none */
    bool sampled;                  /* as that says */
    struct srv_ledger ledger;

    struct tr_buf body;
    uint64_t length;           /* Content-Length, 0 if there is none */
    uint64_t received;         /* body bytes, thrown away or not */
    size_t held;               /* body bytes counted in srv.body_bytes */
    double pace;               /* of the body's bytes, as of `paced`: see bodies.c */
    int64_t paced;             /* loop time */
    struct srv_upload *upload; /* what its route makes of the pieces, NULL = nothing yet */
    bool busy;                 /* what has come of the body is being taken: see srv_route.piece */
    bool started;              /* libmicrohttpd has called for the header block */
    bool discard;              /* the body is not wanted: the refusal waits until it has passed */

    int status; /* 0 = no reply yet */
    const char *content_type;
    const char *allow;          /* Allow header */
    int retry_after;            /* seconds, 0 = none */
    char etag[24];              /* of the answer, quoted; empty = none */
    const char *const *headers; /* more, names and values in turn, then NULL; borrowed */
    bool close;                 /* the connection ends with this answer */
    bool streaming;
    bool sized;                            /* a stream of `length` bytes, no events */
    bool ended;                            /* of a stream: nothing will be added */
    bool gone;                             /* the client has left, or is being left */
    bool full;                             /* proceed is owed */
    struct tr_buf out;                     /* the body, or what of a stream was not read yet */
    size_t out_pos;                        /* bytes of out that were read */
    uint64_t sent;                         /* bytes libmicrohttpd has taken */
    const struct srv_generator *generator; /* NULL: stopped, or the reply is complete */
    void *owner;                           /* the generator's */
};

/* The reply comes later: takes a reference for `owner`, which it gives back by srv_req_unref. */
static inline void srv_later(struct srv_req *req, const struct srv_generator *generator,
                             void *owner)
{
    req->refs++;
    req->generator = generator;
    req->owner = owner;
    req->phase = SRV_PHASE_PENDING;
}

/* Each once, and hard to guess. */
uint64_t srv_new_number(struct srv *s);
void srv_req_unref(struct srv_req *req);
void srv_req_drop_body(struct srv_req *req); /* once it has been read: frees its memory */

#endif
