#include "server/batch/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/json.h"
#include "config/list.h"
#include "config/thread.h"
#include "server/batch/batch.h"
#include "server/batch/finish.h"
#include "server/log.h"

enum { MAX_RUNNING = 4, MAX_QUEUED = 100 };

/* A batch that has not ended. */
struct job {
    struct tr_list link;
    struct srv_jobs *jobs;
    struct srv_owner owner;
    char id[SRV_STORE_ID];
    pthread_t thread;
    bool running, over;         /* under the lock */
    bool cancelled;             /* likewise */
    int64_t done, bad, expires; /* likewise */
    bool expired, full;         /* its thread's */
    const struct srv_batch_output *out;
    atomic_bool stop;
};

struct srv_jobs {
    struct srv_store *store;
    struct srv_inbox *inbox;
    int width;
    atomic_bool ending;
    pthread_mutex_t lock; /* guards records, and the list */
    struct tr_list list;  /* the oldest first */
    pthread_t reader;     /* finds what a former daemon left */
};

static bool same_owner(const struct srv_owner *a, const struct srv_owner *b)
{
    return memcmp(a->sha, b->sha, sizeof a->sha) == 0;
}

static struct job *find(struct srv_jobs *jobs, const struct srv_owner *o, const char *id)
{
    TR_LIST_EACH(struct job, j, &jobs->list)
        if (same_owner(&j->owner, o) && strcmp(j->id, id) == 0)
            return j;
    return NULL;
}

/* ---- the run of one, on its thread ---- */

/* Saves the record unless somebody has told the batch to end meanwhile; then takes that over. */
static int save(struct job *j, struct srv_record *b, struct tr_err *err)
{
    pthread_mutex_lock(&j->jobs->lock);
    if (j->cancelled && !srv_record_over(b) && b->status != SRV_BATCH_CANCELLING)
        srv_record_set(b, SRV_BATCH_CANCELLING);
    int r = srv_record_save(b, &j->owner, err);
    pthread_mutex_unlock(&j->jobs->lock);
    return r;
}

static void on_progress(void *arg, const struct srv_batch_progress *p)
{
    struct job *j = arg;
    struct stat st;
    pthread_mutex_lock(&j->jobs->lock);
    j->done = (int64_t)p->done;
    j->bad = (int64_t)p->bad;
    pthread_mutex_unlock(&j->jobs->lock);
    j->expired = j->expired || time(NULL) >= j->expires;
    if (fstat(j->out->fd, &st) == 0)
        j->full = j->full || srv_store_full(j->jobs->store, (uint64_t)st.st_size);
    if (j->expired || j->full || j->jobs->ending)
        j->stop = true;
}

/* The questions, checked; what is wrong with them stands in the record then. */
static int open_input(struct job *j, struct srv_record *b, struct srv_batch_input *in,
                      struct tr_err *err)
{
    struct srv_batch_faults faults = {.endpoint = b->endpoint};
    char *path = srv_store_path(&j->owner, b->input, "data");
    int r = path ? srv_batch_input_open(in, path, &faults, err)
                 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    free(path);
    for (size_t i = 0; i < faults.n; i++)
        srv_record_fault(b, "invalid_request", faults.items[i].line, &faults.items[i].err);
    if (r < 0 && faults.n == 0) {
        tr_err_set(err, r, "input_file_id", "the input file cannot be read");
        srv_record_fault(b, "invalid_file", 0, err);
    }
    if (r == 0 && in->n == 0) {
        r = tr_err_set(err, TR_EINVAL, "input_file_id", "the input file has no line");
        srv_record_fault(b, "empty_file", 0, err);
        srv_batch_input_done(in);
    }
    return r;
}

/* Asks what is left; *whole: nothing is left. */
static int ask_all(struct job *j, struct srv_record *b, struct srv_batch_input *in,
                   struct srv_batch_output *out, struct tr_err *err)
{
    struct srv_batch_progress progress = {0};
    struct srv_batch run = {.in = in,
                            .out = out,
                            .inbox = j->jobs->inbox,
                            .background = true,
                            .width = j->jobs->width,
                            .progress = on_progress,
                            .arg = j,
                            .stop = &j->stop};
    memcpy(run.sha, j->owner.sha, sizeof run.sha);
    j->out = out;
    j->expires = b->expires;
    int r = out->n_done < in->n ? srv_batch_run(&run, &progress, err) : 0;
    b->completed = (int64_t)(out->n_done - out->n_bad);
    b->failed = (int64_t)out->n_bad;
    if (j->full)
        r = tr_err_set(err, TR_EFULL, NULL, "no room for the answers (batch_quota)");
    return r;
}

/* What has become of it, from how its asking ended; false: it goes on another time. */
static bool judge(struct job *j, struct srv_record *b, int r, const struct tr_err *err,
                  enum srv_batch_status *ret)
{
    pthread_mutex_lock(&j->jobs->lock);
    bool cancelled = j->cancelled;
    pthread_mutex_unlock(&j->jobs->lock);
    if (r == 0)
        *ret = SRV_BATCH_COMPLETED;
    else if (cancelled)
        *ret = SRV_BATCH_CANCELLED;
    else if (j->expired)
        *ret = SRV_BATCH_EXPIRED;
    else if (r == TR_ECANCELED)
        return false;
    else
        *ret = SRV_BATCH_FAILED;
    if (*ret == SRV_BATCH_FAILED)
        srv_record_fault(b, r == TR_EFULL ? "insufficient_storage" : "server_error", 0, err);
    return true;
}

/* Asks, and puts the answers into their files. */
static int ask_and_finish(struct job *j, struct srv_record *b, struct srv_batch_input *in,
                          struct tr_err *err)
{
    struct srv_batch_output out = {.fd = -1};
    enum srv_batch_status end;
    char *path = srv_store_path(&j->owner, b->id, "part");
    int r = path ? srv_batch_output_open(&out, in, path, true, err) : TR_ENOMEM;
    free(path);
    if (r < 0)
        return r;
    r = ask_all(j, b, in, &out, err);
    bool ends = judge(j, b, r, err, &end);
    r = ends && end == SRV_BATCH_EXPIRED ? srv_finish_expired(&out, b, err) : 0;
    srv_batch_output_done(&out);
    if (!ends || r < 0)
        return ends ? r : TR_ECANCELED;
    if (end == SRV_BATCH_COMPLETED)
        srv_record_set(b, SRV_BATCH_FINALIZING);
    srv_finish_name(b);
    r = save(j, b, err);
    if (r == 0)
        r = srv_finish_files(&j->owner, b, err);
    if (r == 0)
        srv_record_set(b, end);
    return r;
}

static void run_batch(struct job *j, struct srv_record *b)
{
    struct srv_batch_input in = {.fd = -1};
    struct tr_err err = {0};
    int r = open_input(j, b, &in, &err);
    if (r == 0) {
        b->total = (int64_t)in.n;
        if (b->status == SRV_BATCH_VALIDATING)
            srv_record_set(b, SRV_BATCH_IN_PROGRESS);
        r = save(j, b, &err);
        if (r == 0 && b->status == SRV_BATCH_CANCELLING)
            j->stop = true;
        if (r == 0)
            r = ask_and_finish(j, b, &in, &err);
        srv_batch_input_done(&in);
        if (r < 0 && r != TR_ECANCELED && !b->errors.len)
            srv_record_fault(b, "server_error", 0, &err);
    }
    if (r == TR_ECANCELED)
        return;
    if (r < 0)
        srv_record_set(b, SRV_BATCH_FAILED);
    r = save(j, b, &err);
    if (r < 0)
        srv_log(SRV_LOG_ERROR, b->id, "batch: its record cannot be written: %s", err.msg);
    srv_log(SRV_LOG_INFO, b->id, "batch %s: %lld of %lld lines answered, %lld refused",
            srv_record_status(b), (long long)(b->completed + b->failed), (long long)b->total,
            (long long)b->failed);
}

static void begin_next(struct srv_jobs *jobs);

static void *run(void *arg)
{
    struct job *j = arg;
    struct srv_record b;
    struct tr_err err;
    int r = srv_record_load(&b, &j->owner, j->id, &err);
    if (r == 0 && !srv_record_over(&b)) {
        pthread_mutex_lock(&j->jobs->lock);
        j->cancelled = j->cancelled || b.status == SRV_BATCH_CANCELLING;
        pthread_mutex_unlock(&j->jobs->lock);
        run_batch(j, &b);
    }
    if (r == 0)
        srv_record_done(&b);
    pthread_mutex_lock(&j->jobs->lock);
    j->over = true;
    begin_next(j->jobs);
    pthread_mutex_unlock(&j->jobs->lock);
    return NULL;
}

/* ---- whose turn it is: under the lock ---- */

static void forget(struct job *j)
{
    tr_list_remove(&j->link);
    free(j);
}

static bool may_begin(const struct srv_jobs *jobs, const struct job *next)
{
    int n = 0;
    TR_LIST_EACH(const struct job, j, &jobs->list) {
        bool busy = j->running && !j->over;
        n += busy;
        if (busy && same_owner(&j->owner, &next->owner))
            return false;
    }
    return n < MAX_RUNNING;
}

static void begin_next(struct srv_jobs *jobs)
{
    if (jobs->ending) /* srv_jobs_close has the list */
        return;
    struct tr_list ended;
    tr_list_init(&ended);
    TR_LIST_EACH_SAFE(struct job, j, &jobs->list)
        if (j->over && !pthread_equal(j->thread, pthread_self())) {
            tr_list_remove(&j->link);
            tr_list_append(&ended, &j->link);
        }
    TR_LIST_EACH(struct job, j, &jobs->list)
        if (!j->running && may_begin(jobs, j))
            j->running = tr_thread_start(&j->thread, "batch", run, j) == 0;
    TR_LIST_EACH_SAFE(struct job, j, &ended) {
        pthread_join(j->thread, NULL); /* it needs the lock no more */
        forget(j);
    }
}

static int enqueue(struct srv_jobs *jobs, const struct srv_owner *o, const char *id)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return TR_ENOMEM;
    j->jobs = jobs;
    j->owner = *o;
    memcpy(j->id, id, sizeof j->id);
    tr_list_append(&jobs->list, &j->link);
    return 0;
}

/* ---- beginning and end ---- */

static void take_up(void *arg, const struct srv_owner *o)
{
    struct srv_jobs *jobs = arg;
    char(*ids)[SRV_STORE_ID];
    size_t n;
    if (srv_store_list(o, SRV_STORE_BATCH, &ids, &n, NULL) < 0)
        return;
    for (size_t i = n; i-- > 0 && !jobs->ending;) {
        struct srv_record b;
        if (srv_record_load(&b, o, ids[i], NULL) < 0)
            continue;
        pthread_mutex_lock(&jobs->lock);
        if (!srv_record_over(&b) && !find(jobs, o, ids[i]) && enqueue(jobs, o, ids[i]) == 0)
            begin_next(jobs);
        pthread_mutex_unlock(&jobs->lock);
        srv_record_done(&b);
    }
    free(ids);
}

static void *read_store(void *arg)
{
    struct srv_jobs *jobs = arg;
    srv_store_owners(jobs->store, take_up, jobs);
    return NULL;
}

int srv_jobs_open(struct srv_jobs **ret, struct srv_store *store, struct srv_inbox *inbox,
                  int width, struct tr_err *err)
{
    struct srv_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    jobs->store = store;
    jobs->inbox = inbox;
    jobs->width = width;
    pthread_mutex_init(&jobs->lock, NULL);
    tr_list_init(&jobs->list);
    if (tr_thread_start(&jobs->reader, "batches", read_store, jobs) != 0) {
        free(jobs);
        return tr_err_set(err, TR_EINTERNAL, NULL, "cannot create a thread");
    }
    *ret = jobs;
    return 0;
}

void srv_jobs_end(struct srv_jobs *jobs)
{
    if (jobs)
        jobs->ending = true;
}

void srv_jobs_close(struct srv_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->ending = true;
    pthread_mutex_unlock(&jobs->lock);
    pthread_join(jobs->reader, NULL);
    TR_LIST_EACH_SAFE(struct job, j, &jobs->list) {
        if (j->running)
            pthread_join(j->thread, NULL);
        forget(j);
    }
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

/* ---- what clients want ---- */

/* Where a key has as many as it may, the oldest that has ended is forgotten. */
static void make_room(const struct srv_owner *o)
{
    char(*ids)[SRV_STORE_ID];
    size_t n;
    if (srv_store_list(o, SRV_STORE_BATCH, &ids, &n, NULL) < 0)
        return;
    for (size_t i = n; n >= SRV_STORE_OBJECTS && i-- > 0;) {
        struct srv_record b;
        if (srv_record_load(&b, o, ids[i], NULL) < 0)
            continue;
        bool over = srv_record_over(&b);
        srv_record_done(&b);
        if (over) {
            srv_store_remove(o, ids[i], NULL);
            break;
        }
    }
    free(ids);
}

int srv_jobs_add(struct srv_jobs *jobs, const struct srv_owner *o, const struct srv_record *b,
                 struct tr_err *err)
{
    int n = 0, r = 0;
    pthread_mutex_lock(&jobs->lock);
    TR_LIST_EACH(const struct job, j, &jobs->list)
        n += same_owner(&j->owner, o) && !j->over;
    if (n >= MAX_QUEUED)
        r = tr_err_set(err, TR_EQUEUE, NULL, "%d batches of this key have not ended", n);
    if (r == 0)
        make_room(o);
    if (r == 0)
        r = srv_record_save(b, o, err);
    if (r == 0 && enqueue(jobs, o, b->id) < 0)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0)
        begin_next(jobs);
    pthread_mutex_unlock(&jobs->lock);
    return r;
}

/* Under the lock. */
static int look(struct srv_jobs *jobs, const struct srv_owner *o, const char *id,
                struct srv_record *ret, struct tr_err *err)
{
    int r = srv_record_load(ret, o, id, err);
    const struct job *j = r == 0 ? find(jobs, o, id) : NULL;
    if (j && !j->over && j->done > 0 && !srv_record_over(ret)) {
        ret->completed = j->done - j->bad;
        ret->failed = j->bad;
    }
    return r;
}

int srv_jobs_look(struct srv_jobs *jobs, const struct srv_owner *o, const char *id,
                  struct srv_record *ret, struct tr_err *err)
{
    int r;
    pthread_mutex_lock(&jobs->lock);
    r = look(jobs, o, id, ret, err);
    pthread_mutex_unlock(&jobs->lock);
    return r;
}

int srv_jobs_cancel(struct srv_jobs *jobs, const struct srv_owner *o, const char *id,
                    struct srv_record *ret, struct tr_err *err)
{
    int r;
    pthread_mutex_lock(&jobs->lock);
    r = look(jobs, o, id, ret, err);
    if (r == 0 && (srv_record_over(ret) || ret->status == SRV_BATCH_FINALIZING)) {
        r = tr_err_set(err, TR_EINVAL, NULL, "the batch is %s already", srv_record_status(ret));
        srv_record_done(ret);
    } else if (r == 0 && ret->status != SRV_BATCH_CANCELLING) {
        struct job *j = find(jobs, o, id);
        srv_record_set(ret, SRV_BATCH_CANCELLING);
        r = srv_record_save(ret, o, err);
        if (r == 0 && j) {
            j->cancelled = true;
            j->stop = true;
        }
        if (r < 0)
            srv_record_done(ret);
    }
    pthread_mutex_unlock(&jobs->lock);
    return r;
}
