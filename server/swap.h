/*
 * Another checkpoint in the place of the one that serves, without dropping a request.
 *
 * A thread opens what the configured path leads to now. Where there is memory for both it is loaded
 * beside the one that serves. Else, once every tensor was found good, the one that serves is
 * drained and closed first, and requests that come meanwhile wait (http/hold.h). The loop thread
 * puts the new one in place between two turns: what began on the former ends on it, and when its
 * last reference goes a worker closes it. What cannot be loaded changes nothing; if the former one
 * had to be closed for it, that is loaded again.
 */
#ifndef TR_SERVER_SWAP_H
#define TR_SERVER_SWAP_H

#include <uv.h>

#include "config/err.h"
#include "config/options.h"
#include "server/model.h"

struct srv;

/* How it went; pointers are valid during the call. */
struct srv_swap_news {
    int result; /* 0: srv.model is the new one; TR_EDRAIN: the daemon ends */
    const struct tr_err *err;
    const char *former; /* system_fingerprint of what served before */
    bool beside;
    double seconds;
};

struct srv_swap_wish {
    bool drain; /* first, even if there is memory for both */
    void (*told)(void *arg, const struct srv_swap_news *news); /* once, loop thread; NULL ok */
    void *arg;
};

enum srv_swap_phase {
    SRV_SWAP_REST,
    SRV_SWAP_OPENING,
    SRV_SWAP_CROWDED, /* the thread waits for the memory of those that serve */
    SRV_SWAP_ALONE,   /* it has it */
    SRV_SWAP_OPENED   /* the thread ends */
};

struct srv_swap {
    uv_async_t turn; /* the thread has come to CROWDED or OPENED */
    uv_mutex_t lock; /* guards phase and off */
    uv_cond_t turned;
    enum srv_swap_phase phase;
    bool off; /* nobody wants it any more */

    /* The thread's while it runs. */
    uv_thread_t thread;
    char *path; /* what is loaded, links followed; owned */
    const struct tr_options *options;
    struct srv_outbox *outbox;
    bool may_share;     /* may be loaded beside another */
    uint64_t beside_kv; /* bytes of its cache then, */
    uint64_t aside;     /* and bytes that it must leave */
    bool crowded;       /* there was no memory for both */
    struct srv_model *opened;
    int result;
    struct tr_err err;

    /* The loop thread's. */
    struct srv_swap_wish wish;
    int64_t begun_ns;
    char former[64]; /* fingerprint */
    char *way_back;  /* the path of one that was closed to make room; owned */
};

TR_NODISCARD int srv_swap_init(struct srv *s); /* 0 or a negative libuv code */
/* The first checkpoint, or the next: takes the reference over, and lets what waits go on. */
void srv_swap_place(struct srv *s, struct srv_model *m);
/* Whether the configured path leads to something else than what serves. */
bool srv_swap_is_due(const struct srv *s);
bool srv_swap_busy(const struct srv *s);
/* Begins; TR_EQUEUE: one is under way, TR_EDRAIN, TR_ELOADING: not now; else what is wrong with the
 * path, which is logged. */
TR_NODISCARD int srv_swap_begin(struct srv *s, const struct srv_swap_wish *wish,
                                struct tr_err *err);
/* The daemon ends: nothing is put in place any more, and who waits hears of it. */
void srv_swap_call_off(struct srv *s);
/* At the very end, before the loop's; false: the thread still reads weights and cannot be
 * stopped. */
bool srv_swap_done(struct srv *s);

#endif
