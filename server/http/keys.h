/*
 * Who may ask for what, and how much: the keys that are let in, what each of them may, and what it
 * has used. Requests without a key are a key of their own, the anonymous one.
 *
 * Keys are known by their SHA-256. A bucket holds what a minute allows and fills evenly: a request
 * for which there is not enough is refused, not kept waiting; an answer is charged when it has
 * ended, so that a bucket may be in debt. All of it belongs to the loop thread.
 */
#ifndef TR_SERVER_HTTP_KEYS_H
#define TR_SERVER_HTTP_KEYS_H

#include <stdbool.h>

#include "config/buf.h"
#include "config/err.h"
#include "config/options.h"

struct srv_req;
struct srv_route;

enum {
    SRV_SHA_BYTES = 32,
    SRV_KEY_NAME = 64,    /* bytes of a name */
    SRV_RATE_HEADERS = 12 /* of one answer, at most */
};

/* What a key may. */
struct srv_limits {
    int64_t requests, tokens, concurrency; /* a minute, a minute, at a time; 0 = any */
    int64_t weight;                        /* tr_job.weight */
    int64_t best_priority;                 /* lowest number that counts */
    uint64_t routes;                       /* bit i: routes[i] of srv.routes */
    int64_t expires;                       /* unix seconds; INT64_MAX = never */
};

/* `level` of what a minute allows, as of `at`. */
struct srv_bucket {
    double level;
    int64_t at; /* CLOCK_MONOTONIC, ns; 0 = full */
};

struct srv_use {
    long long requests, prompt, cached, completion;
};

struct srv_key {
    int refs; /* of the table, and of each request */
    unsigned char sha[SRV_SHA_BYTES];
    char name[SRV_KEY_NAME + 1]; /* "" = none */
    bool across;                 /* one of priority_key */
    bool admin;                  /* one of admin_key, or called so in the file */
    struct srv_limits limits;
    struct srv_bucket requests, tokens;
    int running;                /* requests that count against `concurrency` */
    struct srv_use total, past; /* since the start, and of it what was used before this minute */
    int64_t minute;             /* of CLOCK_MONOTONIC */
};

struct srv_keys {
    struct srv_key **items; /* ascending SHA-256; n, each a reference */
    size_t n;
    struct srv_key *anonymous; /* a reference */
    bool open;                 /* requests without a key are let in */
};

/* Makes the table of all keys that the options name. Keys that `old` (NULL: none) has as well go on
 * with what they have used. On failure TR_ECONFIG (its file is at fault, and where) or TR_ENOMEM,
 * and nothing has changed. */
TR_NODISCARD int srv_keys_read(struct srv_keys **ret, const struct tr_options *options,
                               const struct srv_route *const *routes, int n_routes,
                               struct srv_keys *old, struct tr_err *err);
void srv_keys_free(struct srv_keys *keys); /* NULL ok */
/* The key of that text, NULL = there is none. Borrowed. */
struct srv_key *srv_keys_find(const struct srv_keys *keys, const char *shown);

/* The same by its SHA-256; zeros: the anonymous one, if requests without a key are let in. */
struct srv_key *srv_keys_by_sha(const struct srv_keys *keys,
                                const unsigned char sha[SRV_SHA_BYTES]);

/* Whether the request's key may ask now, and counts the request; false: refused. */
bool srv_key_admit(struct srv_req *req);
/* Whether the key may spend n tokens of prompts now; false: refused. */
bool srv_key_may_spend(struct srv_req *req, long long n);
/* What was computed for it. */
void srv_key_spend(struct srv_key *key, struct srv_use use);
/* The request is over: it no longer counts, and its reference goes. */
void srv_key_leave(struct srv_req *req);
void srv_key_unref(struct srv_key *key); /* NULL ok */

struct srv_rate_header {
    char name[48], value[40];
};
/* The headers that tell a key of its limits; returns how many there are. */
int srv_key_headers(const struct srv_req *req, struct srv_rate_header ret[SRV_RATE_HEADERS]);
/* Appends what the key has used and may use, as a JSON object. */
void srv_key_usage(struct tr_buf *out, struct srv_key *key);

/* ---- keys_file.c ---- */

/* Appends the keys of a JSON file to *keys, and fills the anonymous one. As srv_keys_read. */
TR_NODISCARD int srv_keys_file(struct srv_keys *keys, const char *file,
                               const struct srv_route *const *routes, int n_routes,
                               struct tr_err *err);
/* A key without limits, with one reference; NULL: no memory. */
struct srv_key *srv_key_new(void);
int srv_key_add(struct srv_keys *keys, struct srv_key *key); /* takes it over; TR_ENOMEM */
int srv_key_hash(unsigned char ret[SRV_SHA_BYTES], const char *text, struct tr_err *err);

#endif
