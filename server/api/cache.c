#include "server/api/cache.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/schema.h"
#include "server/call/job.h"
#include "server/call/read.h"
#include "server/http/reply.h"
#include "server/http/task.h"
#include "server/server.h"

static void get_capacity(struct srv_req *req)
{
    struct tr_engine *e = req->srv->model->engine;
    const struct tr_engine_info *info = req->srv->model->info;
    static const char *const types[] = {"f32", "bf16", "q8"};
    struct tr_engine_stats st;
    tr_engine_stats(e, &st);
    tr_buf_addf(&req->out,
                "{\"object\":\"capacity\",\"kv_cache_bytes\":%llu,\"kv_type\":\"%s\","
                "\"page_tokens\":%d,\"weight_bytes\":%llu,\"buffer_bytes\":%llu,"
                "\"local\":{\"layers\":%d,\"window\":%d,\"bytes_per_token\":%llu,"
                "\"bytes_per_sequence\":%llu},"
                "\"global\":{\"layers\":%d,\"bytes_per_token\":%llu,\"bytes_per_sequence\":%llu},"
                "\"longest_sequence\":%d,\"expected_answer\":%d,"
                "\"choices\":{\"running\":%d,\"bytes_each\":%llu,\"bytes\":%llu},"
                "\"sequences\":[",
                (unsigned long long)info->kv_cache_bytes, types[info->kv_type], info->page_tokens,
                (unsigned long long)info->weight_bytes, (unsigned long long)info->buffer_bytes,
                info->n_local_layers, info->window, (unsigned long long)info->local_bytes_per_token,
                (unsigned long long)info->local_bytes_per_sequence, info->n_global_layers,
                (unsigned long long)info->global_bytes_per_token,
                (unsigned long long)info->global_bytes_per_token *
                    (unsigned long long)info->context_length,
                info->longest_sequence, st.expected_tokens, info->max_running,
                (unsigned long long)info->choice_bytes, (unsigned long long)st.choice_bytes);
    for (int64_t n = 1024; n < info->context_length; n *= 4)
        tr_buf_addf(&req->out, "{\"tokens\":%lld,\"fit\":%lld},", (long long)n,
                    (long long)tr_engine_capacity(e, (int)n));
    tr_buf_addf(&req->out, "{\"tokens\":%d,\"fit\":%lld}]}", info->context_length,
                (long long)tr_engine_capacity(e, info->context_length));
    srv_reply(req, 200, "application/json");
}

const struct srv_route srv_capacity_route = {
    .path = "/v1/capacity",
    .doc = "What fits into the KV cache",
    .get = get_capacity,
};

/* ---- snapshots ---- */

struct save_params {
    struct tr_json name, prompt, cache_salt;
};

#define AT(member) offsetof(struct save_params, member)

static const struct srv_field save_rows[] = {
    SRV_IGNORED_FIELD("model", "there is one"),
    SRV_VALUE_FIELD("name", AT(name),
                    "\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$\"",
                    "what to call it; an own snapshot of that name is replaced"),
    SRV_VALUE_FIELD("prompt", AT(prompt), "\"type\":[\"string\",\"array\"]",
                    "the text, or its token ids, of which the computed prefix is saved"),
    SRV_VALUE_FIELD("cache_salt", AT(cache_salt), "\"type\":[\"string\",\"null\"]",
                    "the one the prompt was computed under"),
};
static const struct srv_field restore_rows[] = {
    SRV_VALUE_FIELD("cache_salt", AT(cache_salt), "\"type\":[\"string\",\"null\"]",
                    "the one under which requests will find the prefix"),
};
static const struct srv_table save_fields = {save_rows, TR_ARRAY_LEN(save_rows)};
static const struct srv_table restore_fields = {restore_rows, TR_ARRAY_LEN(restore_rows)};
static const struct srv_table *const save_tables[] = {&save_fields};
static const struct srv_table *const restore_tables[] = {&restore_fields};

static int scope_of(const struct srv_req *req, const struct save_params *p,
                    struct tr_snapshot_scope *ret, struct tr_err *err)
{
    memcpy(ret->owner, req->key_hash, sizeof ret->owner);
    return srv_job_salt(&p->cache_salt, req->tenant, req->srv->hash_key, ret->salt, err);
}

static int take_prompt(const struct srv_req *req, const struct tr_json *v, struct tr_ids *ret,
                       struct tr_err *err)
{
    const struct tr_tokenizer *t = req->model->tokenizer;
    if (tr_json_type(v) == TR_JSON_STRING) {
        const char *text;
        size_t n;
        int r = tr_json_as_string(v, &text, &n, err);
        if (r == 0)
            r = tr_tokenizer_encode(t, text, n, TR_ENCODE_SPECIAL | TR_ENCODE_BOS,
                                    (size_t)req->model->info->context_length, ret);
        return r < 0 ? tr_err_set(err, r, "prompt", "%s", tr_err_text(r)) : 0;
    }
    int r = tr_json_expect(v, TR_JSON_ARRAY, err);
    if (r < 0)
        return r;
    size_t n = tr_json_size(v);
    if (n > (size_t)req->model->info->context_length)
        return tr_json_fail(v, err, "longer than the context");
    ret->ids = calloc(n + 1, sizeof *ret->ids);
    if (!ret->ids)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (; ret->n < n && r == 0; ret->n++) {
        struct tr_json item = tr_json_at(v, ret->n);
        int64_t id = 0;
        r = tr_json_as_int(&item, 0, tr_tokenizer_size(t) - 1, &id, err);
        ret->ids[ret->n] = (int32_t)id;
    }
    return r;
}

static void add_snapshot(struct tr_buf *out, const struct tr_snapshot *s)
{
    tr_buf_adds(out, "{\"object\":\"snapshot\",\"name\":");
    tr_json_quote(out, s->name, strlen(s->name));
    tr_buf_addf(out, ",\"tokens\":%lld,\"bytes\":%llu,\"created\":%lld}", (long long)s->tokens,
                (unsigned long long)s->bytes, (long long)s->created);
}

static int save_prompt(struct srv_req *req, void *params, struct tr_err *err)
{
    const struct save_params *p = params;
    struct tr_ids ids = {0};
    struct tr_snapshot_scope scope;
    struct tr_snapshot made;
    const char *name = NULL;
    if (!tr_json_given(&p->name))
        return tr_err_set(err, TR_EINVAL, "name", "name: missing");
    int r = tr_json_as_string(&p->name, &name, NULL, err);
    if (r == 0 && !tr_json_given(&p->prompt))
        r = tr_err_set(err, TR_EINVAL, "prompt", "prompt: missing");
    if (r == 0)
        r = take_prompt(req, &p->prompt, &ids, err);
    if (r == 0)
        r = scope_of(req, p, &scope, err);
    if (r == 0)
        r = tr_engine_snapshot_save(req->model->engine, name, ids.ids, (int)ids.n, &scope, &made,
                                    err);
    if (r == 0)
        add_snapshot(&req->out, &made);
    free(ids.ids);
    return r;
}

static int save(struct srv_req *req, struct tr_err *err)
{
    struct save_params p = {0};
    return srv_body_take(req, save_tables, 1, true, &p, save_prompt, err);
}

static int restore_named(struct srv_req *req, void *params, struct tr_err *err)
{
    struct tr_snapshot_scope scope;
    struct tr_snapshot made;
    int r = scope_of(req, params, &scope, err);
    if (r == 0)
        r = tr_engine_snapshot_restore(req->model->engine, req->tail, &scope, &made, err);
    if (r == TR_EFORMAT) /* a file that was damaged is the client's to delete, no fault of ours */
        r = err->code = TR_EINVAL;
    if (r == 0)
        add_snapshot(&req->out, &made);
    return r;
}

static int restore(struct srv_req *req, struct tr_err *err)
{
    struct save_params p = {0};
    return srv_body_take(req, restore_tables, 1, true, &p, restore_named, err);
}

static int list(struct srv_req *req, struct tr_err *err)
{
    struct tr_snapshot *items;
    int n;
    int r = tr_engine_snapshot_list(req->model->engine, req->key_hash, &items, &n, err);
    if (r < 0)
        return r;
    tr_buf_adds(&req->out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < n; i++) {
        if (i)
            tr_buf_addc(&req->out, ',');
        add_snapshot(&req->out, &items[i]);
    }
    tr_buf_adds(&req->out, "]}");
    free(items);
    return 0;
}

static int remove_one(struct srv_req *req, struct tr_err *err)
{
    int r = tr_engine_snapshot_delete(req->model->engine, req->tail, req->key_hash, err);
    if (r == 0)
        tr_buf_adds(&req->out, "{\"object\":\"snapshot\",\"deleted\":true}");
    return r;
}

static void get_list(struct srv_req *req)
{
    srv_task_run_aside(req, list);
}

static void post_save(struct srv_req *req)
{
    srv_task_run_aside(req, save);
}

static void post_restore(struct srv_req *req)
{
    srv_task_run_aside(req, restore);
}

static void delete_one(struct srv_req *req)
{
    srv_task_run_aside(req, remove_one);
}

const struct srv_route srv_snapshots_route = {
    .path = "/v1/snapshots",
    .doc = "Saved prefixes; save one",
    .get = get_list,
    .post = post_save,
    .tables = save_tables,
    .n_tables = TR_ARRAY_LEN(save_tables),
    .rules = SRV_REQUIRED("\"name\",\"prompt\""),
};

const struct srv_route srv_snapshot_route = {
    .path = "/v1/snapshots/",
    .doc = "Restore, or delete, a saved prefix",
    .flags = SRV_ROUTE_PREFIX,
    .post = post_restore,
    .delete = delete_one,
    .tables = restore_tables,
    .n_tables = TR_ARRAY_LEN(restore_tables),
    .rules = SRV_REQUIRED(""),
};
