/* Answers: plain, refusing, streamed. */
#include <stdio.h>
#include <string.h>

#include "config/json.h"
#include "server/api/messages.h"
#include "server/http/conn.h"
#include "server/http/request.h"
#include "server/http/route.h"
#include "server/server.h"

static const struct {
    int status;
    const char *type, *code;
} problems[] = {
#define X(name, status, type, code) {status, type, code},
    SRV_PROBLEM_MAP(X)
#undef X
};

enum srv_problem srv_problem_of(int code)
{
    switch (code) {
    case TR_EINVAL:
    case TR_EUNSUPPORTED:
        return SRV_PROBLEM_REQUEST;
    case TR_ETOOLONG:
        return SRV_PROBLEM_CONTEXT;
    case TR_ENOFIT:
        return SRV_PROBLEM_NOFIT;
    case TR_ENOTFOUND:
        return SRV_PROBLEM_MODEL;
    case TR_EQUEUE:
        return SRV_PROBLEM_QUEUE;
    case TR_ENOMEM:
        return SRV_PROBLEM_MEMORY;
    case TR_ELOADING:
        return SRV_PROBLEM_LOADING;
    case TR_EDRAIN:
    case TR_ECANCELED: /* nobody but a draining daemon cancels what a client still waits for */
        return SRV_PROBLEM_DRAIN;
    case TR_EDEADLINE:
        return SRV_PROBLEM_DEADLINE;
    default:
        return SRV_PROBLEM_INTERNAL;
    }
}

int srv_problem_status(enum srv_problem why)
{
    return problems[why].status;
}

static void add_string_or_null(struct tr_buf *out, const char *s)
{
    if (s)
        tr_json_quote(out, s, strlen(s));
    else
        tr_buf_adds(out, "null");
}

void srv_error_object(struct tr_buf *out, enum srv_problem why, const char *param, const char *msg)
{
    tr_buf_adds(out, "{\"error\":{\"message\":");
    add_string_or_null(out, msg);
    tr_buf_addf(out, ",\"type\":\"%s\",\"param\":", problems[why].type);
    add_string_or_null(out, param);
    tr_buf_adds(out, ",\"code\":");
    add_string_or_null(out, problems[why].code);
    tr_buf_adds(out, "}}");
}

void srv_later(struct srv_req *req, const struct srv_generator *generator, void *owner)
{
    srv_req_ref(req);
    req->generator = generator;
    req->owner = owner;
    req->phase = SRV_PHASE_PENDING;
}

void srv_reply(struct srv_req *req, int status, const char *content_type)
{
    req->generator = NULL;
    req->status = status;
    req->content_type = content_type;
    req->phase = SRV_PHASE_REPLIED;
    if (req->conn)
        srv_conn_resume(req->conn);
}

void srv_refuse(struct srv_req *req, enum srv_problem why, const char *param, const char *fmt, ...)
{
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    tr_buf_clear(&req->out);
    int status = problems[why].status;
    if (req->route && req->route->flags & SRV_ROUTE_MESSAGES)
        srv_messages_error(&req->out, status, req->id, msg);
    else
        srv_error_object(&req->out, why, param, msg);
    if (status == 429 || status == 503)
        req->retry_after = srv_retry_after(req->srv);
    srv_reply(req, status, "application/json");
}

void srv_refuse_err(struct srv_req *req, const struct tr_err *err)
{
    srv_refuse(req, srv_problem_of(err->code), err->param[0] ? err->param : NULL, "%s", err->msg);
}

void srv_stream_begin(struct srv_req *req)
{
    req->streaming = true;
    req->status = 200;
    req->content_type = "text/event-stream; charset=utf-8";
    req->phase = SRV_PHASE_REPLIED;
    if (req->conn)
        srv_conn_resume(req->conn);
}

void srv_stream_flush(struct srv_req *req)
{
    /* A suspended stream had nothing to send: the wait for its client begins now. */
    if (!req->conn || !req->conn->suspended || req->out.len == req->out_pos)
        return;
    req->conn->since = srv_now(req->srv);
    srv_conn_resume(req->conn);
}

void srv_stream_end(struct srv_req *req, bool close)
{
    req->ended = true;
    req->close |= close;
    req->generator = NULL;
    if (req->conn)
        srv_conn_resume(req->conn);
}

bool srv_stream_full(struct srv_req *req)
{
    if (req->out.len - req->out_pos > req->srv->options->stream_buffer)
        req->full = true;
    return req->full;
}
