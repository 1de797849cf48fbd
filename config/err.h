/* Errors: negative ints from one map. */
#ifndef TR_CONFIG_ERR_H
#define TR_CONFIG_ERR_H

#include <stdarg.h>

#include "config/base.h"

/* X(name, text). The value of TR_E<name> is minus its 1-based place in the list. */
#define TR_ERR_MAP(X)                                                                              \
    X(INVAL, "invalid argument")                                                                   \
    X(NOMEM, "out of memory")                                                                      \
    X(IO, "input/output error")                                                                    \
    X(FORMAT, "malformed file")                                                                    \
    X(CONFIG, "bad configuration")                                                                 \
    X(TOOLONG, "prompt exceeds the context")                                                       \
    X(NOFIT, "request can never fit the KV cache")                                                 \
    X(QUEUE, "queue is full")                                                                      \
    X(LOADING, "checkpoint is loading")                                                            \
    X(DRAIN, "shutting down")                                                                      \
    X(DEADLINE, "deadline exceeded")                                                               \
    X(CANCELED, "canceled")                                                                        \
    X(NOTFOUND, "not found")                                                                       \
    X(UNSUPPORTED, "not supported")                                                                \
    X(FULL, "no room on the disk")                                                                 \
    X(INTERNAL, "internal error")

enum tr_err_index {
#define X(name, text) TR_ERR_INDEX_##name,
    TR_ERR_MAP(X)
#undef X
};
enum tr_err_code {
    TR_OK = 0,
#define X(name, text) TR_E##name = -(int)TR_ERR_INDEX_##name - 1,
    TR_ERR_MAP(X)
#undef X
};

/* Written only where a person will read it: load, configuration, request parsing. */
struct tr_err {
    int code;       /* TR_E… */
    char param[96]; /* the field, option or tensor at fault; "" if none */
    char msg[512];  /* one line, valid UTF-8, no user bytes unescaped */
};

/* The map's text of a code; unknown codes read as INTERNAL. */
const char *tr_err_text(int code);

/* Fills *err (NULL is allowed) and returns code, so that `return tr_err_set(...)` works. `param`
 * may be NULL. Text beyond the capacity is cut at a character border. */
int tr_err_set(struct tr_err *err, int code, const char *param, const char *fmt, ...)
    TR_PRINTF(4, 5);
int tr_err_vset(struct tr_err *err, int code, const char *param, const char *fmt, va_list ap)
    TR_PRINTF(4, 0);

#endif
