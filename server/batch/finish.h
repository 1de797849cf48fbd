/* The end of a batch: its answers, gathered in ID.part, become the files that clients fetch. */
#ifndef TR_SERVER_BATCH_FINISH_H
#define TR_SERVER_BATCH_FINISH_H

#include "server/batch/output.h"
#include "server/batch/record.h"

/* Adds a line for each question that was not answered in time. */
TR_NODISCARD int srv_finish_expired(struct srv_batch_output *out, struct srv_record *b,
                                    struct tr_err *err);
/* Names the files that its counts ask for: the record is saved with them before they are made, so
 * that after a kill they are made again, not twice. */
void srv_finish_name(struct srv_record *b);
/* Makes the files: answers with status 200, and the others. May be done again. */
TR_NODISCARD int srv_finish_files(const struct srv_owner *o, const struct srv_record *b,
                                  struct tr_err *err);

#endif
