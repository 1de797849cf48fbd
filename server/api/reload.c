#include "server/api/reload.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/schema.h"
#include "server/call/fields.h"
#include "server/call/read.h"
#include "server/http/reply.h"
#include "server/server.h"
#include "server/swap.h"

struct reload_params {
    struct tr_json model;
    bool drain;
};

static const struct srv_field rows[] = {
    SRV_VALUE_FIELD("model", offsetof(struct reload_params, model),
                    "\"type\":[\"string\",\"null\"]",
                    "the path that is loaded; only the one that the daemon was started with"),
    SRV_BOOL_FIELD("drain", offsetof(struct reload_params, drain), false,
                   "end what runs and close the former checkpoint before loading, even if there is "
                   "memory for both; requests wait meanwhile"),
};
static const struct srv_table fields = {rows, TR_ARRAY_LEN(rows)};
static const struct srv_table *const tables[] = {&fields};

/* Who asked. */
struct waiter {
    struct srv_req *req; /* a reference */
    bool gone;
};

static void on_proceed(struct srv_req *req)
{
    (void)req; /* no stream */
}

static void on_stop(struct srv_req *req)
{
    struct waiter *w = req->owner;
    w->gone = true;
}

static const struct srv_generator generator = {on_proceed, on_stop};

static void refuse(struct srv_req *req, const struct tr_err *err)
{
    bool not_now = err->code == TR_EDRAIN || err->code == TR_ELOADING;
    enum srv_problem why = err->code == TR_EQUEUE ? SRV_PROBLEM_RELOADING
                           : not_now              ? srv_problem_of(err->code)
                                                  : SRV_PROBLEM_CHECKPOINT;
    srv_refuse(req, why, err->param[0] ? err->param : NULL, "%s", err->msg);
}

static void on_told(void *arg, const struct srv_swap_news *news)
{
    struct waiter *w = arg;
    struct srv_req *req = w->req;
    if (!w->gone && news->result < 0) {
        refuse(req, news->err);
    } else if (!w->gone) {
        const struct srv_model *m = req->srv->model;
        tr_buf_adds(&req->out, "{\"object\":\"reload\",\"model\":");
        tr_json_quote(&req->out, m->name, strlen(m->name));
        tr_buf_addf(&req->out,
                    ",\"system_fingerprint\":\"%s\",\"former_fingerprint\":\"%s\","
                    "\"beside\":%s,\"seconds\":%.3f}",
                    m->fingerprint, news->former, news->beside ? "true" : "false", news->seconds);
        srv_reply(req, 200, "application/json");
    }
    srv_req_unref(req);
    free(w);
}

static int take(struct srv_req *req, void *params, struct tr_err *err)
{
    const struct reload_params *p = params;
    const char *path = NULL;
    if (!tr_json_given(&p->model))
        return 0;
    int r = tr_json_as_string(&p->model, &path, NULL, err);
    if (r == 0 && strcmp(path, req->srv->options->model) != 0)
        r = tr_json_fail(&p->model, err, "not the path that the daemon was started with");
    return r;
}

static void post_reload(struct srv_req *req)
{
    struct reload_params p = {0};
    struct tr_err err = {0};
    struct waiter *w = NULL;
    int r = srv_body_take(req, tables, 1, true, &p, take, &err);
    if (r < 0) {
        srv_refuse_err(req, &err);
        return;
    }
    if (!(w = calloc(1, sizeof *w))) {
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        return;
    }
    w->req = req;
    struct srv_swap_wish wish = {.drain = p.drain, .told = on_told, .arg = w};
    if (srv_swap_begin(req->srv, &wish, &err) < 0) {
        free(w);
        refuse(req, &err);
        return;
    }
    srv_later(req, &generator, w);
}

const struct srv_route srv_reload_route = {
    .path = "/admin/reload",
    .doc = "Load the checkpoint again, and serve that (needs a key of admin_key)",
    .flags = SRV_ROUTE_ADMIN | SRV_ROUTE_ALWAYS,
    .post = post_reload,
    .tables = tables,
    .n_tables = TR_ARRAY_LEN(tables),
    .rules = SRV_REQUIRED(""),
    .answer = SRV_OBJECT("\"object\",\"model\",\"system_fingerprint\",\"former_fingerprint\"",
                         "\"object\":{\"const\":\"reload\"},\"model\":{\"type\":\"string\"},"
                         "\"system_fingerprint\":{\"type\":\"string\"},"
                         "\"former_fingerprint\":{\"type\":\"string\"},"
                         "\"beside\":{\"type\":\"boolean\"},\"seconds\":{\"type\":\"number\"}"),
};
