#include "config/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tr_buf_done(struct tr_buf *b)
{
    free(b->data);
    *b = (struct tr_buf){0};
}

void tr_buf_clear(struct tr_buf *b)
{
    b->len = 0;
    b->oom = false;
    if (b->data)
        b->data[0] = '\0';
}

char *tr_buf_reserve(struct tr_buf *b, size_t n)
{
    if (b->oom)
        return NULL;
    if (n > SIZE_MAX / 4 - b->len) {
        b->oom = true;
        return NULL;
    }
    size_t need = b->len + n + 1;
    if (need > b->cap) {
        size_t cap = b->cap < 64 ? 64 : b->cap;
        while (cap < need)
            cap *= 2;
        char *p = realloc(b->data, cap);
        if (!p) {
            b->oom = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
    }
    return b->data + b->len;
}

void tr_buf_add(struct tr_buf *b, const void *bytes, size_t n)
{
    char *p = tr_buf_reserve(b, n);
    if (!p)
        return;
    if (n)
        memcpy(p, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void tr_buf_adds(struct tr_buf *b, const char *s)
{
    tr_buf_add(b, s, strlen(s));
}

void tr_buf_addc(struct tr_buf *b, char c)
{
    tr_buf_add(b, &c, 1);
}

void tr_buf_addf(struct tr_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : tr_buf_reserve(b, (size_t)n);
    if (p) {
        vsnprintf(p, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void tr_buf_drop(struct tr_buf *b, size_t n)
{
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}
