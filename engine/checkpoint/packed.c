/*
 * The packed cache; see packed.h. The file is read, not mapped: only anonymous memory comes in huge
 * pages, and reading with all threads while checking costs less than the page faults would.
 */
#include "engine/checkpoint/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* To be raised when this file's form changes. */
#define MAGIC "trpack01"

enum { HEADER = 4096, CHUNK = 4 << 20 };

struct header {
    char magic[8];
    struct tr_hash key;    /* struct tr_packed's */
    struct tr_hash values; /* of the weights, see tr_load */
    struct tr_hash sum;    /* of values and the arena's chunks */
    uint64_t bytes;        /* of the arena */
};

/* Appends what packing makes of a sample, so that a cache from before a change of the layouts, or of
 * the conversion, is stale without anybody having to think of it. */
static void describe_packing(struct tr_buf *b)
{
    enum { N = 17, K = 512 }; /* more than one panel, more than one group of blocks */
    static const float step = 0.37F;
    float row[K];
    uint8_t *src = calloc(N, 4 * K), *packed = calloc(2 * N, 4 * K);
    b->oom |= !src || !packed;
    for (enum tr_wtype type = TR_W_F16; type < TR_W_COUNT && !b->oom; type++) {
        size_t bytes = tr_file_row_bytes(type, K);
        for (int r = 0; r < N; r++) {
            for (int i = 0; i < K; i++)
                row[i] = step * (float)((i * 29 + r * 7) % 41 - 20);
            if (tr_quantize_row(type, row, K, src + (size_t)r * bytes))
                for (size_t i = 0; i < bytes; i++)
                    src[(size_t)r * bytes + i] = (uint8_t)(i * 131 + (size_t)r * 17);
        }
        tr_pack_rows(type, src, 0, N, N, K, packed);
        struct tr_hash h = tr_hash(packed, tr_packed_bytes(type, N, K));
        tr_buf_addf(b, "\n%s %016llx", tr_wtype_name(type), (unsigned long long)h.lo);
    }
    free(packed);
    free(src);
}

int tr_packed_init(struct tr_packed *p, const char *folder, const char *model,
                   const struct tr_plan *plan, const struct tr_model_config *config,
                   const struct tr_source *s, enum tr_weights_choice choice, struct tr_err *err)
{
    *p = (struct tr_packed){0};
    struct tr_buf text = {0}, path = {0};
    tr_plan_describe(plan, config, true, &text);
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

void tr_packed_done(struct tr_packed *p)
{
    free(p->path);
    *p = (struct tr_packed){0};
}

/* Hashing an arena chunk by chunk, and reading it on the way if there is a file. */
struct pass {
    const struct tr_file *file; /* NULL: the arena is filled already */
    uint8_t *arena;
    uint64_t bytes;
    const struct tr_weights_options *options;
    struct tr_hash *hashes; /* [n] */
    size_t n;
    atomic_size_t next;
    atomic_ullong done;
    atomic_bool failed;
};

static void pass_work(void *arg, int tid, int n_threads)
{
    struct pass *p = arg;
    (void)n_threads;
    for (size_t i; !atomic_load(&p->failed) && (i = atomic_fetch_add(&p->next, 1)) < p->n;) {
        uint64_t at = (uint64_t)i * CHUNK, bytes = TR_MIN((uint64_t)CHUNK, p->bytes - at);
        if (p->file && tr_file_read(p->file, HEADER + at, p->arena + at, bytes, NULL))
            atomic_store(&p->failed, true);
        p->hashes[i] = tr_hash(p->arena + at, bytes);
        uint64_t done = atomic_fetch_add(&p->done, bytes) + bytes;
        if (tid == 0 && p->file && p->options->progress)
            p->options->progress(p->options->progress_arg, done, p->bytes);
    }
}

/* *ret = the checksum of values and the arena; TR_EIO if the file could not be read. */
static int checksum(struct pass *p, struct tr_pool *pool, struct tr_hash values,
                    struct tr_hash *ret, struct tr_err *err)
{
    p->n = TR_CEIL_DIV(p->bytes, (uint64_t)CHUNK);
    p->hashes = calloc(p->n + 1, sizeof *p->hashes);
    if (!p->hashes)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    tr_pool_run(pool, pass_work, p);
    *ret = tr_hash_link(values, p->hashes, p->n * sizeof *p->hashes);
    free(p->hashes);
    return p->failed ? tr_err_set(err, TR_EIO, NULL, "damaged (can't be read)") : 0;
}

int tr_packed_read(const struct tr_packed *packed, uint8_t *arena, uint64_t bytes,
                   const struct tr_weights_options *options, struct tr_hash *ret_values,
                   struct tr_err *err)
{
    if (access(packed->path, F_OK) != 0)
        return TR_ENOTFOUND;
    struct tr_file f;
    struct header h = {0};
    struct tr_hash sum = {0};
    int rc = tr_file_open(&f, packed->path, err);
    if (rc)
        return rc;
    if (f.size < HEADER || tr_file_read(&f, 0, &h, sizeof h, NULL) ||
        memcmp(h.magic, MAGIC, sizeof h.magic) != 0 || f.size - HEADER != h.bytes)
        rc = tr_err_set(err, TR_EFORMAT, NULL, "damaged");
    else if (!tr_hash_equal(h.key, packed->key) || h.bytes != bytes)
        rc = tr_err_set(err, TR_EFORMAT, NULL, "stale");
    if (!rc) {
        struct pass pass = {.file = &f, .arena = arena, .bytes = bytes, .options = options};
        rc = checksum(&pass, options->pool, h.values, &sum, err);
    }
    if (!rc && !tr_hash_equal(sum, h.sum))
        rc = tr_err_set(err, TR_EFORMAT, NULL, "damaged (wrong checksum)");
    if (!rc) {
        *ret_values = h.values;
        if (options->progress)
            options->progress(options->progress_arg, bytes, bytes);
    }
    tr_file_done(&f);
    return rc;
}

static int write_all(int fd, const void *bytes, uint64_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t done = write(fd, p, TR_MIN(n, (uint64_t)1 << 30));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        p += done;
        n -= (uint64_t)done;
    }
    return 0;
}

int tr_packed_write(const struct tr_packed *packed, const uint8_t *arena, uint64_t bytes,
                    struct tr_pool *pool, struct tr_hash values, struct tr_err *err)
{
    struct pass pass = {.arena = (uint8_t *)(uintptr_t)arena, .bytes = bytes};
    uint8_t first[HEADER] = {0};
    struct header h = {.magic = MAGIC, .key = packed->key, .values = values, .bytes = bytes};
    int rc = checksum(&pass, pool, values, &h.sum, err);
    if (rc)
        return rc;
    memcpy(first, &h, sizeof h);
    struct tr_buf beside = {0};
    tr_buf_addf(&beside, "%s.%d", packed->path, (int)getpid());
    if (beside.oom)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    /* A folder that is not there yet is made, its parents are not. */
    char *slash = strrchr(beside.data, '/');
    *slash = '\0';
    (void)mkdir(beside.data, 0777);
    *slash = '/';
    int fd = open(beside.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, first, sizeof first) || write_all(fd, arena, bytes) || fsync(fd) ||
        rename(beside.data, packed->path)) {
        rc = tr_err_set(err, TR_EIO, NULL, "can't be written: %s", strerror(errno));
        if (fd >= 0)
            unlink(beside.data);
    }
    if (fd >= 0)
        close(fd);
    tr_buf_done(&beside);
    return rc;
}
