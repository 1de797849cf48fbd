/* From the option table to a loaded engine: shared by the daemon and the commands that need no
 * server. */
#ifndef TR_SERVER_LOAD_H
#define TR_SERVER_LOAD_H

#include "config/options.h"
#include "engine/engine.h"

/* How a long load shows itself; zero it before use. It must live until tr_engine_open has
 * returned. */
struct srv_progress {
    int64_t begun_ns; /* CLOCK_MONOTONIC; 0 = not yet */
    int64_t next_ns;  /* nothing is shown before */
    bool bar;         /* a terminal: a bar that is drawn over; else a log line every few seconds */
    bool drawn;
};

/* Fills in everything but on_event and event_arg; strings are borrowed from o. progress may be
 * NULL. */
void srv_engine_options(struct tr_engine_options *ret, const struct tr_options *o,
                        struct srv_progress *progress);
/* Ends a bar that was drawn, so that the next line begins at the margin. */
void srv_progress_end(struct srv_progress *progress);
/* "2.81 GiB": the unit that leaves a number from 1 to 1023. Returns text. */
const char *srv_bytes_text(char text[24], uint64_t bytes);
/* Logs what the engine is, and its warnings. */
void srv_log_engine(const struct tr_engine_info *info);

#endif
