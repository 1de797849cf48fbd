/*
 * What all of server/ shares: the state of the daemon, as the loop thread keeps it.
 *
 * One loop thread runs libuv and, inside it, libmicrohttpd; it alone touches sockets, connections,
 * requests, answers and counters. Compute happens on the engine's threads, which are reached by
 * tr_engine_submit and heard through the outbox. A long body is parsed and tokenized on libuv's
 * pool, where only its own request is seen; a short one is read on the loop thread itself. The log
 * may be written from any thread.
 */
#ifndef TR_SERVER_SERVER_H
#define TR_SERVER_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "config/list.h"
#include "config/options.h"
#include "server/metrics.h"
#include "server/model.h"

struct srv_conn;
struct srv_event;
struct srv_inbox;
struct srv_kept_grammar;
struct srv_jobs;
struct srv_keys;
struct srv_listen;
struct srv_mhd;
struct srv_outbox;
struct srv_route;
struct srv_spans;
struct srv_store;
struct srv_swap;
struct srv_watch;

enum srv_state {
    SRV_STATE_LOADING,
    SRV_STATE_READY,
    SRV_STATE_SWAPPING, /* between two checkpoints: what has begun goes on, the rest waits */
    SRV_STATE_LEAVING,  /* told to end: not ready, but still serving for drain_delay */
    SRV_STATE_DRAINING  /* new work is refused, what runs may finish */
};

struct srv {
    const struct tr_options *options; /* in force; their strings are borrowed all over */
    struct tr_options reloaded;       /* what SIGHUP has put in place of srv_run's */
    enum srv_state state;
    const struct srv_route *const *routes; /* n_routes: what is served */
    int n_routes;

    uv_loop_t loop;
    struct srv_listen *listen;
    struct srv_mhd *mhd; /* the libmicrohttpd that takes new connections, then older ones */
    uv_prepare_t pump;   /* runs libmicrohttpd once before every sleep */
    uv_timer_t mhd_timer;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t watchdog;      /* the service manager's */
    uv_timer_t drain;         /* drain_delay, drain_timeout, the last turns */
    uv_thread_t loader;       /* runs srv_model_open */
    struct srv_model *opened; /* the loader's, until it has ended */
    uv_async_t checked;       /* the checkpoint is good, its weights are being read */
    uv_async_t loaded;        /* the loader's end */
    struct tr_err error;      /* why it cannot serve */
    int result;               /* of the load */
    bool closing;             /* connections go as soon as they can */
    bool settling;            /* drained: only refuses what still comes, */
    int n_settles;            /* for so long, */
    uint64_t settle_id;       /* next_id at the last look */
    bool over;                /* the loop has to end */

    struct srv_model *model; /* a reference; NULL until loaded, and while swapping */
    struct tr_list models;   /* it, and former ones that are not closed yet */
    uint64_t n_served;       /* checkpoints so far */
    int n_models;            /* these, and those that workers close at this moment */
    bool fixed; /* whoever asks wants one checkpoint throughout: a signal changes none */
    struct srv_swap *swap;
    struct tr_list held; /* n_held requests that wait for a checkpoint: http/hold.c */
    int n_held;
    int64_t created;       /* unix seconds of the start */
    struct srv_keys *keys; /* who may ask for what */
    uint64_t hash_key[2];  /* random; keys tenant and cache salts */
    struct srv_outbox *outbox;
    struct srv_inbox *inbox; /* what threads of this process ask */
    struct srv_store *store; /* files and batches; NULL: off */
    struct srv_jobs *jobs;   /* batches that run; NULL with it */
    struct srv_watch *watch; /* who looks at the engine; NULL until somebody does */

    struct tr_list conns;    /* all connections */
    struct tr_list idle;     /* those between requests, the longest idle first */
    struct srv_conn *taking; /* libmicrohttpd is being given it */
    int max_conns;           /* max_connections, or what the limit of open files allows */
    bool told_exhausted;     /* that there was no descriptor left */
    struct tr_list calls;    /* all inference calls with open jobs */
    int n_conns, n_requests, n_calls;
    struct tr_list works; /* what libuv's pool has to do */
    uv_work_t trim;       /* gives memory back */
    bool trimming;
    size_t released;   /* bytes of bodies that were read since then */
    int n_working;     /* requests on libuv's pool: the tokenizer must outlive them */
    size_t body_bytes; /* request bodies held at this moment */
    size_t kept_bytes; /* what calls keep, and the grammars among it: see call/kept.h */
    struct srv_kept_grammar *kept_grammars;
    struct srv_event *events; /* taken from the outbox, for the next turn */
    uint64_t next_id;         /* for srv_req.number */
    struct srv_metrics metrics;
    struct srv_spans *spans; /* NULL: nobody collects them */
};

/* Whether the engine's thread turned lately: a step may be long, a minute is not a step. */
bool srv_engine_alive(struct srv *s);
/* Seconds for Retry-After. */
int srv_retry_after(struct srv *s);

#endif
