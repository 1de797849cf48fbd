#include "server/http/access.h"

#include <string.h>

#include "config/clock.h"
#include "server/http/route.h"
#include "server/log.h"

const char *srv_method_name(enum srv_method method)
{
    static const char *const names[] = {
        [SRV_METHOD_GET] = "GET",         [SRV_METHOD_HEAD] = "HEAD",
        [SRV_METHOD_POST] = "POST",       [SRV_METHOD_DELETE] = "DELETE",
        [SRV_METHOD_OPTIONS] = "OPTIONS", [SRV_METHOD_OTHER] = "other"};
    return names[method];
}

/* n hexadecimal digits in lower case, not all of them 0. */
static bool is_id(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n && strspn(s, "0") < n;
}

void srv_access_trace(struct srv_req *req, const char *traceparent)
{
    enum { TRACE = 3, PARENT = 36, FLAGS = 53, BYTES = 55 };
    const char *t = traceparent;
    if (!t || strlen(t) < BYTES || strspn(t, "0123456789abcdef") != 2 || strncmp(t, "ff", 2) == 0)
        return;
    bool first = strncmp(t, "00", 2) == 0;
    if (t[TRACE - 1] != '-' || t[PARENT - 1] != '-' || t[FLAGS - 1] != '-' ||
        !is_id(t + TRACE, 32) || t[TRACE + 32] != '-' || !is_id(t + PARENT, 16) ||
        t[PARENT + 16] != '-' || strspn(t + FLAGS, "0123456789abcdef") != 2 ||
        (t[BYTES] != '\0' && (first || t[BYTES] != '-')))
        return;
    memcpy(req->trace, t + TRACE, 32);
    memcpy(req->span, t + PARENT, 16);
}

static void add_call(struct tr_buf *fields, const struct srv_ledger *l)
{
    srv_log_number(fields, "prompt_tokens", 0, (double)l->prompt);
    srv_log_number(fields, "cached_tokens", 0, (double)l->cached);
    srv_log_number(fields, "completion_tokens", 0, (double)l->completion);
    if (l->begun) {
        srv_log_number(fields, "queue_ms", 3, l->queue_ms);
        srv_log_number(fields, "first_ms", 3, l->first_ms);
        srv_log_number(fields, "token_ms", 3, l->token_ms);
    }
    if (l->finish)
        srv_log_text(fields, "finish", l->finish);
    if (l->constrained)
        srv_log_text(fields, "constrained", "yes");
    if (l->tool_calls > 0)
        srv_log_number(fields, "tool_calls", 0, l->tool_calls);
}

void srv_access_log(const struct srv_req *req)
{
    bool routine = req->route && req->route->flags & SRV_ROUTE_ALWAYS && req->status == 200;
    struct tr_buf fields = {0};
    srv_log_number(&fields, "bytes", 0, (double)req->sent);
    srv_log_number(&fields, "ms", 3, (double)(tr_clock_ns() - req->begun_ns) * 1e-6);
    if (req->gone)
        srv_log_text(&fields, "client", "gone");
    if (req->ledger.made)
        add_call(&fields, &req->ledger);
    if (req->trace[0]) {
        srv_log_text(&fields, "trace", req->trace);
        srv_log_text(&fields, "parent", req->span);
    }
    srv_log_with(routine ? SRV_LOG_DEBUG : SRV_LOG_INFO, req->id, &fields, "%s %s %d",
                 srv_method_name(req->method), req->path ? req->path : "-",
                 req->gone ? 499 : req->status);
    tr_buf_done(&fields);
}
