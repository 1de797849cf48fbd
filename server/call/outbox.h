/*
 * Hand-off B: events from the engine thread to the loop thread.
 *
 * The engine thread copies each event into a node and wakes the loop only when the list was empty;
 * the loop detaches the whole list and works on it unlocked. Nodes come from a pool, so a steady
 * stream allocates nothing. A job's last event has a node of its own, inside the sink, so that it
 * can never be lost: not even when memory is.
 */
#ifndef TR_SERVER_CALL_OUTBOX_H
#define TR_SERVER_CALL_OUTBOX_H

#include <pthread.h>
#include <uv.h>

#include "engine/engine.h"

enum { SRV_MAX_LOGPROBS = 20 }; /* alternatives a token may carry */

struct srv_event {
    struct srv_event *next;
    struct tr_event e; /* a copy; top and usage point into this node, err is NULL */
    int error;         /* TR_E… of a failed job or choice, 0 = none */
    union {
        struct tr_top top[SRV_MAX_LOGPROBS]; /* PROMPT, TOKEN */
        struct {
            struct tr_usage usage; /* ADMITTED, DONE */
            char text[96];         /* why it failed */
        } end;
    };
};

/* What tr_job.user points to: first member of whoever receives the events of one job. */
struct srv_sink {
    struct srv_event done; /* the DONE event's node */
    bool lost;             /* an earlier event found no memory; written before DONE is pushed */
};

struct srv_outbox {
    pthread_mutex_t lock; /* guards the four lists below; nothing else is ever locked inside */
    struct srv_event *head, **tail;
    struct srv_event *pool;
    size_t n_pool;
    uv_async_t async; /* fires `wake` on the loop thread */
};

/* 0 or a negative libuv code; wake runs on the loop thread, async.data = data. */
TR_NODISCARD int srv_outbox_init(struct srv_outbox *o, uv_loop_t *loop, uv_async_cb wake,
                                 void *data);
/* After the engine is closed and the async handle has been closed by uv_close. */
void srv_outbox_done(struct srv_outbox *o);

/* A tr_event_fn, arg = the outbox: engine thread. */
void srv_outbox_push(void *outbox, const struct tr_event *event);
/* Loop thread: the whole list in order, NULL if empty. */
struct srv_event *srv_outbox_take(struct srv_outbox *o);
/* Gives nodes back, a list of them linked by next; those inside sinks must not be among them. */
void srv_outbox_recycle(struct srv_outbox *o, struct srv_event *list);

#endif
