#include "server/batch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/json.h"

/* Bytes that locks are put on: no file is so long. */
#define APPENDING   ((off_t)1 << 60)
#define WRITERS     (APPENDING + 1)
#define CLAIM(line) (APPENDING + 2 + (off_t)(line))

enum { PIECE = 1 << 20 };

static int set_lock(int fd, short type, off_t at, bool wait)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int r;
    do
        r = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
    while (r < 0 && errno == EINTR);
    return r;
}

static bool is_good(const struct tr_json *line)
{
    int64_t status = 0;
    struct tr_json response = tr_json_get(line, "response");
    return tr_json_opt_int(&response, "status_code", 0, 999, &status, NULL) == 0 && status == 200;
}

bool srv_batch_line_good(const char *line, size_t n)
{
    struct json_t *doc;
    if (tr_json_parse(&doc, line, n, NULL) < 0)
        return false;
    struct tr_json root = tr_json_root(doc, NULL);
    bool good = is_good(&root);
    tr_json_free(doc);
    return good;
}

static void mark(struct srv_batch_output *out, const char *line, size_t n)
{
    struct json_t *doc;
    const char *id;
    size_t id_bytes;
    if (tr_json_parse(&doc, line, n, NULL) < 0)
        return;
    struct tr_json root = tr_json_root(doc, NULL);
    if (tr_json_string(&root, "custom_id", &id, &id_bytes, NULL) == 0) {
        size_t i = srv_batch_input_find(out->in, id, id_bytes);
        if (i < out->in->n && !out->done[i]) {
            out->done[i] = true;
            out->n_done++;
            out->n_bad += !is_good(&root);
        }
    }
    tr_json_free(doc);
}

int srv_batch_output_look(struct srv_batch_output *out, struct tr_err *err)
{
    struct tr_buf text = {0};
    off_t at = out->seen;
    int r = 0;
    for (;;) {
        char *to = tr_buf_reserve(&text, PIECE);
        ssize_t got = to ? pread(out->fd, to, PIECE, at) : -1;
        if (got < 0 && to && errno == EINTR)
            continue;
        if (got < 0)
            r = tr_err_set(err, to ? TR_EIO : TR_ENOMEM, NULL, "the output cannot be read");
        if (got <= 0)
            break;
        text.len += (size_t)got;
        at += got;
        size_t begin = 0;
        for (char *end; (end = memchr(text.data + begin, '\n', text.len - begin));) {
            size_t n = (size_t)(end - (text.data + begin));
            mark(out, text.data + begin, n);
            begin += n + 1;
        }
        out->seen += (off_t)begin;
        tr_buf_drop(&text, begin);
    }
    tr_buf_done(&text);
    return r;
}

bool srv_batch_output_claim(struct srv_batch_output *out, size_t i)
{
    return !out->done[i] && set_lock(out->fd, F_WRLCK, CLAIM(i), false) == 0;
}

void srv_batch_output_release(struct srv_batch_output *out, size_t i)
{
    set_lock(out->fd, F_UNLCK, CLAIM(i), false);
}

/* The end of the last whole line: whoever was writing behind it is dead. */
static off_t whole_end(int fd)
{
    struct stat st;
    char piece[4096];
    if (fstat(fd, &st) < 0)
        return -1;
    for (off_t end = st.st_size; end > 0;) {
        size_t n = (size_t)TR_MIN(end, (off_t)sizeof piece);
        if (pread(fd, piece, n, end - (off_t)n) != (ssize_t)n)
            return -1;
        const char *last = memrchr(piece, '\n', n);
        if (last)
            return end - (off_t)n + (last - piece) + 1;
        end -= (off_t)n;
    }
    return 0;
}

static int append(int fd, const struct tr_buf *line)
{
    off_t begin = whole_end(fd);
    if (begin < 0 || ftruncate(fd, begin) < 0)
        return -1;
    for (size_t n = 0; n < line->len;) {
        ssize_t put = pwrite(fd, line->data + n, line->len - n, begin + (off_t)n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int e = errno;
            (void)!ftruncate(fd, begin);
            errno = e;
            return -1;
        }
        n += (size_t)put;
    }
    return 0;
}

int srv_batch_output_add(struct srv_batch_output *out, const struct tr_buf *line,
                         struct tr_err *err)
{
    int r = set_lock(out->fd, F_WRLCK, APPENDING, true);
    if (r == 0)
        r = append(out->fd, line);
    if (r < 0)
        tr_err_set(err, TR_EIO, NULL, "the output cannot be written: %s", strerror(errno));
    set_lock(out->fd, F_UNLCK, APPENDING, false);
    return r < 0 ? TR_EIO : 0;
}

int srv_batch_output_open(struct srv_batch_output *ret, const struct srv_batch_input *in,
                          const char *path, bool alone, struct tr_err *err)
{
    struct srv_batch_output out = {.in = in, .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    struct stat st, from;
    int r = 0;
    if (out.fd < 0 || fstat(out.fd, &st) < 0)
        r = tr_err_set(err, TR_EIO, NULL, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        r = tr_err_set(err, TR_EIO, NULL, "%s: not a regular file", path);
    else if (fstat(in->fd, &from) == 0 && from.st_ino == st.st_ino && from.st_dev == st.st_dev)
        r = tr_err_set(err, TR_EIO, NULL, "%s: the questions stand in it", path);
    else if (set_lock(out.fd, alone ? F_WRLCK : F_RDLCK, WRITERS, false) < 0)
        r = tr_err_set(err, TR_EIO, NULL, "%s: %s", path,
                       alone ? "another process writes it: the order cannot be kept"
                             : "another process keeps its lines in order: it writes alone");
    out.done = calloc(in->n + 1, sizeof *out.done);
    if (r == 0 && !out.done) {
        tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        r = TR_ENOMEM;
    }
    if (r == 0)
        r = srv_batch_output_look(&out, err);
    if (r < 0)
        srv_batch_output_done(&out);
    else
        *ret = out;
    return r;
}

void srv_batch_output_done(struct srv_batch_output *out)
{
    if (out->fd >= 0)
        close(out->fd);
    free(out->done);
    *out = (struct srv_batch_output){.fd = -1};
}
