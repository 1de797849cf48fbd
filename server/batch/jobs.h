/*
 * The batches of /v1/batches: each is asked by a thread of its own and those of srv_batch_run, as
 * the key that made it, behind everybody else's calls.
 *
 * A key's batches run one after another, those of some keys at the same time. What was answered
 * stands in ID.part: a daemon that was killed goes on where it was. A batch's record is changed
 * under one lock. Nothing here is called by the loop thread but open, end and close.
 */
#ifndef TR_SERVER_BATCH_JOBS_H
#define TR_SERVER_BATCH_JOBS_H

#include "server/batch/record.h"

struct srv_inbox;
struct srv_jobs;

/* Goes on with what the store has. width: questions of a batch at a time. */
TR_NODISCARD int srv_jobs_open(struct srv_jobs **ret, struct srv_store *store,
                               struct srv_inbox *inbox, int width, struct tr_err *err);
/* No more is asked. */
void srv_jobs_end(struct srv_jobs *jobs); /* NULL ok */
/* Waits for the threads; the inbox is closed. */
void srv_jobs_close(struct srv_jobs *jobs); /* NULL ok */

/* Keeps a new batch, and begins it when its turn comes. TR_EQUEUE: the key has too many that have
 * not ended. */
TR_NODISCARD int srv_jobs_add(struct srv_jobs *jobs, const struct srv_owner *o,
                              const struct srv_record *b, struct tr_err *err);
/* Loads a record, as far as its batch is at this moment. */
TR_NODISCARD int srv_jobs_look(struct srv_jobs *jobs, const struct srv_owner *o, const char *id,
                               struct srv_record *ret, struct tr_err *err);
/* The same, once it was told to end. TR_EINVAL: it has ended, or nearly. */
TR_NODISCARD int srv_jobs_cancel(struct srv_jobs *jobs, const struct srv_owner *o, const char *id,
                                 struct srv_record *ret, struct tr_err *err);

#endif
