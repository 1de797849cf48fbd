/* From the option table to a loaded engine: shared by the daemon and the commands that need no
 * server. */
#ifndef TR_SERVER_LOAD_H
#define TR_SERVER_LOAD_H

#include "config/options.h"
#include "engine/engine.h"
#include "engine/text/chat.h"

/* The engine's options but for what it calls; strings are borrowed from o. */
void srv_engine_options(struct tr_engine_options *ret, const struct tr_options *o);
/* As tr_engine_open, showing the progress of a long load: a bar on a terminal, else a log line
 * every few seconds. err->msg begins with the model's path. */
TR_NODISCARD int srv_engine_open(struct tr_engine **ret, const struct tr_engine_options *o,
                                 struct tr_err *err);
/* The chat template: the file that o names, else the checkpoint's own; *ret stays NULL if there is
 * neither. err->msg says where the template comes from, and the line and column of what is wrong
 * with it. */
TR_NODISCARD int srv_chat_open(struct tr_chat **ret, const struct tr_options *o,
                               const struct tr_engine *engine, struct tr_err *err);
/* "2.81 GiB": the unit that leaves a number from 1 to 1023. Returns text. */
const char *srv_bytes_text(char text[24], uint64_t bytes);
/* Logs what the engine is, and its warnings. */
void srv_log_engine(const struct tr_engine_info *info);

#endif
