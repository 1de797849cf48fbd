#include "server/api/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/json.h"
#include "server/api/schema.h"
#include "server/api/stored.h"
#include "server/http/exchange.h"
#include "server/http/multipart.h"
#include "server/http/reply.h"
#include "server/http/route.h"
#include "server/http/task.h"
#include "server/http/work.h"
#include "server/server.h"

enum { PIECE = 256 * 1024, PURPOSE = 32, MAX_LISTED = 10000 };

/* ---- a file comes ---- */

enum form_field { FIELD_NONE, FIELD_OTHER, FIELD_PURPOSE, FIELD_FILE };

/* The request's until it is freed; what works on it holds a reference to that. */
struct srv_upload {
    struct srv_req *req;
    struct srv_owner owner;
    uint64_t most;
    char id[SRV_STORE_ID];
    int fd; /* of its data, -1 = none */
    uint64_t bytes;
    bool kept; /* it has become a file */
    struct srv_multipart form;
    enum form_field field;
    bool has_file;
    char purpose[PURPOSE], name[SRV_PART_FILE + 1];
    int result;
    struct tr_err err;
    struct srv_work work;
};

static int on_part(void *arg, const struct srv_part_head *head, struct tr_err *err)
{
    struct srv_upload *u = arg;
    u->field = FIELD_OTHER;
    if (strcmp(head->name, "purpose") == 0)
        u->field = FIELD_PURPOSE;
    if (strcmp(head->name, "file") != 0)
        return 0;
    if (u->has_file)
        return tr_err_set(err, TR_EINVAL, "file", "file: one at a time");
    u->field = FIELD_FILE;
    u->has_file = true;
    strcpy(u->name, head->file[0] ? head->file : "file");
    u->fd = srv_store_file(&u->owner, u->id, "data", O_WRONLY | O_CREAT | O_EXCL);
    return u->fd >= 0 ? 0
                      : tr_err_set(err, errno == ENOSPC ? TR_EFULL : TR_EIO, NULL,
                                   "the file cannot be written: %s", strerror(errno));
}

static int add_bytes(struct srv_upload *u, const char *bytes, size_t n, struct tr_err *err)
{
    if (u->bytes + n > u->most)
        return tr_err_set(err, TR_EINVAL, "file", "file: larger than %llu bytes (max_file)",
                          (unsigned long long)u->most);
    int r = srv_store_take(u->owner.store, n, err);
    if (r < 0)
        return r;
    r = srv_store_put(u->fd, bytes, n, err);
    if (r == 0) {
        u->bytes += n;
        return 0;
    }
    srv_store_give(u->owner.store, n);
    (void)!ftruncate(u->fd, (off_t)u->bytes);
    return r;
}

static int on_data(void *arg, const char *bytes, size_t n, struct tr_err *err)
{
    struct srv_upload *u = arg;
    size_t had = strlen(u->purpose);
    if (u->field == FIELD_FILE)
        return add_bytes(u, bytes, n, err);
    if (u->field != FIELD_PURPOSE)
        return 0;
    if (had + n >= sizeof u->purpose || memchr(bytes, '\0', n))
        return tr_err_set(err, TR_EINVAL, "purpose", "purpose: only batch");
    memcpy(u->purpose + had, bytes, n);
    return 0;
}

/* On a worker: the folder, and whether there is a place for one more. */
static int begin(struct srv_upload *u, struct tr_err *err)
{
    char(*ids)[SRV_STORE_ID] = NULL;
    size_t n = 0;
    if (u->id[0])
        return 0;
    srv_store_new_id(u->id, SRV_STORE_FILE);
    int r = srv_multipart_init(&u->form, u->req->media, err);
    u->form.part = on_part;
    u->form.data = on_data;
    u->form.arg = u;
    if (r == 0)
        r = srv_store_list(&u->owner, SRV_STORE_FILE, &ids, &n, err);
    if (r < 0)
        return r;
    free(ids);
    return n < SRV_STORE_OBJECTS
               ? 0
               : tr_err_set(err, TR_EFULL, NULL, "a key has at most %d files", SRV_STORE_OBJECTS);
}

static int take(struct srv_upload *u, struct tr_err *err)
{
    int r = begin(u, err);
    return r < 0 ? r : srv_multipart_take(&u->form, u->req->body.data, u->req->body.len, err);
}

static void on_piece(struct srv_work *work)
{
    struct srv_upload *u = TR_CONTAINER_OF(work, struct srv_upload, work);
    u->result = take(u, &u->err);
}

static void on_piece_taken(struct srv_work *work)
{
    struct srv_upload *u = TR_CONTAINER_OF(work, struct srv_upload, work);
    struct srv_req *req = u->req;
    srv_exchange_taken(req, u->result < 0 ? &u->err : NULL);
    srv_req_unref(req);
}

/* The request's upload, which is made; NULL: no memory. */
static struct srv_upload *upload_of(struct srv_req *req)
{
    if (req->upload)
        return req->upload;
    struct srv_upload *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->req = req;
    u->fd = -1;
    u->owner = srv_stored_owner(req);
    u->most = req->srv->options->max_file;
    u->work.srv = req->srv;
    req->upload = u;
    return u;
}

static void take_piece(struct srv_req *req)
{
    struct tr_err err;
    struct srv_upload *u = req->srv->store ? upload_of(req) : NULL;
    if (u) {
        u->work.run = on_piece;
        u->work.done = on_piece_taken;
        u->work.bytes = req->body.len;
        u->result = tr_err_set(&u->err, TR_EDRAIN, NULL, "the daemon is shutting down");
        if (srv_work_again(&u->work)) {
            req->refs++;
            return;
        }
    }
    if (req->srv->store)
        tr_err_set(&err, TR_ENOMEM, NULL, "out of memory");
    else
        tr_err_set(&err, TR_ENOTFOUND, NULL,
                   "files and batches are off: batch_dir names no folder");
    srv_exchange_taken(req, &err);
}

static void on_drop(struct srv_work *work)
{
    struct srv_upload *u = TR_CONTAINER_OF(work, struct srv_upload, work);
    if (u->fd >= 0)
        close(u->fd);
    if (u->id[0] && !u->kept)
        srv_store_remove(&u->owner, u->id, NULL);
}

static void on_dropped(struct srv_work *work)
{
    struct srv_upload *u = TR_CONTAINER_OF(work, struct srv_upload, work);
    srv_multipart_done(&u->form);
    free(u);
}

/* The request is no more. */
static void drop(struct srv_req *req)
{
    struct srv_upload *u = req->upload;
    u->req = NULL;
    u->work.run = on_drop;
    u->work.done = on_dropped;
    if (srv_work_again(&u->work))
        return;
    on_drop(&u->work);
    on_dropped(&u->work);
}

/* On a worker: the last piece, and what has become of it all. */
static int finish(struct srv_req *req, struct tr_err *err)
{
    struct srv_upload *u = req->upload;
    int r = take(u, err);
    if (r == 0)
        r = srv_multipart_end(&u->form, err);
    if (r == 0 && !u->has_file)
        r = tr_err_set(err, TR_EINVAL, "file", "file: missing");
    if (r == 0 && strcmp(u->purpose, "batch") != 0)
        r = tr_err_set(err, TR_EINVAL, "purpose", "purpose: only batch");
    if (r == 0 && fdatasync(u->fd) < 0)
        r = tr_err_set(err, TR_EFULL, NULL, "the file cannot be written: %s", strerror(errno));
    if (r == 0)
        r = srv_store_add_file(&u->owner, u->id, u->bytes, u->name, strlen(u->name), u->purpose,
                               err);
    u->kept = r == 0;
    return r < 0 ? r : srv_store_read(&u->owner, u->id, &req->out, err);
}

static void post_file(struct srv_req *req)
{
    if (srv_stored_off(req))
        return;
    if (upload_of(req))
        srv_task_run_aside(req, finish);
    else
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
}

/* ---- what is there ---- */

/* Of the purpose that the query names, if it does. */
static int add_file(struct srv_req *req, const char *id, struct tr_buf *out, struct tr_err *err)
{
    char wanted[PURPOSE];
    const char *purpose = "";
    struct json_t *doc;
    struct srv_owner o = srv_stored_owner(req);
    int r = srv_store_read(&o, id, out, err);
    if (r < 0 || !srv_stored_query(req, "purpose", wanted, sizeof wanted))
        return r;
    r = tr_json_parse(&doc, out->data, out->len, err);
    if (r < 0)
        return r;
    struct tr_json root = tr_json_root(doc, NULL);
    r = tr_json_opt_string(&root, "purpose", &purpose, NULL, err);
    if (r == 0 && strcmp(purpose, wanted) != 0)
        tr_buf_clear(out);
    tr_json_free(doc);
    return r;
}

static int list(struct srv_req *req, struct tr_err *err)
{
    return srv_stored_list(req, SRV_STORE_FILE, MAX_LISTED, MAX_LISTED, add_file, err);
}

static void get_list(struct srv_req *req)
{
    if (!srv_stored_off(req))
        srv_task_run_aside(req, list);
}

static int show(struct srv_req *req, struct tr_err *err)
{
    char id[SRV_STORE_ID];
    struct srv_owner o = srv_stored_owner(req);
    int r = srv_stored_id(req->tail, SRV_STORE_FILE, "", id, err);
    return r < 0 ? r : srv_store_read(&o, id, &req->out, err);
}

static int remove_one(struct srv_req *req, struct tr_err *err)
{
    char id[SRV_STORE_ID];
    struct srv_owner o = srv_stored_owner(req);
    int r = srv_stored_id(req->tail, SRV_STORE_FILE, "", id, err);
    if (r < 0)
        return r;
    if (!srv_store_remove(&o, id, NULL))
        return tr_err_set(err, TR_ENOTFOUND, NULL, "there is no %s", id);
    tr_buf_addf(&req->out, "{\"id\":\"%s\",\"object\":\"file\",\"deleted\":true}", id);
    return 0;
}

static void delete_one(struct srv_req *req)
{
    if (!srv_stored_off(req))
        srv_task_run_aside(req, remove_one);
}

/* ---- its content ---- */

struct file_reader {
    struct srv_req *req; /* a reference */
    struct srv_owner owner;
    char id[SRV_STORE_ID];
    int fd;
    uint64_t size, left;
    struct tr_buf piece;
    bool begun, waits, dead;
    int result;
    struct tr_err err;
    struct srv_work work;
};

static void free_reader(struct file_reader *d)
{
    if (d->fd >= 0)
        close(d->fd);
    tr_buf_done(&d->piece);
    srv_req_unref(d->req);
    free(d);
}

static void on_read(struct srv_work *work)
{
    struct file_reader *d = TR_CONTAINER_OF(work, struct file_reader, work);
    struct stat st;
    if (d->fd < 0) {
        d->fd = srv_store_file(&d->owner, d->id, "data", O_RDONLY);
        if (d->fd < 0 || fstat(d->fd, &st) < 0) {
            d->result = tr_err_set(&d->err, TR_ENOTFOUND, NULL, "there is no %s", d->id);
            return;
        }
        d->size = d->left = (uint64_t)st.st_size;
    }
    d->result = 0;
    char *at = tr_buf_reserve(&d->piece, PIECE);
    ssize_t got = at && d->left > 0 ? read(d->fd, at, TR_MIN(d->left, (uint64_t)PIECE)) : 0;
    if (!at || got < 0 || (got == 0 && d->left > 0))
        d->result = tr_err_set(&d->err, TR_EIO, NULL, "the file cannot be read");
    else
        d->piece.len = (size_t)got;
}

static void read_more(struct file_reader *d)
{
    d->waits = false;
    if (srv_work_again(&d->work))
        return;
    srv_stream_end(d->req, true);
    free_reader(d);
}

static void on_was_read(struct srv_work *work)
{
    struct file_reader *d = TR_CONTAINER_OF(work, struct file_reader, work);
    struct srv_req *req = d->req;
    if (!d->dead && d->result < 0 && !d->begun)
        srv_refuse_err(req, &d->err);
    else if (!d->dead && d->result < 0)
        srv_stream_end(req, true);
    if (d->dead || d->result < 0) {
        free_reader(d);
        return;
    }
    tr_buf_add(&req->out, d->piece.data, d->piece.len);
    d->left -= d->piece.len;
    tr_buf_clear(&d->piece);
    if (!d->begun)
        srv_pieces_begin(req, d->size, "application/octet-stream");
    d->begun = true;
    srv_stream_flush(req);
    d->waits = true;
    if (d->left == 0) {
        srv_stream_end(req, false);
        free_reader(d);
    } else if (!srv_stream_full(req)) {
        read_more(d);
    }
}

static void on_proceed(struct srv_req *req)
{
    struct file_reader *d = req->owner;
    if (d->waits)
        read_more(d);
}

static void on_stop(struct srv_req *req)
{
    struct file_reader *d = req->owner;
    d->dead = true;
    if (!d->work.aside)
        free_reader(d);
}

static const struct srv_generator generator = {on_proceed, on_stop};

static void get_content(struct srv_req *req, const char *id)
{
    struct file_reader *d = calloc(1, sizeof *d);
    if (!d) {
        srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
        return;
    }
    d->req = req;
    d->owner = srv_stored_owner(req);
    memcpy(d->id, id, sizeof d->id);
    d->fd = -1;
    d->result = tr_err_set(&d->err, TR_EDRAIN, NULL, "the daemon is shutting down");
    d->work.srv = req->srv;
    d->work.run = on_read;
    d->work.done = on_was_read;
    srv_later(req, &generator, d);
    if (srv_work_again(&d->work))
        return;
    srv_refuse(req, SRV_PROBLEM_MEMORY, NULL, "out of memory");
    free_reader(d);
}

static void get_one(struct srv_req *req)
{
    char id[SRV_STORE_ID];
    if (srv_stored_off(req))
        return;
    if (srv_stored_id(req->tail, SRV_STORE_FILE, "/content", id, NULL) == 0)
        get_content(req, id);
    else
        srv_task_run_aside(req, show);
}

#define FILE_OBJECT                                                                                \
    SRV_OBJECT("\"id\",\"object\",\"bytes\",\"created_at\",\"filename\",\"purpose\",\"status\"",   \
               "\"id\":{\"type\":\"string\"},\"object\":{\"const\":\"file\"},"                     \
               "\"bytes\":{\"type\":\"integer\"},\"created_at\":{\"type\":\"integer\"},"           \
               "\"filename\":{\"type\":\"string\"},\"purpose\":{\"type\":\"string\"},"             \
               "\"status\":{\"type\":\"string\"}")

const struct srv_route srv_files_route = {
    .path = "/v1/files",
    .doc = "Files of questions and answers; send one (multipart/form-data: purpose, file)",
    .get = get_list,
    .post = post_file,
    .piece = take_piece,
    .dropped = drop,
    .rules = SRV_REQUIRED("\"purpose\",\"file\""),
    .answer = "{\"anyOf\":[" FILE_OBJECT "," SRV_STORED_LIST(FILE_OBJECT) "]}",
};

const struct srv_route srv_file_route = {
    .path = "/v1/files/",
    .doc = "A file, or its content (ID/content)",
    .flags = SRV_ROUTE_PREFIX,
    .get = get_one,
    .delete = delete_one,
};
