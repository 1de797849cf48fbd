/* From the option table to a loaded engine: shared by the daemon and the commands that need no
 * server. */
#ifndef TR_SERVER_LOAD_H
#define TR_SERVER_LOAD_H

#include "config/options.h"
#include "engine/engine.h"
#include "engine/text/chat.h"

/* The engine's options but for progress and on_event; strings are borrowed from o. */
void srv_engine_options(struct tr_engine_options *ret, const struct tr_options *o);
/* Opens the engine that o describes, showing the progress of a long load: a bar on a terminal, else
 * a log line every few seconds. on_checked (NULL ok) is called with event_arg once the checkpoint
 * is known to be good and its weights begin to be read. As tr_engine_open; err->msg begins with the
 * model's path. */
TR_NODISCARD int srv_engine_open(struct tr_engine **ret, const struct tr_options *o,
                                 tr_event_fn on_event, void (*on_checked)(void *event_arg),
                                 void *event_arg, struct tr_err *err);
/* The chat template: the file that o names, else the checkpoint's own; *ret stays NULL if there is neither. err->msg
 * says where the template comes from, and the line and column of what is wrong with it. */
TR_NODISCARD int srv_chat_open(struct tr_chat **ret, const struct tr_options *o,
                               const struct tr_engine *engine, struct tr_err *err);
/* "2.81 GiB": the unit that leaves a number from 1 to 1023. Returns text. */
const char *srv_bytes_text(char text[24], uint64_t bytes);
/* Logs what the engine is, and its warnings. */
void srv_log_engine(const struct tr_engine_info *info);

#endif
