#include "server/batch/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/json.h"

/* ---- one line ---- */

void srv_question_done(struct srv_question *q)
{
    free(q->id);
    free(q->url);
    tr_buf_done(&q->body);
    *q = (struct srv_question){0};
}

/* The endpoint of a body that stands alone; NULL = it is none. */
static const char *endpoint_of(const struct tr_json *body)
{
    static const char *const kinds[][2] = {{"messages", "/v1/chat/completions"},
                                           {"prompt", "/v1/completions"},
                                           {"input", "/v1/responses"}};
    for (size_t i = 0; i < TR_ARRAY_LEN(kinds); i++) {
        struct tr_json member = tr_json_get(body, kinds[i][0]);
        if (tr_json_given(&member))
            return kinds[i][1];
    }
    return NULL;
}

static int check_url(const struct tr_json *line, const char *url, struct tr_err *err)
{
    struct tr_json at = tr_json_get(line, "url");
    if (url[0] != '/')
        return tr_json_fail(&at, err, "a path, as /v1/chat/completions");
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return tr_json_fail(&at, err, "no blanks or control characters");
    return 0;
}

/* A line with method, url and body, or a body alone. */
static int take_object(const struct tr_json *line, const char **url, struct tr_json *body,
                       struct tr_err *err)
{
    const char *method = "POST";
    *body = tr_json_get(line, "body");
    if (!tr_json_given(body)) {
        *body = *line;
        *url = endpoint_of(line);
        return *url ? 0 : tr_json_fail(line, err, "neither a body nor messages, prompt or input");
    }
    *url = endpoint_of(body);
    int r = tr_json_expect(body, TR_JSON_OBJECT, err);
    if (r == 0)
        r = tr_json_opt_string(line, "url", url, NULL, err);
    if (r == 0)
        r = tr_json_opt_string(line, "method", &method, NULL, err);
    struct tr_json at = tr_json_get(line, *url ? "method" : "url");
    if (r == 0 && !*url)
        r = tr_json_fail(&at, err, "missing");
    if (r == 0 && strcmp(method, "POST") != 0)
        r = tr_json_fail(&at, err, "only POST");
    return r < 0 ? r : check_url(line, *url, err);
}

/* Questions want one document for an answer. */
static int check_stream(const struct tr_json *body, struct tr_err *err)
{
    bool stream = false;
    struct tr_json at = tr_json_get(body, "stream");
    int r = tr_json_opt_bool(body, "stream", &stream, err);
    return r < 0 || !stream ? r : tr_json_fail(&at, err, "a batch's answers are no streams");
}

/* id: the custom_id, unquoted, in a buffer of the caller's. */
static int take_line(struct json_t *doc, size_t number, struct tr_buf *id, struct srv_question *q,
                     struct tr_err *err)
{
    struct tr_json line = tr_json_root(doc, NULL), body = line;
    const char *url = "/v1/completions", *custom = NULL;
    size_t n = 0;
    bool text = tr_json_type(&line) == TR_JSON_STRING;
    int r = text ? 0 : tr_json_expect(&line, TR_JSON_OBJECT, err);
    if (r == 0 && !text)
        r = tr_json_opt_string(&line, "custom_id", &custom, &n, err);
    if (r == 0 && !text)
        r = take_object(&line, &url, &body, err);
    if (r == 0 && !text)
        r = check_stream(&body, err);
    if (r < 0)
        return r;
    if (custom)
        tr_buf_add(id, custom, n);
    else
        tr_buf_addf(id, "line-%zu", number);
    struct tr_buf quoted = {0};
    tr_json_quote(&quoted, id->data ? id->data : "", id->len);
    q->id = quoted.data;
    q->url = strdup(url);
    tr_buf_adds(&q->body, text ? "{\"prompt\":" : "");
    tr_json_write(&q->body, &body);
    tr_buf_adds(&q->body, text ? "}" : "");
    if (id->oom || quoted.oom || !q->url || q->body.oom)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    return 0;
}

static int parse_line(const char *bytes, size_t n, size_t number, struct tr_buf *id,
                      struct srv_question *q, struct tr_err *err)
{
    struct json_t *doc;
    int r = tr_json_parse(&doc, bytes, n, err);
    if (r < 0)
        return r;
    r = take_line(doc, number, id, q, err);
    tr_json_free(doc);
    return r;
}

int srv_batch_input_read(const struct srv_batch_input *in, size_t i, struct srv_question *ret,
                         struct tr_err *err)
{
    const struct srv_batch_line *line = &in->lines[i];
    struct tr_buf text = {0}, id = {0};
    char *at = tr_buf_reserve(&text, line->bytes);
    *ret = (struct srv_question){0};
    if (!at)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int r = 0;
    while (text.len < line->bytes && r == 0) {
        ssize_t got =
            pread(in->fd, at + text.len, line->bytes - text.len, (off_t)(line->begin + text.len));
        if (got > 0)
            text.len += (size_t)got;
        else if (got == 0 || errno != EINTR)
            r = tr_err_set(err, TR_EIO, NULL, "line %zu cannot be read any more", line->number);
    }
    if (r == 0)
        r = parse_line(text.data, text.len, line->number, &id, ret, err);
    if (r < 0)
        srv_question_done(ret);
    tr_buf_done(&text);
    tr_buf_done(&id);
    return r;
}

/* ---- the file ---- */

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i]) || !s[i])
            return false;
    return true;
}

static int add_line(struct srv_batch_input *in, size_t *cap, const struct srv_batch_line *line,
                    struct tr_err *err)
{
    if (in->n == *cap) {
        size_t more = *cap ? 2 * *cap : 1024;
        void *grown = realloc(in->lines, more * sizeof *in->lines);
        if (!grown)
            return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        in->lines = grown;
        *cap = more;
    }
    in->lines[in->n++] = *line;
    return 0;
}

/* One more that the list may have room for; true: reading goes on. */
static bool add_fault(struct srv_batch_faults *faults, size_t line, const struct tr_err *why)
{
    if (!faults || why->code == TR_ENOMEM)
        return false;
    if (faults->n < SRV_BATCH_FAULTS) {
        faults->items[faults->n].line = line;
        faults->items[faults->n++].err = *why;
    }
    return faults->n < SRV_BATCH_FAULTS;
}

/* What a client's file may not have beside what no line may. */
static int check_sent(const struct srv_batch_faults *faults, const struct srv_question *q,
                      size_t n_lines, struct tr_err *err)
{
    if (faults && strcmp(q->url, faults->endpoint) != 0)
        return tr_err_set(err, TR_EINVAL, "url", "url: not the endpoint of the batch, %s",
                          faults->endpoint);
    if (faults && n_lines == SRV_BATCH_LINES)
        return tr_err_set(err, TR_EINVAL, NULL, "more than %d lines", SRV_BATCH_LINES);
    return 0;
}

static int read_lines(struct srv_batch_input *in, FILE *f, const char *path,
                      struct srv_batch_faults *faults, struct tr_err *err)
{
    char *text = NULL;
    size_t room = 0, cap = 0;
    uint64_t at = 0;
    int r = 0;
    struct tr_buf id = {0};
    ssize_t got;
    for (size_t number = 1; r == 0 && (got = getline(&text, &room, f)) > 0; number++) {
        struct srv_batch_line line = {.begin = at, .bytes = (size_t)got, .number = number};
        struct srv_question q = {0};
        struct tr_err why;
        at += (uint64_t)got;
        if (is_blank(text, (size_t)got))
            continue;
        tr_buf_clear(&id);
        r = parse_line(text, (size_t)got, number, &id, &q, &why);
        if (r == 0)
            r = check_sent(faults, &q, in->n, &why);
        srv_question_done(&q);
        if (r < 0) {
            tr_err_set(err, r, NULL, "%s: line %zu: %s", path, number, why.msg);
            if (!add_fault(faults, number, &why) || in->n == SRV_BATCH_LINES)
                break;
            r = 0;
            continue;
        }
        line.id = tr_hash(id.data ? id.data : "", id.len);
        r = add_line(in, &cap, &line, err);
    }
    if (r == 0 && ferror(f))
        r = tr_err_set(err, TR_EIO, NULL, "%s: %s", path, strerror(errno));
    free(text);
    tr_buf_done(&id);
    return r;
}

static int compare_hashes(struct tr_hash a, struct tr_hash b)
{
    if (a.hi != b.hi)
        return a.hi < b.hi ? -1 : 1;
    return a.lo < b.lo ? -1 : a.lo > b.lo;
}

static int by_hash(const void *a, const void *b, void *arg)
{
    const struct srv_batch_line *lines = arg;
    const size_t *i = a, *j = b;
    int c = compare_hashes(lines[*i].id, lines[*j].id);
    return c ? c : *i < *j ? -1 : 1;
}

static int sort_ids(struct srv_batch_input *in, const char *path, struct srv_batch_faults *faults,
                    struct tr_err *err)
{
    in->by_id = calloc(in->n + 1, sizeof *in->by_id);
    if (!in->by_id)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (size_t i = 0; i < in->n; i++)
        in->by_id[i] = i;
    qsort_r(in->by_id, in->n, sizeof *in->by_id, by_hash, in->lines);
    for (size_t i = 1; i < in->n; i++) {
        const struct srv_batch_line *a = &in->lines[in->by_id[i - 1]];
        const struct srv_batch_line *b = &in->lines[in->by_id[i]];
        struct tr_err why;
        if (!tr_hash_equal(a->id, b->id))
            continue;
        tr_err_set(err, TR_EFORMAT, "custom_id", "%s: line %zu: the same custom_id as in line %zu",
                   path, b->number, a->number);
        tr_err_set(&why, TR_EFORMAT, "custom_id", "custom_id: the same as in line %zu", a->number);
        if (!add_fault(faults, b->number, &why))
            return TR_EFORMAT;
    }
    return faults && faults->n > 0 ? TR_EFORMAT : 0;
}

size_t srv_batch_input_find(const struct srv_batch_input *in, const char *id, size_t n)
{
    struct tr_hash want = tr_hash(id, n);
    size_t low = 0, high = in->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = compare_hashes(in->lines[in->by_id[mid]].id, want);
        if (c == 0)
            return in->by_id[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return in->n;
}

int srv_batch_input_open(struct srv_batch_input *ret, const char *path,
                         struct srv_batch_faults *faults, struct tr_err *err)
{
    struct srv_batch_input in = {.fd = -1};
    FILE *f = fopen(path, "re");
    if (!f)
        return tr_err_set(err, TR_EIO, NULL, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fileno(f), &st) < 0 ||
        !S_ISREG(st.st_mode)) { /* lines are read again, in any order */
        fclose(f);
        return tr_err_set(err, TR_EIO, NULL, "%s: not a regular file", path);
    }
    int r = read_lines(&in, f, path, faults, err);
    if (r == 0)
        r = sort_ids(&in, path, faults, err);
    if (r == 0 && (in.fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 0)) < 0)
        r = tr_err_set(err, TR_EIO, NULL, "%s: %s", path, strerror(errno));
    fclose(f);
    if (r < 0)
        srv_batch_input_done(&in);
    else
        *ret = in;
    return r;
}

void srv_batch_input_done(struct srv_batch_input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    free(in->lines);
    free(in->by_id);
    *in = (struct srv_batch_input){.fd = -1};
}
