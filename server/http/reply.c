#include "server/http/reply.h"

#include <stdio.h>
#include <string.h>

#include "server/http/conn.h"
#include "server/http/inbox.h"
#include "server/http/route.h"
#include "server/server.h"

void srv_reply(struct srv_req *req, int status, const char *content_type)
{
    req->generator = NULL;
    req->status = status;
    req->content_type = content_type;
    req->phase = SRV_PHASE_REPLIED;
    if (req->conn)
        srv_conn_resume(req->conn);
    if (req->ask)
        srv_inbox_replied(req);
}

void srv_refuse(struct srv_req *req, enum srv_problem why, const char *param, const char *fmt, ...)
{
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    tr_buf_clear(&req->out);
    const struct srv_error_form *form =
        req->route && req->route->errors ? req->route->errors : &srv_error_object;
    form->write(&req->out, req, why, param, msg);
    int status = srv_problems[why].status;
    if ((status == 429 || status == 503) && req->retry_after == 0)
        req->retry_after = srv_retry_after(req->srv);
    srv_reply(req, status, "application/json");
}

void srv_refuse_err(struct srv_req *req, const struct tr_err *err)
{
    enum srv_problem why = srv_problem_of(err->code);
    if (err->code == TR_ENOTFOUND && strcmp(err->param, "model") != 0)
        why = SRV_PROBLEM_PATH;
    srv_refuse(req, why, err->param[0] ? err->param : NULL, "%s", err->msg);
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

void srv_pieces_begin(struct srv_req *req, uint64_t n, const char *content_type)
{
    req->sized = true;
    req->length = n;
    srv_stream_begin(req);
    req->content_type = content_type;
}

void srv_stream_flush(struct srv_req *req)
{
    if (req->conn && req->out.len > req->out_pos)
        srv_conn_wake(req->conn);
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
