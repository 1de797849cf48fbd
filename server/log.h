/*
 * The daemon's log: one line an event on standard error, as text or as JSON, with the request's id
 * where there is one. Any thread may log (the checkpoint is loaded beside the loop). Whatever the
 * text holds, a line stays one line, and no control character gets into it.
 *
 * While the daemon serves, lines go through a bounded ring to a thread of their own: nobody waits
 * for a reader that has stopped. What does not fit is dropped and counted, and the count is logged
 * when there is room again.
 */
#ifndef TR_SERVER_LOG_H
#define TR_SERVER_LOG_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"

/* In the order of the option log_level. */
enum srv_log_level { SRV_LOG_ERROR, SRV_LOG_WARN, SRV_LOG_INFO, SRV_LOG_DEBUG };

/* Lines above `level` are dropped from now on; json chooses the form. Before the first call:
 * info, text. */
void srv_log_setup(enum srv_log_level level, bool json);
/* From now on lines are written by a thread. Without it, and if there can be none, where they
 * arise. */
void srv_log_start(void);
/* Waits at most `ms` for the ring to be written; what is left then is lost. */
void srv_log_stop(int ms);
/* Lines dropped since the process began. */
uint64_t srv_log_dropped(void);
/* Puts text on standard error as it is, between two lines: a progress bar. */
void srv_log_draw(const char *text);
/* request: its id, NULL = none. */
void srv_log(enum srv_log_level level, const char *request, const char *fmt, ...) TR_PRINTF(3, 4);
/* What a line tells beside its message, gathered in a buffer: " name=value" of text, members of
 * JSON. */
void srv_log_text(struct tr_buf *fields, const char *name, const char *value);
void srv_log_number(struct tr_buf *fields, const char *name, int decimals, double value);
enum { SRV_LOG_TEXT = 2048 }; /* bytes of the longest message; the rest is cut */
/* A line whose message is `text`; fields NULL = none. */
void srv_log_with(enum srv_log_level level, const char *request, const char *text,
                  const struct tr_buf *fields);

#endif
