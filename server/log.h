/*
 * The daemon's log: one line an event on standard error, as text or as JSON, with the request's id
 * where there is one. Any thread may log (the checkpoint is loaded beside the loop). Whatever the
 * text holds, a line stays one line.
 */
#ifndef TR_SERVER_LOG_H
#define TR_SERVER_LOG_H

#include <stdbool.h>

#include "config/base.h"

/* In the order of the option log_level. */
enum srv_log_level { SRV_LOG_ERROR, SRV_LOG_WARN, SRV_LOG_INFO, SRV_LOG_DEBUG };

/* Lines above `level` are dropped from now on; json chooses the form. Before the first call:
 * info, text. */
void srv_log_setup(enum srv_log_level level, bool json);
/* request: its id, NULL = none. */
void srv_log(enum srv_log_level level, const char *request, const char *fmt, ...) TR_PRINTF(3, 4);

#endif
