/* A batch: every question of a file asked of the daemon of this process, several at a time, and
 * each answer written once. */
#ifndef TR_SERVER_BATCH_BATCH_H
#define TR_SERVER_BATCH_BATCH_H

#include <stdatomic.h>

#include "server/batch/output.h"
#include "server/http/inbox.h"

struct srv_batch_progress {
    size_t done, n;  /* lines: those that others have answered included */
    size_t answered; /* by this process; of these */
    size_t refused;  /* answers with a status other than 200 */
    size_t bad;      /* the same, of all that are done */
    uint64_t tokens; /* generated for them */
    double seconds;
};

struct srv_batch {
    const struct srv_batch_input *in;
    struct srv_batch_output *out;
    struct srv_inbox *inbox;        /* borrowed */
    unsigned char sha[SRV_ASK_SHA]; /* of the key that asks; zeros: none */
    bool background;                /* everybody else's calls come first */
    int width;                      /* questions at a time */
    bool ordered;                   /* lines are written in the order of the questions */
    /* Now and then, and at the end; on the thread that runs the batch. */
    void (*progress)(void *arg, const struct srv_batch_progress *p);
    void *arg;
    atomic_bool *stop; /* set by another thread: no more is asked */
};

/* Blocks until every line has its answer. TR_ECANCELED: stopped before, or the daemon has ended;
 * what was answered is written. */
TR_NODISCARD int srv_batch_run(const struct srv_batch *b, struct srv_batch_progress *ret,
                               struct tr_err *err);

#endif
