#include "server/http/exchange.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "config/clock.h"
#include "server/http/access.h"
#include "server/http/bodies.h"
#include "server/http/conn.h"
#include "server/http/head.h"
#include "server/http/keys.h"
#include "server/http/origin.h"
#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/http/span.h"
#include "server/log.h"
#include "server/server.h"

/* Longest body that is read only to answer 413 properly. */
#define SWALLOW_MAX (256ULL << 20)
/* What a Content-Length is believed before its bytes have come. */
enum { RESERVE_MAX = 1 << 20 };
enum {
    HOST_BYTES = 512,
    PIECE = 256 * 1024,      /* of a body that goes elsewhere */
    SMALL_BODY = 64 * 1024,  /* so much of a body is taken however many others are held */
    STREAM_BLOCK = 4096,     /* libmicrohttpd's buffer for HTTP/1.0 streams */
    ANSWER_BLOCK = 64 * 1024 /* a longer answer is handed over in such pieces: its progress shows */
};

/* ---- the request arrives ---- */

static enum MHD_Result send_reply(struct srv_req *req);

static enum srv_method method_of(const char *name)
{
    int i = 0;
    while (i < SRV_METHOD_OTHER && strcmp(name, srv_methods[i]) != 0)
        i++;
    return (enum srv_method)i;
}

/* Its body goes elsewhere, piece by piece. */
static bool goes_on(const struct srv_req *req)
{
    return req->route && req->route->piece && req->method == SRV_METHOD_POST;
}

static uint64_t longest_body(const struct srv_req *req, const char **option)
{
    const struct tr_options *o = req->srv->options;
    *option = goes_on(req) ? "max_file" : "max_body";
    return goes_on(req) ? o->max_file + PIECE : o->max_body;
}

/* Whether so long a body is read; as srv_route_admit. */
static bool admit_body(struct srv_req *req, bool *now)
{
    const char *option;
    uint64_t most = longest_body(req, &option);
    if (req->length <= most)
        return true;
    *now = *now || req->length > SWALLOW_MAX;
    srv_refuse(req, SRV_PROBLEM_TOO_LARGE, NULL, "the body is larger than %llu bytes (%s)",
               (unsigned long long)most, option);
    return false;
}

/* What of the head is needed after it; false: no memory. */
static bool keep_head(struct srv_req *req, const struct srv_head *head, const char *origin)
{
    if (head->request_id)
        memcpy(req->id, head->request_id, strlen(head->request_id) + 1);
    else
        snprintf(req->id, sizeof req->id, "req-%016llx", (unsigned long long)req->number);
    memcpy(req->trace, head->trace, sizeof req->trace);
    memcpy(req->span, head->span, sizeof req->span);
    req->sampled = head->sampled;
    req->length = head->length;
    req->strict = req->srv->options->strict;
    req->origin = origin ? strdup(origin) : NULL;
    req->private_network = head->private_network != NULL;
    req->chunked = head->n_transfer_encoding > 0;
    req->close = req->chunked && SRV_HEAD_LAX_CHUNKS;
    req->asked_headers = head->request_headers ? strdup(head->request_headers) : NULL;
    req->if_none_match = head->if_none_match ? strdup(head->if_none_match) : NULL;
    req->media = head->content_type ? strdup(head->content_type) : NULL;
    return !origin == !req->origin && !head->request_headers == !req->asked_headers &&
           !head->if_none_match == !req->if_none_match && !head->content_type == !req->media;
}

/* The path of a target that may be absolute, as clients send it to what they take for a proxy; its
 * authority counts for the Host header. */
static const char *path_of(const char *url, struct srv_head *head, char authority[HOST_BYTES])
{
    if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
        return url;
    const char *begin = strstr(url, "://") + 3, *path = strchr(begin, '/');
    size_t n = path ? (size_t)(path - begin) : strlen(begin);
    const char *user = memchr(begin, '@', n);
    if (user) {
        n -= (size_t)(user + 1 - begin);
        begin = user + 1;
    }
    if (n < HOST_BYTES) {
        memcpy(authority, begin, n);
        authority[n] = '\0';
        head->host = authority;
    }
    return path ? path : "/";
}

static enum MHD_Result take_head(struct srv_req *req, const char *url, const char *method,
                                 const char *version)
{
    req->started = true;
    req->method = method_of(method);
    struct srv_line line = {method, version, req->uri};
    struct srv_head head;
    char authority[HOST_BYTES];
    srv_head_read(&head, req->conn->mhd, &line);
    req->path = strdup(path_of(url, &head, authority));
    struct srv_origin origin = srv_origin_of(req, &head);
    if (!req->path || !keep_head(req, &head, origin.allowed))
        return MHD_NO;
    bool now;
    if (srv_route_admit(req, &head, &origin, &now) && admit_body(req, &now))
        return MHD_YES;
    req->discard = true;
    if (!now) {
        req->phase = SRV_PHASE_BODY; /* the reply waits until the body has passed */
        return MHD_YES;
    }
    req->close = true;
    return send_reply(req);
}

static void refuse_rest(struct srv_req *req, enum srv_problem why, const char *text)
{
    srv_req_drop_body(req);
    req->discard = true;
    srv_refuse(req, why, NULL, "%s", text);
    req->phase = SRV_PHASE_BODY;
}

/* What has come goes to a worker of the route's; the rest waits for it in the socket. */
static void hand_on(struct srv_req *req)
{
    req->busy = true;
    req->route->piece(req);
    if (req->busy)
        srv_conn_suspend(req->conn);
}

static enum MHD_Result take_body(struct srv_req *req, const char *data, size_t n)
{
    struct srv *s = req->srv;
    const char *option;
    req->received += n;
    if (req->received > longest_body(req, &option)) {
        if (req->received > SWALLOW_MAX)
            return MHD_NO;
        if (!req->discard)
            refuse_rest(req, SRV_PROBLEM_TOO_LARGE, "the body is too large (max_body, max_file)");
    }
    if (req->discard)
        return MHD_YES;
    if (req->received > SMALL_BODY && !srv_bodies_admit(req, n)) {
        refuse_rest(req, SRV_PROBLEM_BUSY, "too many large requests at the same time");
        return MHD_YES;
    }
    if (!req->body.cap)
        tr_buf_reserve(&req->body, TR_MIN(req->length, RESERVE_MAX));
    tr_buf_add(&req->body, data, n);
    req->held += n;
    s->body_bytes += n;
    if (req->body.oom)
        refuse_rest(req, SRV_PROBLEM_MEMORY, "no memory for the body");
    else if (goes_on(req) && req->body.len >= PIECE)
        hand_on(req);
    return MHD_YES;
}

void srv_exchange_taken(struct srv_req *req, const struct tr_err *err)
{
    req->busy = false;
    srv_req_drop_body(req);
    if (!req->conn)
        return;
    if (err) {
        srv_refuse_err(req, err);
        req->discard = true;
        req->phase = SRV_PHASE_BODY;
    } else {
        srv_conn_resume(req->conn);
    }
}

enum MHD_Result srv_exchange_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                        const char *method, const char *version, const char *data,
                                        size_t *n, void **con_cls)
{
    (void)cls;
    struct srv_req *req = *con_cls;
    if (!req)
        return MHD_NO;
    if (!req->started)
        return take_head(req, url, method, version);
    if (req->busy) { /* of chunks it hears although it is suspended */
        if (!req->conn->suspended)
            srv_conn_suspend(req->conn);
        return MHD_YES;
    }
    if (*n > 0) {
        size_t got = *n;
        *n = 0;
        return take_body(req, data, got);
    }
    if (req->phase == SRV_PHASE_BODY) {
        const char *fault = req->chunked ? srv_head_trailer_fault(mhd) : NULL;
        if (fault && !req->status) {
            req->close = true;
            srv_refuse(req, SRV_PROBLEM_REQUEST, NULL, "%s", fault);
        }
        if (req->status)
            req->phase = SRV_PHASE_REPLIED;
        else
            srv_route_run(req);
    }
    if (req->gone)
        return MHD_NO;
    if (req->phase == SRV_PHASE_REPLIED)
        return send_reply(req);
    srv_conn_suspend(req->conn);
    return MHD_YES;
}

void srv_exchange_leave(struct srv_req *req, bool gone)
{
    struct srv_conn *c = req->conn;
    const struct srv_generator *generator = req->generator;
    req->generator = NULL;
    req->gone |= gone;
    if (generator)
        generator->stop(req);
    srv_metrics_request(&req->srv->metrics, req->route ? req->route_index : SRV_MAX_ROUTES,
                        req->gone ? 499 : req->status);
    srv_access_log(req);
    srv_span_tell(req);
    /* Whoever is told to go hears the end of file. */
    if (req->close || req->srv->closing)
        shutdown(c->fd, SHUT_RD);
    c->req = NULL;
    req->conn = NULL;
    srv_req_unref(req);
}

void srv_exchange_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                               enum MHD_RequestTerminationCode how)
{
    (void)cls;
    (void)mhd;
    struct srv_req *req = *con_cls;
    if (!req)
        return;
    *con_cls = NULL;
    struct srv_conn *c = req->conn;
    srv_exchange_leave(req, how != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    srv_conn_restart_timer(c);
    if (c->srv->state == SRV_STATE_DRAINING && !c->srv->over)
        uv_stop(&c->srv->loop); /* it may have been the last: not to be slept over */
}

/* ---- the answer leaves ---- */

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    (void)pos;
    struct srv_req *req = cls;
    size_t n = TR_MIN(max, req->out.len - req->out_pos);
    if (req->gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0 && req->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        srv_conn_suspend(req->conn);
        return 0;
    }
    memcpy(buf, req->out.data + req->out_pos, n);
    req->out_pos += n;
    req->sent += n;
    srv_conn_touch(req->conn);
    if (req->out_pos == req->out.len) {
        tr_buf_clear(&req->out);
        req->out_pos = 0;
    } else if (req->streaming && req->out_pos > req->srv->options->stream_buffer) {
        tr_buf_drop(&req->out, req->out_pos); /* a reader who stays behind must not make it grow */
        req->out_pos = 0;
    }
    if (req->full && (req->out.len - req->out_pos) * 2 <= req->srv->options->stream_buffer) {
        req->full = false;
        if (req->generator)
            req->generator->proceed(req);
    }
    return (ssize_t)n;
}

static void add_headers(struct srv_req *req, struct MHD_Response *r)
{
    char number[16];
    MHD_add_response_header(r, "X-Request-Id", req->id);
    if (req->content_type)
        MHD_add_response_header(r, "Content-Type", req->content_type);
    if (req->streaming && !req->sized) {
        MHD_add_response_header(r, "Cache-Control", "no-cache");
        MHD_add_response_header(r, "X-Accel-Buffering", "no");
    }
    if (req->allow)
        MHD_add_response_header(r, "Allow", req->allow);
    if (req->retry_after > 0) {
        snprintf(number, sizeof number, "%d", req->retry_after);
        MHD_add_response_header(r, "Retry-After", number);
    }
    if (req->etag[0])
        MHD_add_response_header(r, "ETag", req->etag);
    for (const char *const *h = req->headers; h && *h; h += 2)
        MHD_add_response_header(r, h[0], h[1]);
    struct srv_rate_header rates[SRV_RATE_HEADERS];
    int n_rates = srv_key_headers(req, rates);
    for (int i = 0; i < n_rates; i++)
        MHD_add_response_header(r, rates[i].name, rates[i].value);
    if (req->coded)
        MHD_add_response_header(r, "Accept-Encoding", "identity");
    if (req->status == 401)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (req->origin) {
        MHD_add_response_header(r, "Access-Control-Allow-Origin", req->origin);
        MHD_add_response_header(r, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
        MHD_add_response_header(r, "Vary", "Origin");
        if (req->method == SRV_METHOD_OPTIONS) {
            MHD_add_response_header(r, "Access-Control-Allow-Methods", req->allow);
            MHD_add_response_header(r, "Access-Control-Allow-Headers",
                                    req->asked_headers ? req->asked_headers
                                                       : "Authorization, Content-Type");
            if (req->private_network)
                MHD_add_response_header(r, "Access-Control-Allow-Private-Network", "true");
            MHD_add_response_header(r, "Access-Control-Max-Age", "600");
        }
    }
    if (req->close || req->srv->state == SRV_STATE_DRAINING)
        MHD_add_response_header(r, "Connection", "close");
}

static struct MHD_Response *make_response(struct srv_req *req)
{
    static char nothing[1];
    if (req->streaming)
        return MHD_create_response_from_callback(req->sized ? req->length : MHD_SIZE_UNKNOWN,
                                                 req->sized ? ANSWER_BLOCK : STREAM_BLOCK,
                                                 read_stream, req, NULL);
    if (req->out.len > ANSWER_BLOCK)
        return MHD_create_response_from_callback(req->out.len, ANSWER_BLOCK, read_stream, req,
                                                 NULL);
    req->sent = req->out.len;
    if (!req->out.data)
        return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *r =
        MHD_create_response_from_buffer(req->out.len, req->out.data, MHD_RESPMEM_MUST_FREE);
    if (r)
        req->out = (struct tr_buf){0};
    return r;
}

static enum MHD_Result send_reply(struct srv_req *req)
{
    struct MHD_Response *r = make_response(req);
    if (!r)
        return MHD_NO;
    srv_req_drop_body(req);
    add_headers(req, r);
    enum MHD_Result queued = MHD_queue_response(req->conn->mhd, (unsigned)req->status, r);
    MHD_destroy_response(r);
    req->phase = SRV_PHASE_SENDING;
    srv_conn_restart_timer(req->conn);
    return queued;
}
