/*
 * Requests that other threads of this process ask: the way of any request from its route on,
 * without a connection.
 *
 * The asking thread blocks; everything else happens on the loop thread, which takes what was asked
 * once the daemon is ready.
 */
#ifndef TR_SERVER_HTTP_INBOX_H
#define TR_SERVER_HTTP_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "config/buf.h"
#include "config/list.h"

struct srv;
struct srv_req;

enum { SRV_ASK_SHA = 32, SRV_ASK_ID = 64 };

/* A POST and what became of it. */
struct srv_inquiry {
    struct tr_list link;            /* the inbox's while it waits */
    const char *path;               /* borrowed */
    struct tr_buf body;             /* taken over */
    bool background;                /* everybody else's calls come first */
    unsigned char sha[SRV_ASK_SHA]; /* of the key that asks; zeros: none */
    bool over;                      /* what follows is there */
    int status;                     /* 0: there is no daemon any more */
    int retry_after;                /* seconds, 0 = not told */
    char request_id[SRV_ASK_ID];    /* cut if longer */
    struct tr_buf reply;            /* the asker's */
};

struct srv_inbox {
    pthread_mutex_t lock; /* guards all below, and `over` of what is asked */
    pthread_cond_t told;
    struct tr_list waiting; /* not taken yet */
    bool open, closed;      /* a daemon is ready; it has ended */
    struct srv *srv;        /* while open */
    uv_async_t async;       /* the loop's, as is the list */
    struct tr_list replied; /* requests whose answers are to be handed over */
};

void srv_inbox_init(struct srv_inbox *in);
void srv_inbox_done(struct srv_inbox *in);
/* Blocks until there is an answer, or no daemon: then false. Any thread but the loop's. */
bool srv_inbox_ask(struct srv_inbox *in, struct srv_inquiry *ask);

/* ---- the loop thread ---- */

/* The async handle, before there is anybody to ask; 0 or a negative libuv code. */
TR_NODISCARD int srv_inbox_attach(struct srv_inbox *in, struct srv *s);
/* The daemon is ready: what was asked is taken, and what will be. */
void srv_inbox_open(struct srv_inbox *in);
/* Every call has ended: hands over what was answered, and lets go who still waits. */
void srv_inbox_close(struct srv_inbox *in);
/* A request of an inbox has its reply. */
void srv_inbox_replied(struct srv_req *req);

#endif
