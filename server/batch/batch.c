#include "server/batch/batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/clock.h"
#include "config/json.h"

enum {
    SHOW_MS = 200,   /* between two reports of progress */
    AGAIN_MS = 100,  /* a line that another process asks */
    RETRY_MS = 1000, /* at most, of what a busy daemon says */
    AHEAD = 4        /* in order: so many times the width may wait for one that is slow */
};

struct batch_run {
    const struct srv_batch *b;
    pthread_mutex_t mutex; /* guards all below, and b->out */
    bool *asking;          /* [n]: in the hands of a thread here */
    struct tr_buf *kept;   /* [n] in order: answers that wait for earlier ones */
    size_t next, head;     /* to be looked at; in order: the first that is not written */
    size_t n_asking;
    int n_running; /* threads */
    struct srv_batch_progress progress;
    struct tr_err err;
};

static void sleep_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* ---- what to ask next: under the mutex ---- */

static bool is_over(const struct batch_run *r)
{
    return r->err.code || *r->b->stop;
}

/* Passes what is written; in order, so is what was answered by an earlier run. */
static void move_head(struct batch_run *r)
{
    struct srv_batch_output *out = r->b->out;
    while (r->b->ordered && r->head < r->b->in->n && !is_over(r)) {
        struct tr_buf *line = &r->kept[r->head];
        if (!out->done[r->head] && !line->len)
            break;
        if (line->len && srv_batch_output_add(out, line, &r->err) < 0)
            break;
        tr_buf_done(line);
        r->head++;
    }
}

/* A line to ask, which is claimed; n = none at this moment. */
static size_t claim_next(struct batch_run *r)
{
    const struct srv_batch *b = r->b;
    size_t n = b->in->n;
    size_t end = b->ordered ? TR_MIN(n, r->head + (size_t)(AHEAD * b->width)) : n;
    for (; r->next < end; r->next++) {
        size_t i = r->next;
        if (b->out->done[i] || r->asking[i] || (b->ordered && r->kept[i].len) ||
            !srv_batch_output_claim(b->out, i))
            continue;
        /* It may have been answered before it was claimed. */
        if (srv_batch_output_look(b->out, &r->err) < 0 || b->out->done[i]) {
            srv_batch_output_release(b->out, i);
            continue;
        }
        r->asking[i] = true;
        r->n_asking++;
        r->next++;
        return i;
    }
    return n;
}

/* The same, waiting for what other threads and processes are asking; n = all is done, or over. */
static size_t take_line(struct batch_run *r)
{
    size_t n = r->b->in->n, i = n;
    pthread_mutex_lock(&r->mutex);
    while (!is_over(r) && r->b->out->n_done < n && (i = claim_next(r)) == n) {
        bool alone = r->n_asking == 0; /* what is left is asked by other processes, or was */
        pthread_mutex_unlock(&r->mutex);
        sleep_ms(AGAIN_MS);
        pthread_mutex_lock(&r->mutex);
        if (srv_batch_output_look(r->b->out, &r->err) == 0 && alone && !r->b->ordered)
            r->next = 0;
    }
    pthread_mutex_unlock(&r->mutex);
    return i;
}

/* ---- asking ---- */

static uint64_t tokens_of(const struct srv_inquiry *a)
{
    static const char *const names[] = {"completion_tokens", "output_tokens"};
    struct json_t *doc;
    int64_t tokens = 0;
    if (tr_json_parse(&doc, a->reply.data, a->reply.len, NULL) < 0)
        return 0;
    struct tr_json root = tr_json_root(doc, NULL), usage = tr_json_get(&root, "usage");
    for (size_t i = 0; i < TR_ARRAY_LEN(names); i++)
        if (tr_json_opt_int(&usage, names[i], 0, INT64_MAX, &tokens, NULL) < 0)
            tokens = 0;
    tr_json_free(doc);
    return (uint64_t)tokens;
}

static void write_line(struct tr_buf *line, const struct srv_batch_line *from,
                       const struct srv_question *q, const struct srv_inquiry *a)
{
    tr_buf_addf(line, "{\"id\":\"batch_req_%016llx\",\"custom_id\":%s,\"response\":{",
                (unsigned long long)from->id.lo, q->id);
    tr_buf_addf(line, "\"status_code\":%d,\"request_id\":", a->status);
    tr_json_quote(line, a->request_id, strlen(a->request_id));
    tr_buf_adds(line, ",\"body\":");
    if (!a->reply.len ||
        memchr(a->reply.data, '\n', a->reply.len)) /* no document of ours has one */
        tr_json_quote(line, a->reply.len ? a->reply.data : "", a->reply.len);
    else
        tr_buf_add(line, a->reply.data, a->reply.len);
    tr_buf_adds(line, "},\"error\":null}\n");
}

/* A daemon that has no room now says when to come again. */
static int ask(const struct srv_batch *b, const struct srv_question *q, struct srv_inquiry *a,
               struct tr_err *err)
{
    for (;;) {
        if (*b->stop)
            return tr_err_set(err, TR_ECANCELED, NULL, "stopped");
        *a = (struct srv_inquiry){.path = q->url, .background = b->background};
        memcpy(a->sha, b->sha, sizeof a->sha);
        tr_buf_add(&a->body, q->body.data, q->body.len);
        if (a->body.oom) {
            tr_buf_done(&a->body);
            sleep_ms(RETRY_MS);
            continue;
        }
        if (!srv_inbox_ask(b->inbox, a))
            return tr_err_set(err, TR_ECANCELED, NULL, "the daemon has ended");
        if (a->status == 401)
            return tr_err_set(err, TR_ECONFIG, NULL, "the key that asks is not let in any more");
        if (a->status != 429 && a->status != 503)
            return 0;
        tr_buf_done(&a->reply);
        sleep_ms(TR_MIN(a->retry_after * 1000 + AGAIN_MS, RETRY_MS));
    }
}

static void keep_answer(struct batch_run *r, size_t i, struct tr_buf *line,
                        const struct srv_inquiry *a)
{
    struct srv_batch_progress *p = &r->progress;
    uint64_t tokens = a->status == 200 ? tokens_of(a) : 0;
    pthread_mutex_lock(&r->mutex);
    p->answered++;
    p->refused += a->status != 200;
    p->tokens += tokens;
    if (line->oom) {
        tr_err_set(&r->err, TR_ENOMEM, NULL, "out of memory");
    } else if (r->b->ordered) {
        r->kept[i] = *line;
        *line = (struct tr_buf){0};
        move_head(r);
    } else {
        (void)!srv_batch_output_add(r->b->out, line, &r->err);
    }
    (void)!srv_batch_output_look(r->b->out, &r->err); /* own lines are found as others' are */
    pthread_mutex_unlock(&r->mutex);
}

static void answer(struct batch_run *r, size_t i)
{
    struct srv_question q;
    struct srv_inquiry a = {0};
    struct tr_buf line = {0};
    struct tr_err err = {0};
    int e = srv_batch_input_read(r->b->in, i, &q, &err);
    if (e == 0) {
        e = ask(r->b, &q, &a, &err);
        if (e == 0) {
            write_line(&line, &r->b->in->lines[i], &q, &a);
            keep_answer(r, i, &line, &a);
        }
        tr_buf_done(&a.reply);
        srv_question_done(&q);
    }
    tr_buf_done(&line);
    pthread_mutex_lock(&r->mutex);
    if (e < 0 && !r->err.code)
        r->err = err;
    r->asking[i] = false;
    r->n_asking--;
    srv_batch_output_release(r->b->out, i);
    pthread_mutex_unlock(&r->mutex);
}

static void *work(void *arg)
{
    struct batch_run *r = arg;
    for (size_t i; (i = take_line(r)) < r->b->in->n;)
        answer(r, i);
    pthread_mutex_lock(&r->mutex);
    r->n_running--;
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* ---- the whole ---- */

/* True while somebody works. */
static bool report(struct batch_run *r, int64_t begun_ns)
{
    pthread_mutex_lock(&r->mutex);
    struct srv_batch_progress *p = &r->progress;
    p->n = r->b->in->n;
    p->done = r->b->out->n_done;
    p->bad = r->b->out->n_bad;
    p->seconds = (double)(tr_clock_ns() - begun_ns) * 1e-9;
    struct srv_batch_progress now = *p;
    bool running = r->n_running > 0;
    pthread_mutex_unlock(&r->mutex);
    r->b->progress(r->b->arg, &now);
    return running;
}

static void work_all(struct batch_run *r)
{
    pthread_t *threads = calloc((size_t)r->b->width, sizeof *threads);
    int n = 0;
    int64_t begun_ns = tr_clock_ns();
    r->n_running = threads ? r->b->width : 0;
    while (threads && n < r->b->width && pthread_create(&threads[n], NULL, work, r) == 0)
        n++;
    pthread_mutex_lock(&r->mutex);
    r->n_running -= threads ? r->b->width - n : 0;
    if (n == 0)
        tr_err_set(&r->err, TR_ENOMEM, NULL, "no thread can be made");
    pthread_mutex_unlock(&r->mutex);
    while (report(r, begun_ns))
        sleep_ms(SHOW_MS);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

int srv_batch_run(const struct srv_batch *b, struct srv_batch_progress *ret, struct tr_err *err)
{
    struct batch_run r = {.b = b, .mutex = PTHREAD_MUTEX_INITIALIZER};
    size_t n = b->in->n;
    r.asking = calloc(n + 1, sizeof *r.asking);
    r.kept = b->ordered ? calloc(n + 1, sizeof *r.kept) : NULL;
    if (!r.asking || (b->ordered && !r.kept)) {
        tr_err_set(&r.err, TR_ENOMEM, NULL, "out of memory");
    } else {
        move_head(&r);
        work_all(&r);
    }
    if (!r.err.code && b->out->n_done < n)
        tr_err_set(&r.err, TR_ECANCELED, NULL, "stopped");
    for (size_t i = 0; r.kept && i < n; i++)
        tr_buf_done(&r.kept[i]);
    free(r.kept);
    free(r.asking);
    *ret = r.progress;
    if (r.err.code)
        *err = r.err;
    return r.err.code;
}
