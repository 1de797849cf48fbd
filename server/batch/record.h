/* A batch as clients are shown it, and as it is kept. */
#ifndef TR_SERVER_BATCH_RECORD_H
#define TR_SERVER_BATCH_RECORD_H

#include "server/batch/input.h"
#include "server/batch/store.h"

enum srv_batch_status {
    SRV_BATCH_VALIDATING,
    SRV_BATCH_IN_PROGRESS,
    SRV_BATCH_FINALIZING,
    SRV_BATCH_COMPLETED,
    SRV_BATCH_FAILED,
    SRV_BATCH_EXPIRED,
    SRV_BATCH_CANCELLING,
    SRV_BATCH_CANCELLED,
    SRV_N_BATCH_STATUSES
};

struct srv_record {
    char id[SRV_STORE_ID], input[SRV_STORE_ID];
    char output[SRV_STORE_ID], error[SRV_STORE_ID]; /* files of answers; "" = none */
    char endpoint[64], window[16];
    enum srv_batch_status status;
    int64_t at[SRV_N_BATCH_STATUSES]; /* unix seconds of each status; 0 = not yet */
    int64_t expires;
    int64_t total, completed, failed; /* lines */
    struct tr_buf metadata;           /* JSON; empty = null */
    struct tr_buf errors;             /* elements of the list; empty = null */
};

/* Has it come to an end? */
bool srv_record_over(const struct srv_record *b);
const char *srv_record_status(const struct srv_record *b);
void srv_record_set(struct srv_record *b, enum srv_batch_status status); /* from now on */
/* Adds to the errors; line 0 = none. */
void srv_record_fault(struct srv_record *b, const char *code, size_t line, const struct tr_err *e);

void srv_record_write(const struct srv_record *b, struct tr_buf *out);
/* After success srv_record_done. The store's: see srv_store_read, srv_store_write. */
TR_NODISCARD int srv_record_load(struct srv_record *ret, const struct srv_owner *o, const char *id,
                                 struct tr_err *err);
TR_NODISCARD int srv_record_save(const struct srv_record *b, const struct srv_owner *o,
                                 struct tr_err *err);
void srv_record_done(struct srv_record *b);

#endif
