#include "server/api/stored.h"

#include <stdlib.h>
#include <string.h>

#include "server/http/keys.h"
#include "server/http/reply.h"
#include "server/server.h"

bool srv_stored_off(struct srv_req *req)
{
    if (req->srv->store)
        return false;
    srv_refuse(req, SRV_PROBLEM_PATH, NULL, "files and batches are off: batch_dir names no folder");
    return true;
}

struct srv_owner srv_stored_owner(const struct srv_req *req)
{
    struct srv_owner o = {.store = req->srv->store};
    memcpy(o.sha, req->key->sha, sizeof o.sha);
    return o;
}

int srv_stored_id(const char *tail, const char *prefix, const char *end, char ret[SRV_STORE_ID],
                  struct tr_err *err)
{
    size_t n = strlen(tail), k = strlen(end);
    if (n > k && n - k < SRV_STORE_ID && strcmp(tail + n - k, end) == 0) {
        memcpy(ret, tail, n - k);
        ret[n - k] = '\0';
        if (srv_store_is_id(ret, prefix))
            return 0;
    }
    return tr_err_set(err, TR_ENOTFOUND, NULL, "there is nothing of that name");
}

bool srv_stored_query(const struct srv_req *req, const char *name, char *ret, size_t room)
{
    size_t n = strlen(name);
    const char *at = strchr(req->uri, '?');
    for (; at; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, n) != 0 || at[n] != '=')
            continue;
        at += n + 1;
        size_t k = strcspn(at, "&#");
        if (k >= room)
            return false;
        memcpy(ret, at, k);
        ret[k] = '\0';
        return true;
    }
    return false;
}

static void add_id(struct tr_buf *out, const char *name, const char *id)
{
    if (id)
        tr_buf_addf(out, ",\"%s\":\"%s\"", name, id);
    else
        tr_buf_addf(out, ",\"%s\":null", name);
}

/* Adds the page of ids[0, n), the first of which comes first. */
static int add_page(struct srv_req *req, char (*ids)[SRV_STORE_ID], size_t n, size_t limit,
                    srv_stored_fn add, struct tr_err *err)
{
    struct tr_buf *out = &req->out;
    const char *first = NULL, *last = NULL;
    size_t i = 0, added = 0;
    tr_buf_adds(out, "{\"object\":\"list\",\"data\":[");
    for (; i < n && added < limit; i++) {
        struct tr_buf one = {0};
        int r = add(req, ids[i], &one, err);
        if (r == 0 && one.len > 0) {
            tr_buf_adds(out, added++ ? "," : "");
            tr_buf_add(out, one.data, one.len);
            first = first ? first : ids[i];
            last = ids[i];
        }
        tr_buf_done(&one);
        if (r < 0 && r != TR_ENOTFOUND) /* it may have been deleted meanwhile */
            return r;
    }
    tr_buf_addc(out, ']');
    add_id(out, "first_id", first);
    add_id(out, "last_id", last);
    tr_buf_addf(out, ",\"has_more\":%s}", i < n ? "true" : "false");
    return 0;
}

static void turn_round(char (*ids)[SRV_STORE_ID], size_t n)
{
    char id[SRV_STORE_ID];
    for (size_t i = 0; i < n / 2; i++) {
        memcpy(id, ids[i], sizeof id);
        memcpy(ids[i], ids[n - 1 - i], sizeof id);
        memcpy(ids[n - 1 - i], id, sizeof id);
    }
}

int srv_stored_list(struct srv_req *req, const char *prefix, long usual, long most,
                    srv_stored_fn add, struct tr_err *err)
{
    char text[SRV_STORE_ID], after[SRV_STORE_ID] = "";
    long limit = usual;
    char *end = text;
    if (srv_stored_query(req, "limit", text, sizeof text)) {
        limit = strtol(text, &end, 10);
        if (end == text || *end || limit < 1 || limit > most)
            return tr_err_set(err, TR_EINVAL, "limit", "limit: from 1 to %ld", most);
    }
    bool ascending = srv_stored_query(req, "order", text, sizeof text) && strcmp(text, "asc") == 0;
    if (srv_stored_query(req, "after", after, sizeof after) && !srv_store_is_id(after, prefix))
        return tr_err_set(err, TR_EINVAL, "after", "after: no id of this list");
    char(*ids)[SRV_STORE_ID];
    size_t n, from = 0;
    struct srv_owner o = srv_stored_owner(req);
    int r = srv_store_list(&o, prefix, &ids, &n, err);
    if (r < 0)
        return r;
    if (ascending)
        turn_round(ids, n);
    while (after[0] && from < n && (strcmp(ids[from], after) <= 0) != !ascending)
        from++;
    if (after[0] && from < n && strcmp(ids[from], after) == 0)
        from++;
    r = add_page(req, ids + from, n - from, (size_t)limit, add, err);
    free(ids);
    return r;
}
