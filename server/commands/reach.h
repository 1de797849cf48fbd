/*
 * One question to the daemon that the options describe (host, port, unix_socket, tls_cert, the
 * first api_key), for commands that look at it. Blocks, for some seconds at most where nothing
 * moves.
 */
#ifndef TR_SERVER_COMMANDS_REACH_H
#define TR_SERVER_COMMANDS_REACH_H

#include "config/buf.h"
#include "config/err.h"
#include "config/options.h"

/* GET path: the status. *ret gets the body, the caller's (tr_buf_done); NULL: only the status is
 * waited for. TR_EIO, TR_ECONFIG: nobody answers, or not as HTTP asks; err says where and why. */
TR_NODISCARD int srv_reach(const struct tr_options *o, const char *path, struct tr_buf *ret,
                           struct tr_err *err);
/* Where that is, as words; returns text. */
const char *srv_reach_name(const struct tr_options *o, char text[256]);

#endif
