/* Errors: negative ints from one map, which also knows the HTTP status of each. */
#ifndef TR_CONFIG_ERR_H
#define TR_CONFIG_ERR_H

#include <stdarg.h>

#include "config/base.h"

/* X(name, text, HTTP status). The value of TR_E<name> is minus its 1-based place in the list. */
#define TR_ERR_MAP(X)                                                                              \
    X(INVAL, "invalid argument", 400)                                                              \
    X(NOMEM, "out of memory", 503)                                                                 \
    X(IO, "input/output error", 500)                                                               \
    X(FORMAT, "malformed file", 500)                                                               \
    X(CONFIG, "bad configuration", 500)                                                            \
    X(TOOLONG, "prompt exceeds the context", 400)                                                  \
    X(NOFIT, "request can never fit the KV cache", 400)                                            \
    X(QUEUE, "queue is full", 429)                                                                 \
    X(LOADING, "checkpoint is loading", 503)                                                       \
    X(DRAIN, "shutting down", 503)                                                                 \
    X(DEADLINE, "deadline exceeded", 503)                                                          \
    X(CANCELED, "canceled", 499)                                                                   \
    X(NOTFOUND, "not found", 404)                                                                  \
    X(UNSUPPORTED, "not supported", 400)                                                           \
    X(INTERNAL, "internal error", 500)

enum tr_err_index {
#define X(name, text, status) TR_ERR_INDEX_##name,
    TR_ERR_MAP(X)
#undef X
};
enum tr_err_code {
    TR_OK = 0,
#define X(name, text, status) TR_E##name = -(int)TR_ERR_INDEX_##name - 1,
    TR_ERR_MAP(X)
#undef X
};

/* Written only where a person will read it: load, configuration, request parsing. */
struct tr_err {
    int code;       /* TR_E… */
    char param[96]; /* the field, option or tensor at fault; "" if none */
    char msg[512];  /* one line, valid UTF-8, no user bytes unescaped */
};

/* The map's text and HTTP status of a code; unknown codes read as INTERNAL. */
const char *tr_err_text(int code);
int tr_err_status(int code);

/* Fills *err (NULL is allowed) and returns code, so that `return tr_err_set(...)` works. `param`
 * may be NULL. Text beyond the capacity is cut at a character border. */
int tr_err_set(struct tr_err *err, int code, const char *param, const char *fmt, ...)
    TR_PRINTF(4, 5);
int tr_err_vset(struct tr_err *err, int code, const char *param, const char *fmt, va_list ap)
    TR_PRINTF(4, 0);

#endif
