#include "server/api/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/schema.h"
#include "server/api/stored.h"
#include "server/batch/jobs.h"
#include "server/call/read.h"
#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/http/task.h"
#include "server/server.h"

enum { MAX_PAIRS = 16, MAX_KEY = 64, MAX_VALUE = 512, USUAL = 20, MOST = 100, MAX_DAYS = 30 };

struct batch_params {
    struct tr_json input, endpoint, window, metadata;
};

#define AT(member) offsetof(struct batch_params, member)

static const struct srv_field rows[] = {
    SRV_VALUE_FIELD("input_file_id", AT(input), "\"type\":\"string\"",
                    "a file of purpose batch: a question a line"),
    SRV_VALUE_FIELD("endpoint", AT(endpoint), "\"type\":\"string\"",
                    "where all its lines are asked, as /v1/chat/completions"),
    SRV_VALUE_FIELD("completion_window", AT(window),
                    "\"type\":\"string\",\"pattern\":\"^[1-9][0-9]{0,7}[smhd]$\"",
                    "after which no more is asked: 24h, or another time up to 30d"),
    SRV_VALUE_FIELD("metadata", AT(metadata),
                    "\"type\":[\"object\",\"null\"],\"maxProperties\":16,"
                    "\"additionalProperties\":{\"type\":\"string\",\"maxLength\":512}",
                    "kept, and shown again"),
};
static const struct srv_table fields = {rows, TR_ARRAY_LEN(rows)};
static const struct srv_table *const tables[] = {&fields};

/* ---- a new one: on a worker ---- */

static int take_string(const struct tr_json *v, const char *name, const char **ret,
                       struct tr_err *err)
{
    if (!tr_json_given(v))
        return tr_err_set(err, TR_EINVAL, name, "%s: missing", name);
    return tr_json_as_string(v, ret, NULL, err);
}

static int take_endpoint(const struct srv_req *req, const struct batch_params *p,
                         struct srv_record *b, struct tr_err *err)
{
    const char *path;
    int r = take_string(&p->endpoint, "endpoint", &path, err);
    for (int i = 0; i < req->srv->n_routes && r == 0; i++)
        if (req->srv->routes[i]->api && strcmp(req->srv->routes[i]->path, path) == 0) {
            snprintf(b->endpoint, sizeof b->endpoint, "%s", path);
            return 0;
        }
    return r < 0 ? r : tr_json_fail(&p->endpoint, err, "no endpoint that generates");
}

static int take_window(const struct batch_params *p, struct srv_record *b, struct tr_err *err)
{
    static const struct {
        char unit;
        long long seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    const char *text;
    int r = take_string(&p->window, "completion_window", &text, err);
    if (r < 0)
        return r;
    size_t digits = strspn(text, "0123456789");
    long long n = digits > 0 && digits < 9 ? strtoll(text, NULL, 10) : 0, most = MAX_DAYS * 86400;
    for (size_t i = 0; i < TR_ARRAY_LEN(units) && n > 0; i++)
        if (text[digits] == units[i].unit && !text[digits + 1] && n <= most / units[i].seconds) {
            snprintf(b->window, sizeof b->window, "%s", text);
            b->expires = b->at[SRV_BATCH_VALIDATING] + n * units[i].seconds;
            return 0;
        }
    return tr_json_fail(&p->window, err, "a time, as 24h; at most %dd", MAX_DAYS);
}

static int take_metadata(const struct batch_params *p, struct srv_record *b, struct tr_err *err)
{
    void *iter = NULL;
    struct tr_json item;
    if (!tr_json_given(&p->metadata))
        return 0;
    int r = tr_json_expect(&p->metadata, TR_JSON_OBJECT, err);
    if (r == 0 && tr_json_size(&p->metadata) > MAX_PAIRS)
        r = tr_json_fail(&p->metadata, err, "more than %d members", MAX_PAIRS);
    while (r == 0 && tr_json_next(&p->metadata, &iter, &item)) {
        const char *value;
        size_t n;
        r = tr_json_as_string(&item, &value, &n, err);
        if (r == 0 && (n > MAX_VALUE || item.key_bytes > MAX_KEY))
            r = tr_json_fail(&p->metadata, err, "names have at most %d bytes, values %d", MAX_KEY,
                             MAX_VALUE);
    }
    if (r == 0)
        tr_json_write(&b->metadata, &p->metadata);
    return r;
}

/* A file of the key's own, sent to be asked. */
static int take_input(const struct srv_owner *o, const struct batch_params *p, struct srv_record *b,
                      struct tr_err *err)
{
    struct tr_buf text = {0};
    struct json_t *doc = NULL;
    const char *id, *purpose = "";
    int r = take_string(&p->input, "input_file_id", &id, err);
    if (r < 0)
        return r;
    if (!srv_store_is_id(id, SRV_STORE_FILE) || srv_store_read(o, id, &text, err) < 0)
        r = tr_json_fail(&p->input, err, "there is no such file");
    if (r == 0)
        r = tr_json_parse(&doc, text.data, text.len, err);
    struct tr_json root = tr_json_root(doc, NULL);
    if (r == 0)
        r = tr_json_opt_string(&root, "purpose", &purpose, NULL, err);
    if (r == 0 && strcmp(purpose, "batch") != 0)
        r = tr_json_fail(&p->input, err, "its purpose is not batch");
    snprintf(b->input, sizeof b->input, "%s", id);
    tr_json_free(doc);
    tr_buf_done(&text);
    return r;
}

static int make_batch(struct srv_req *req, void *params, struct tr_err *err)
{
    struct srv_record b = {0};
    struct srv_owner o = srv_stored_owner(req);
    srv_store_new_id(b.id, SRV_STORE_BATCH);
    srv_record_set(&b, SRV_BATCH_VALIDATING);
    int r = take_input(&o, params, &b, err);
    if (r == 0)
        r = take_endpoint(req, params, &b, err);
    if (r == 0)
        r = take_window(params, &b, err);
    if (r == 0)
        r = take_metadata(params, &b, err);
    if (r == 0)
        srv_record_write(&b, &req->out);
    if (r == 0)
        r = srv_jobs_add(req->srv->jobs, &o, &b, err);
    srv_record_done(&b);
    return r;
}

static int make(struct srv_req *req, struct tr_err *err)
{
    struct batch_params p = {0};
    return srv_body_take(req, tables, 1, false, &p, make_batch, err);
}

static void post_batch(struct srv_req *req)
{
    if (!srv_stored_off(req))
        srv_task_run_aside(req, make);
}

/* ---- what is there: on a worker ---- */

static int add_batch(struct srv_req *req, const char *id, struct tr_buf *out, struct tr_err *err)
{
    struct srv_record b;
    struct srv_owner o = srv_stored_owner(req);
    int r = srv_jobs_look(req->srv->jobs, &o, id, &b, err);
    if (r < 0)
        return r;
    srv_record_write(&b, out);
    srv_record_done(&b);
    return 0;
}

static int list(struct srv_req *req, struct tr_err *err)
{
    return srv_stored_list(req, SRV_STORE_BATCH, USUAL, MOST, add_batch, err);
}

static void get_list(struct srv_req *req)
{
    if (!srv_stored_off(req))
        srv_task_run_aside(req, list);
}

static int show(struct srv_req *req, struct tr_err *err)
{
    char id[SRV_STORE_ID];
    int r = srv_stored_id(req->tail, SRV_STORE_BATCH, "", id, err);
    return r < 0 ? r : add_batch(req, id, &req->out, err);
}

static void get_one(struct srv_req *req)
{
    if (!srv_stored_off(req))
        srv_task_run_aside(req, show);
}

static int cancel(struct srv_req *req, struct tr_err *err)
{
    char id[SRV_STORE_ID];
    struct srv_record b;
    struct srv_owner o = srv_stored_owner(req);
    int r = srv_stored_id(req->tail, SRV_STORE_BATCH, "/cancel", id, err);
    if (r == 0)
        r = srv_jobs_cancel(req->srv->jobs, &o, id, &b, err);
    if (r < 0)
        return r;
    srv_record_write(&b, &req->out);
    srv_record_done(&b);
    return 0;
}

static void post_cancel(struct srv_req *req)
{
    if (!srv_stored_off(req))
        srv_task_run_aside(req, cancel);
}

#define BATCH_OBJECT                                                                               \
    SRV_OBJECT("\"id\",\"object\",\"endpoint\",\"input_file_id\",\"completion_window\","           \
               "\"status\",\"request_counts\"",                                                    \
               "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"batch\"},"                    \
               "\"endpoint\":{\"type\":\"string\"},\"input_file_id\":{\"type\":\"string\"},"       \
               "\"completion_window\":{\"type\":\"string\"},\"status\":{\"enum\":["                \
               "\"validating\",\"in_progress\",\"finalizing\",\"completed\",\"failed\","           \
               "\"expired\",\"cancelling\",\"cancelled\"]},"                                       \
               "\"output_file_id\":{\"type\":[\"string\",\"null\"]},"                              \
               "\"error_file_id\":{\"type\":[\"string\",\"null\"]},"                               \
               "\"request_counts\":{\"type\":\"object\"}")

const struct srv_route srv_batches_route = {
    .path = "/v1/batches",
    .doc = "Batches; ask every line of a file",
    .get = get_list,
    .post = post_batch,
    .tables = tables,
    .n_tables = TR_ARRAY_LEN(tables),
    .rules = SRV_REQUIRED("\"input_file_id\",\"endpoint\",\"completion_window\""),
    .answer = "{\"anyOf\":[" BATCH_OBJECT "," SRV_STORED_LIST(BATCH_OBJECT) "]}",
};

const struct srv_route srv_batch_route = {
    .path = "/v1/batches/",
    .doc = "A batch, or (ID/cancel) the end of it",
    .flags = SRV_ROUTE_PREFIX,
    .get = get_one,
    .post = post_cancel,
    .rules = SRV_REQUIRED(""),
    .answer = BATCH_OBJECT,
};
