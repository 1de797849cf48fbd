#include "config/err.h"

#include <stdio.h>
#include <string.h>

static const char *const texts[] = {
#define X(name, text) text,
    TR_ERR_MAP(X)
#undef X
};

static size_t index_of(int code)
{
    if (code >= 0 || -code > (int)TR_ARRAY_LEN(texts))
        return TR_ERR_INDEX_INTERNAL;
    return (size_t)(-code - 1);
}

const char *tr_err_text(int code)
{
    return code == TR_OK ? "ok" : texts[index_of(code)];
}

/* snprintf cuts at a byte; drop a character it cut in two. */
static void trim_partial_utf8(char *s)
{
    size_t n = strlen(s);
    size_t back = 0;
    while (back < n && back < 3 && ((unsigned char)s[n - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back >= n)
        return;
    unsigned char lead = (unsigned char)s[n - 1 - back];
    size_t want = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (want > back)
        s[n - 1 - back] = '\0';
}

int tr_err_vset(struct tr_err *err, int code, const char *param, const char *fmt, va_list ap)
{
    if (!err)
        return code;
    err->code = code;
    snprintf(err->param, sizeof err->param, "%s", param ? param : "");
    trim_partial_utf8(err->param);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    trim_partial_utf8(err->msg);
    return code;
}

int tr_err_set(struct tr_err *err, int code, const char *param, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tr_err_vset(err, code, param, fmt, ap);
    va_end(ap);
    return code;
}
