/*
 * What the daemon gives up when it no longer needs it, so that whoever breaks into it finds
 * little: privileges, files, system calls. It needs no privilege to give up any of these.
 *
 *   at the start   another user (option `user`), capabilities, no new privileges ever, memory
 *                  that is both written and executed; files outside what the options name
 *                  (landlock), TCP connections of its own and new ports, signals to others
 *   when ready     every system call that serving does not make (seccomp): nothing is executed
 *                  or forked, no code is mapped
 *
 * A kernel without one of them is named in the log; `confine=strict` refuses to run on it.
 */
#ifndef TR_SERVER_CONFINE_H
#define TR_SERVER_CONFINE_H

#include "config/options.h"

/* When the sockets are bound, before there is a second thread: threads inherit it. */
TR_NODISCARD int srv_confine_start(const struct tr_options *o, struct tr_err *err);
/* All threads there are and will be. Logs what is in force. */
TR_NODISCARD int srv_confine_ready(const struct tr_options *o, struct tr_err *err);

#endif
