/* Growable bytes with a sticky out-of-memory flag: append many times, check once. */
#ifndef TR_CONFIG_BUF_H
#define TR_CONFIG_BUF_H

#include <stdbool.h>

#include "config/base.h"

struct tr_buf {
    char *data; /* owned; NUL-terminated whenever len > 0 or cap > 0, the NUL not counted in len */
    size_t len; /* bytes used */
    size_t cap; /* bytes allocated */
    bool oom;   /* an append failed; every later append is ignored */
};

/* A zeroed struct is a valid empty buffer. */
void tr_buf_done(struct tr_buf *b);  /* frees, leaves an empty buffer */
void tr_buf_clear(struct tr_buf *b); /* len = 0, keeps the memory, clears oom */
/* Room for n more bytes; the write pointer, or NULL (oom set). Add to len yourself. */
char *tr_buf_reserve(struct tr_buf *b, size_t n);
void tr_buf_add(struct tr_buf *b, const void *bytes, size_t n);
void tr_buf_adds(struct tr_buf *b, const char *s);
void tr_buf_addc(struct tr_buf *b, char c);
void tr_buf_addf(struct tr_buf *b, const char *fmt, ...) TR_PRINTF(2, 3);
/* Drops the first n bytes (n <= len). */
void tr_buf_drop(struct tr_buf *b, size_t n);

#endif
