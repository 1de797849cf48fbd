/*
 * The packed cache; see packed.h. The file is mapped, not read: memory that is already there in the
 * page cache costs no zeroing and no copy, which together took most of a start.
 *
 * One thread writes it, a little ahead of the disk: that leaves few dirty pages, so that it neither
 * stops other writers for long nor ends in a long fsync that can't be cancelled.
 */
#include "engine/checkpoint/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/clock.h"
#include "config/thread.h"
#include "engine/machine/pool.h"

/* To be raised when this file's form changes. */
#define MAGIC "trpack01"

enum {
    HEADER = 4096,
    CHUNK = 4 << 20,
    STEP = 8 << 20, /* of writing; its multiples are file offsets, so that the page cache takes huge
                       pages for it */
    AHEAD = 8       /* steps between what is written and what is on the disk */
};

struct header {
    char magic[8];
    struct tr_hash key;    /* struct tr_packed's */
    struct tr_hash values; /* of the weights, see tr__load */
    struct tr_hash sum;    /* of values and the arena's chunks */
    uint64_t bytes;        /* of the arena */
};

/* Appends what packing makes of a sample, so that a cache from before a change of the layouts, or
 * of the conversion, is stale without anybody having to think of it. */
static void describe_packing(struct tr_buf *b)
{
    enum { N = 17, K = 512 }; /* more than one panel, more than one group of blocks */
    static const float step = 0.37F;
    float row[K];
    uint8_t *src = calloc(N, 4 * K), *packed = calloc(2 * N, 4 * K);
    b->oom |= !src || !packed;
    for (enum tr_wtype type = TR_W_F16; type < TR_W_COUNT && !b->oom; type++) {
        size_t bytes = tr_file_row_bytes(type, K);
        for (int n = 0; n < N; n++) {
            for (int i = 0; i < K; i++)
                row[i] = step * (float)((i * 29 + n * 7) % 41 - 20);
            if (tr_quantize_row(type, row, K, src + (size_t)n * bytes))
                for (size_t i = 0; i < bytes; i++)
                    src[(size_t)n * bytes + i] = (uint8_t)(i * 131 + (size_t)n * 17);
        }
        tr_pack_rows(type, src, 0, N, N, K, packed);
        struct tr_hash h = tr_hash(packed, tr_packed_bytes(type, N, K));
        tr_buf_addf(b, "\n%s %016llx", tr__wtype_name(type), (unsigned long long)h.lo);
    }
    free(packed);
    free(src);
}

int tr__packed_init(struct tr_packed *p, const char *folder, const char *model,
                    const struct tr_load_plan *plan, const struct tr_model_config *config,
                    const struct tr_source *s, enum tr_weights_choice choice, struct tr_err *err)
{
    *p = (struct tr_packed){0};
    struct tr_buf text = {0}, path = {0};
    tr__load_plan_describe(plan, config, true, &text);
    describe_packing(&text);
    for (int i = 0; i < s->n_files; i++)
        tr_buf_addf(&text, "\n%s %llu %lld", s->files[i].name, (unsigned long long)s->files[i].size,
                    (long long)s->files[i].mtime_ns);
    p->key = tr_hash(text.data, text.len);
    /* One file for each checkpoint and choice, whatever state they are in: a new one replaces the
     * old. */
    char *full = realpath(model, NULL);
    const char *name = full ? full : model;
    const char *slash = strrchr(name, '/');
    struct tr_hash place = tr_hash(name, strlen(name));
    tr_buf_addf(&path, "%s/%s-%016llx-%d.packed", folder, slash && slash[1] ? slash + 1 : "model",
                (unsigned long long)place.lo, (int)choice);
    free(full);
    bool oom = text.oom || path.oom;
    tr_buf_done(&text);
    if (oom) {
        tr_buf_done(&path);
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    p->path = path.data;
    return 0;
}

void tr__packed_done(struct tr_packed *p)
{
    free(p->path);
    *p = (struct tr_packed){0};
}

/* Hashing an arena chunk by chunk, and fetching it on the way. */
struct pass {
    const struct tr_file *file; /* read it from there; NULL: */
    bool mapped;                /* it is a mapped file; false: it is filled already */
    uint8_t *arena;
    uint64_t bytes;
    tr_progress_fn progress; /* NULL ok */
    void *progress_arg;
    const atomic_bool *stop; /* NULL ok */
    struct tr_hash *hashes;  /* [n] */
    size_t n;
    atomic_size_t next;
    atomic_ullong done;
    atomic_bool failed;
};

/* Maps a chunk's pages at one go, and finds out without a SIGBUS if the disk can't read them. */
static bool populate(const uint8_t *at, uint64_t bytes)
{
    uintptr_t from = (uintptr_t)at / 4096 * 4096;
    uintptr_t to = TR_ROUND_UP((uintptr_t)at + bytes, (uintptr_t)4096);
    return madvise((void *)from, to - from, MADV_POPULATE_READ) == 0 ||
           errno == EINVAL; /* Linux before 5.14 */
}

static bool fetch(const struct pass *p, uint64_t at, uint64_t bytes)
{
    if (p->mapped)
        return populate(p->arena + at, bytes);
    return !p->file || tr__file_read(p->file, HEADER + at, p->arena + at, bytes, NULL) == 0;
}

static void pass_work(void *arg, const struct tr_pool_part *part)
{
    struct pass *p = arg;
    for (size_t i; !atomic_load(&p->failed) && (i = atomic_fetch_add(&p->next, 1)) < p->n;) {
        uint64_t at = (uint64_t)i * CHUNK, bytes = TR_MIN((uint64_t)CHUNK, p->bytes - at);
        if ((p->stop && atomic_load(p->stop)) || !fetch(p, at, bytes)) {
            atomic_store(&p->failed, true);
            break;
        }
        p->hashes[i] = tr_hash(p->arena + at, bytes);
        uint64_t done = atomic_fetch_add(&p->done, bytes) + bytes;
        if (part->tid == 0 && p->progress)
            p->progress(p->progress_arg, done, p->bytes);
    }
}

/* *ret = the checksum of values and the arena, on the pool's threads or, without one, on this;
 * TR_EIO if the file could not be read. */
static int checksum(struct pass *p, struct tr_pool *pool, struct tr_hash values,
                    struct tr_hash *ret, struct tr_err *err)
{
    p->n = TR_CEIL_DIV(p->bytes, (uint64_t)CHUNK);
    p->hashes = calloc(p->n + 1, sizeof *p->hashes);
    if (!p->hashes)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (pool)
        tr_pool_run(pool, pass_work, p);
    else
        pass_work(p, &(struct tr_pool_part){.n = 1});
    *ret = tr_hash_link(values, p->hashes, p->n * sizeof *p->hashes);
    free(p->hashes);
    return p->failed ? tr_err_set(err, TR_EIO, NULL, "damaged (can't be read)") : 0;
}

static int check_header(const struct tr_packed *packed, const struct tr_file *f, uint64_t bytes,
                        struct header *h, struct tr_err *err)
{
    if (f->size < HEADER || tr__file_read(f, 0, h, sizeof *h, NULL) ||
        memcmp(h->magic, MAGIC, sizeof h->magic) != 0 || f->size - HEADER != h->bytes)
        return tr_err_set(err, TR_EFORMAT, NULL, "damaged");
    if (!tr_hash_equal(h->key, packed->key) || h->bytes != bytes)
        return tr_err_set(err, TR_EFORMAT, NULL, "stale");
    return 0;
}

/* The arena of a file with the right header. */
static int fill(const struct tr_file *f, const struct header *h, struct tr_arena *arena,
                const struct tr_weights_options *options, struct tr_err *err)
{
    struct tr_hash sum = {0};
    int r = options->use_mmap ? tr__arena_map(arena, f->fd, HEADER, h->bytes, err) : TR_ENOTFOUND;
    bool mapped = r == 0;
    if (r == TR_ENOTFOUND)
        r = tr__arena_init(arena, h->bytes, err);
    if (r)
        return r;
    struct pass pass = {.file = mapped ? NULL : f,
                        .mapped = mapped,
                        .arena = arena->data,
                        .bytes = h->bytes,
                        .progress = options->progress,
                        .progress_arg = options->progress_arg};
    r = checksum(&pass, options->pool, h->values, &sum, err);
    if (!r && !tr_hash_equal(sum, h->sum))
        r = tr_err_set(err, TR_EFORMAT, NULL, "damaged (wrong checksum)");
    if (r)
        tr__arena_done(arena);
    return r;
}

int tr__packed_read(const struct tr_packed *packed, struct tr_arena *arena, uint64_t bytes,
                    const struct tr_weights_options *options, struct tr_hash *ret_values,
                    struct tr_err *err)
{
    if (access(packed->path, F_OK) != 0)
        return TR_ENOTFOUND;
    struct tr_file f;
    struct header h = {0};
    int r = tr__file_open(&f, packed->path, err);
    if (r)
        return r;
    r = check_header(packed, &f, bytes, &h, err);
    if (!r)
        r = fill(&f, &h, arena, options, err);
    if (!r) {
        *ret_values = h.values;
        if (options->progress)
            options->progress(options->progress_arg, bytes, bytes);
    }
    tr__file_done(&f);
    return r;
}

/* ---- writing ---- */

static bool write_all(int fd, const void *bytes, uint64_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p += done;
        n -= (uint64_t)done;
    }
    return true;
}

/* Hands a step to the disk and waits for the one AHEAD of it. An error that this reports is not
 * reported by fsync any more; a file system that can't do it is none. */
static bool sync_step(int fd, uint64_t at, uint64_t n)
{
    uint64_t ahead = (uint64_t)AHEAD * STEP, step = at - at % STEP;
    int r = sync_file_range(fd, (off_t)at, (off_t)n, SYNC_FILE_RANGE_WRITE);
    if (!r && step >= ahead)
        r = sync_file_range(fd, (off_t)(step - ahead), STEP, SYNC_FILE_RANGE_WAIT_BEFORE);
    return r == 0 || (errno != EIO && errno != ENOSPC && errno != EDQUOT);
}

/* False: errno says why; ECANCELED: stopped. */
static bool write_steps(int fd, const uint8_t *arena, uint64_t bytes, const atomic_bool *stop)
{
    static const uint8_t nothing[HEADER];
    if (!write_all(fd, nothing, HEADER))
        return false;
    for (uint64_t at = HEADER, end = HEADER + bytes; at < end;) {
        uint64_t n = TR_MIN(STEP - at % STEP, end - at);
        if (stop && atomic_load(stop)) {
            errno = ECANCELED;
            return false;
        }
        if (!write_all(fd, arena + (at - HEADER), n) || !sync_step(fd, at, n))
            return false;
        at += n;
    }
    return true;
}

/* The header last: until then the file is nobody's. */
static bool write_file(int fd, const struct header *h, const uint8_t *arena,
                       const atomic_bool *stop)
{
    return ftruncate(fd, 0) == 0 && write_steps(fd, arena, h->bytes, stop) &&
           pwrite(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h && fsync(fd) == 0;
}

/* Opens the file that will be renamed. It has one name, so that what a crash has left is
 * overwritten; whoever writes it holds its lock. A folder that is not there yet is made, its
 * parents are not. -1: errno says why. */
static int open_beside(char *path)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    (void)mkdir(path, 0777);
    *slash = '/';
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    struct stat ours, theirs;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    /* Meanwhile it may have been renamed: then it is the cache that others have mapped. */
    if (locked && fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino)
        return fd;
    int why = locked ? EWOULDBLOCK : errno;
    close(fd);
    errno = why;
    return -1;
}

static int write_stoppable(const struct tr_packed *packed, const uint8_t *arena, uint64_t bytes,
                           struct tr_hash values, const atomic_bool *stop, struct tr_err *err)
{
    struct pass pass = {.arena = (uint8_t *)(uintptr_t)arena, .bytes = bytes, .stop = stop};
    struct header h = {.magic = MAGIC, .key = packed->key, .values = values, .bytes = bytes};
    int r = checksum(&pass, NULL, values, &h.sum, err);
    if (r)
        return r;
    struct tr_buf beside = {0};
    tr_buf_addf(&beside, "%s.part", packed->path);
    if (beside.oom)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int fd = open_beside(beside.data);
    if (fd < 0 || !write_file(fd, &h, arena, stop) || rename(beside.data, packed->path)) {
        r = tr_err_set(err, TR_EIO, NULL, "can't be written: %s",
                       errno == EWOULDBLOCK ? "another process does it" : strerror(errno));
        if (fd >= 0)
            unlink(beside.data);
    }
    if (fd >= 0)
        close(fd);
    tr_buf_done(&beside);
    return r;
}

int tr__packed_write(const struct tr_packed *packed, const uint8_t *arena, uint64_t bytes,
                     struct tr_hash values, struct tr_err *err)
{
    return write_stoppable(packed, arena, bytes, values, NULL, err);
}

/* ---- the writer's thread ---- */

struct tr_packed_writer {
    struct tr_packed packed;
    const uint8_t *arena;
    uint64_t bytes;
    struct tr_hash values;
    tr_packed_fn done;
    void *arg;
    atomic_bool stop;
    pthread_t thread;
};

static void *writer_work(void *arg)
{
    struct tr_packed_writer *w = arg;
    struct tr_err err;
    int64_t begun = tr_clock_ns();
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    int r = write_stoppable(&w->packed, w->arena, w->bytes, w->values, &w->stop, &err);
    if (!atomic_load(&w->stop) && w->done)
        w->done(w->arg, (double)(tr_clock_ns() - begun) * 1e-9, r ? &err : NULL);
    return NULL;
}

int tr__packed_writer_start(struct tr_packed_writer **ret, struct tr_packed *p,
                            const uint8_t *arena, uint64_t bytes, struct tr_hash values,
                            tr_packed_fn done, void *arg, struct tr_err *err)
{
    struct tr_packed_writer *w = calloc(1, sizeof *w);
    if (!w)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    *w = (struct tr_packed_writer){
        .packed = *p, .arena = arena, .bytes = bytes, .values = values, .done = done, .arg = arg};
    if (tr_thread_start(&w->thread, "packed", writer_work, w)) {
        free(w);
        return tr_err_set(err, TR_ENOMEM, NULL, "can't be written: no thread");
    }
    *p = (struct tr_packed){0};
    *ret = w;
    return 0;
}

void tr__packed_writer_stop(struct tr_packed_writer *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    tr__packed_done(&w->packed);
    free(w);
}
