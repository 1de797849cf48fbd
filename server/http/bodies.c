#include "server/http/bodies.h"

#include <math.h>

#include "server/http/conn.h"
#include "server/log.h"
#include "server/server.h"

/* Memory for the request bodies of all connections: this, or four of the largest. */
#define BODIES_MIN (256ULL << 20)
enum { STANDING = 32 * 1024 }; /* bytes of about the last second: who sends less stands still */

/* What it has sent in about the last second: a sum that halves with each. */
static double pace(const struct srv_req *req, int64_t now)
{
    return req->pace * exp2(-(double)(now - req->paced) * 1e-3);
}

static struct srv_req *slowest(const struct srv *s, const struct srv_req *but, int64_t now)
{
    struct srv_req *best = NULL;
    TR_LIST_EACH(const struct srv_conn, c, &s->conns) {
        struct srv_req *r = c->req;
        if (r && r != but && r->phase == SRV_PHASE_BODY && !r->busy && r->paced > 0 &&
            r->held > 0 && (!best || pace(r, now) < pace(best, now)))
            best = r;
    }
    return best && pace(best, now) < STANDING ? best : NULL;
}

static void give_way(struct srv_req *req)
{
    srv_log(SRV_LOG_INFO, req->id, "an upload that stands still gives way: %llu of %llu bytes",
            (unsigned long long)req->received, (unsigned long long)req->length);
    srv_req_drop_body(req);
    req->discard = true;
    srv_conn_refuse(req->conn, SRV_PROBLEM_BUSY, "too many large requests at the same time");
}

uint64_t srv_bodies_most(const struct srv *s)
{
    return TR_MAX(BODIES_MIN, 4 * s->options->max_body);
}

bool srv_bodies_admit(struct srv_req *req, size_t n)
{
    struct srv *s = req->srv;
    int64_t now = (int64_t)uv_now(&s->loop);
    uint64_t most = srv_bodies_most(s);
    req->pace = pace(req, now) + (double)n;
    req->paced = now;
    while (s->body_bytes + n > most) {
        struct srv_req *other = slowest(s, req, now);
        if (!other)
            return false;
        give_way(other);
    }
    return true;
}
