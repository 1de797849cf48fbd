#include "server/batch/record.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config/json.h"

static const char *const names[] = {"validating", "in_progress", "finalizing", "completed",
                                    "failed",     "expired",     "cancelling", "cancelled"};
/* The member with the time of each. */
static const char *const times[] = {"created_at",    "in_progress_at", "finalizing_at",
                                    "completed_at",  "failed_at",      "expired_at",
                                    "cancelling_at", "cancelled_at"};

bool srv_record_over(const struct srv_record *b)
{
    return b->status == SRV_BATCH_COMPLETED || b->status == SRV_BATCH_FAILED ||
           b->status == SRV_BATCH_EXPIRED || b->status == SRV_BATCH_CANCELLED;
}

const char *srv_record_status(const struct srv_record *b)
{
    return names[b->status];
}

void srv_record_set(struct srv_record *b, enum srv_batch_status status)
{
    b->status = status;
    b->at[status] = (int64_t)time(NULL);
}

void srv_record_fault(struct srv_record *b, const char *code, size_t line, const struct tr_err *e)
{
    struct tr_buf *out = &b->errors;
    tr_buf_addf(out, "%s{\"object\":\"error\",\"code\":\"%s\",\"message\":", out->len ? "," : "",
                code);
    tr_json_quote(out, e->msg, strlen(e->msg));
    tr_buf_adds(out, ",\"param\":");
    if (e->param[0])
        tr_json_quote(out, e->param, strlen(e->param));
    else
        tr_buf_adds(out, "null");
    if (line)
        tr_buf_addf(out, ",\"line\":%zu}", line);
    else
        tr_buf_adds(out, ",\"line\":null}");
}

static void add_id(struct tr_buf *out, const char *name, const char *id)
{
    if (id[0])
        tr_buf_addf(out, "\"%s\":\"%s\",", name, id);
    else
        tr_buf_addf(out, "\"%s\":null,", name);
}

void srv_record_write(const struct srv_record *b, struct tr_buf *out)
{
    tr_buf_addf(out, "{\"id\":\"%s\",\"object\":\"batch\",\"endpoint\":\"%s\",", b->id,
                b->endpoint);
    if (b->errors.len)
        tr_buf_addf(out, "\"errors\":{\"object\":\"list\",\"data\":[%s]},", b->errors.data);
    else
        tr_buf_adds(out, "\"errors\":null,");
    tr_buf_addf(out, "\"input_file_id\":\"%s\",\"completion_window\":\"%s\",\"status\":\"%s\",",
                b->input, b->window, names[b->status]);
    add_id(out, "output_file_id", b->output);
    add_id(out, "error_file_id", b->error);
    for (int i = 0; i < SRV_N_BATCH_STATUSES; i++)
        if (b->at[i])
            tr_buf_addf(out, "\"%s\":%lld,", times[i], (long long)b->at[i]);
        else
            tr_buf_addf(out, "\"%s\":null,", times[i]);
    tr_buf_addf(out,
                "\"expires_at\":%lld,\"request_counts\":{\"total\":%lld,\"completed\":%lld,"
                "\"failed\":%lld},\"metadata\":%s}",
                (long long)b->expires, (long long)b->total, (long long)b->completed,
                (long long)b->failed, b->metadata.len ? b->metadata.data : "null");
    out->oom |= b->errors.oom || b->metadata.oom;
}

static int take_text(const struct tr_json *root, const char *name, char *ret, size_t room,
                     struct tr_err *err)
{
    const char *text = "";
    int r = tr_json_opt_string(root, name, &text, NULL, err);
    if (r == 0)
        snprintf(ret, room, "%s", text);
    return r;
}

static int take_errors(struct srv_record *b, const struct tr_json *root)
{
    struct tr_json errors = tr_json_get(root, "errors"), data = tr_json_get(&errors, "data");
    for (size_t i = 0; i < tr_json_size(&data); i++) {
        struct tr_json item = tr_json_at(&data, i);
        tr_buf_adds(&b->errors, i ? "," : "");
        tr_json_write(&b->errors, &item);
    }
    struct tr_json metadata = tr_json_get(root, "metadata");
    if (tr_json_given(&metadata))
        tr_json_write(&b->metadata, &metadata);
    return b->errors.oom || b->metadata.oom ? TR_ENOMEM : 0;
}

static int take(struct srv_record *b, const struct tr_json *root, struct tr_err *err)
{
    const struct {
        const char *name;
        char *to;
        size_t room;
    } texts[] = {{"id", b->id, sizeof b->id},
                 {"input_file_id", b->input, sizeof b->input},
                 {"output_file_id", b->output, sizeof b->output},
                 {"error_file_id", b->error, sizeof b->error},
                 {"endpoint", b->endpoint, sizeof b->endpoint},
                 {"completion_window", b->window, sizeof b->window}};
    const char *status = "";
    int r = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(texts) && r == 0; i++)
        r = take_text(root, texts[i].name, texts[i].to, texts[i].room, err);
    for (int i = 0; i < SRV_N_BATCH_STATUSES && r == 0; i++)
        r = tr_json_opt_int(root, times[i], 0, INT64_MAX, &b->at[i], err);
    if (r == 0)
        r = tr_json_int(root, "expires_at", 0, INT64_MAX, &b->expires, err);
    struct tr_json counts = tr_json_get(root, "request_counts");
    if (r == 0)
        r = tr_json_int(&counts, "total", 0, INT64_MAX, &b->total, err);
    if (r == 0)
        r = tr_json_int(&counts, "completed", 0, INT64_MAX, &b->completed, err);
    if (r == 0)
        r = tr_json_int(&counts, "failed", 0, INT64_MAX, &b->failed, err);
    if (r == 0)
        r = tr_json_string(root, "status", &status, NULL, err);
    int i = 0;
    while (i < SRV_N_BATCH_STATUSES && strcmp(names[i], status) != 0)
        i++;
    if (r == 0 && i == SRV_N_BATCH_STATUSES)
        r = tr_err_set(err, TR_EFORMAT, NULL, "a record of no known status");
    b->status = (enum srv_batch_status)TR_MIN(i, SRV_N_BATCH_STATUSES - 1);
    return r < 0 ? r : take_errors(b, root);
}

int srv_record_load(struct srv_record *ret, const struct srv_owner *o, const char *id,
                    struct tr_err *err)
{
    struct tr_buf text = {0};
    struct json_t *doc = NULL;
    *ret = (struct srv_record){0};
    int r = srv_store_read(o, id, &text, err);
    if (r == 0)
        r = tr_json_parse(&doc, text.data, text.len, err);
    if (r == 0) {
        struct tr_json root = tr_json_root(doc, NULL);
        r = take(ret, &root, err);
    }
    tr_json_free(doc);
    tr_buf_done(&text);
    if (r < 0)
        srv_record_done(ret);
    return r < 0 && r != TR_ENOTFOUND && err ? err->code = TR_EINTERNAL : r;
}

int srv_record_save(const struct srv_record *b, const struct srv_owner *o, struct tr_err *err)
{
    struct tr_buf text = {0};
    srv_record_write(b, &text);
    int r = srv_store_write(o, b->id, &text, err);
    tr_buf_done(&text);
    return r;
}

void srv_record_done(struct srv_record *b)
{
    tr_buf_done(&b->metadata);
    tr_buf_done(&b->errors);
}
