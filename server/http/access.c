#include "server/http/access.h"

#include <stdio.h>

#include "config/clock.h"
#include "server/http/keys.h"
#include "server/http/route.h"
#include "server/log.h"

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
    if (req->key && req->key->name[0])
        srv_log_text(&fields, "key", req->key->name);
    if (req->gone)
        srv_log_text(&fields, "client", "gone");
    if (req->ledger.made)
        add_call(&fields, &req->ledger);
    if (req->trace[0]) {
        srv_log_text(&fields, "trace", req->trace);
        srv_log_text(&fields, "parent", req->span);
    }
    char text[SRV_LOG_TEXT];
    snprintf(text, sizeof text, "%s %s %d", srv_methods[req->method], req->path ? req->path : "-",
             req->gone ? 499 : req->status);
    srv_log_with(routine ? SRV_LOG_DEBUG : SRV_LOG_INFO, req->id, text, &fields);
    tr_buf_done(&fields);
}
