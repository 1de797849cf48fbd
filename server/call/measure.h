/* What the metrics count of calls. */
#ifndef TR_SERVER_CALL_MEASURE_H
#define TR_SERVER_CALL_MEASURE_H

#include "server/call/call.h"

/* A token of a choice has come, before the choice has seen it. */
void srv_measure_token(const struct srv_choice *ch, int64_t now_ns);
/* Writes what is known of the call into its request's ledger. */
void srv_measure_ledger(const struct srv_call *c);
/* A call has ended and somebody listens. */
void srv_measure_call(const struct srv_call *c);

#endif
