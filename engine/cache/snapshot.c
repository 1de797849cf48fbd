#include "engine/cache/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_NAME = 64, MAX_TOKENS = 1 << 30 };

static const char magic[8] = {'T', 'R', 'S', 'N', 'A', 'P', '0', '1'};

enum kind { KIND_LOCAL = 1, KIND_GLOBAL = 2 };

struct head {
    char magic[8];
    struct tr_snapshot_facts facts;
    uint64_t n_tokens, n_local, n_global;
    uint64_t created;
    struct tr_hash ids;  /* checksum of the ids */
    struct tr_hash self; /* of all fields above */
};

/* Stands before a page's bytes. */
struct page_head {
    uint64_t kind;
    int64_t start;
    struct tr_hash key;
    struct tr_hash checksum;
};

struct tr_snapshot_file {
    int fd;
    struct head head;
    int32_t *ids;
    uint64_t bytes;
    const char *name; /* borrowed during open only */
};

bool tr_snapshot_name_ok(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);
    return n && n <= MAX_NAME && name[0] != '.' && strspn(name, allowed) == n;
}

/* ---- both ways over the same sequence of pages ---- */

/* The keys of page after page, as they must stand in the file. */
struct page_walk {
    struct tr_prefix chain;
    const int32_t *ids;
    int page_tokens;
};

static struct page_walk walk_begin(const struct head *h, const int32_t *ids)
{
    struct page_walk w = {.ids = ids, .page_tokens = (int)h->facts.page_tokens};
    tr_prefix_init(&w.chain, h->facts.fingerprint, h->facts.owner);
    return w;
}

static struct page_head identity(const struct page_walk *w, enum kind kind)
{
    return (struct page_head){.kind = kind,
                              .start = (w->chain.pages - 1) * w->page_tokens,
                              .key = kind == KIND_LOCAL ? w->chain.local : w->chain.global};
}

/* ---- writing ---- */

static int write_all(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n) {
        ssize_t r = write(fd, at, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return -1;
        at += r;
        n -= (size_t)r;
    }
    return 0;
}

static int write_page(int fd, struct page_head h, const void *data, uint64_t bytes)
{
    h.checksum = tr_hash(data, bytes);
    return write_all(fd, &h, sizeof h) < 0 ? -1 : write_all(fd, data, bytes);
}

static int write_file(int fd, const struct head *h, const int32_t *ids,
                      const struct tr_local_table *local, const struct tr_global_table *global)
{
    struct page_walk w = walk_begin(h, ids);
    int64_t n_pages = (int64_t)(h->n_tokens / h->facts.page_tokens);
    if (write_all(fd, h, sizeof *h) < 0 || write_all(fd, ids, h->n_tokens * sizeof *ids) < 0)
        return -1;
    for (int64_t i = 0; i < n_pages; i++) {
        tr__prefix_advance(&w.chain, w.page_tokens, ids);
        if (h->n_global && write_page(fd, identity(&w, KIND_GLOBAL), global->table.data[i],
                                      h->facts.global_page_bytes) < 0)
            return -1;
        if (i >= n_pages - (int64_t)h->n_local &&
            write_page(fd, identity(&w, KIND_LOCAL), local->table.data[i - local->table.first],
                       h->facts.local_page_bytes) < 0)
            return -1;
    }
    return fsync(fd);
}

int tr_snapshot_write(const char *dir, const char *name, const struct tr_snapshot_facts *facts,
                      const int32_t *ids, int64_t n_tokens, const struct tr_local_table *local,
                      const struct tr_global_table *global, struct tr_err *err)
{
    char *temporary = NULL;
    char *path = NULL;
    int fd = -1;
    int r = TR_ENOMEM;
    struct head h = {.facts = *facts,
                     .n_tokens = (uint64_t)n_tokens,
                     .n_local = (uint64_t)local->table.n,
                     .n_global = (uint64_t)global->table.n,
                     .created = (uint64_t)time(NULL),
                     .ids = tr_hash(ids, (size_t)n_tokens * sizeof *ids)};
    memcpy(h.magic, magic, sizeof magic);
    h.self = tr_hash(&h, offsetof(struct head, self));
    if (asprintf(&temporary, "%s/.%s.XXXXXX", dir, name) < 0) {
        temporary = NULL;
        goto done;
    }
    if (asprintf(&path, "%s/%s.snapshot", dir, name) < 0) {
        path = NULL;
        goto done;
    }
    r = TR_EIO;
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        goto done;
    if (write_file(fd, &h, ids, local, global) < 0 || rename(temporary, path) < 0)
        unlink(temporary);
    else
        r = 0;
done:
    if (r < 0)
        tr_err_set(err, r, "snapshot", "cannot write snapshot %s: %s", name,
                   r == TR_EIO ? strerror(errno) : "out of memory");
    if (fd >= 0)
        close(fd);
    free(temporary);
    free(path);
    return r;
}

/* ---- reading ---- */

static int read_all(int fd, void *bytes, size_t n)
{
    char *at = bytes;
    while (n) {
        ssize_t r = read(fd, at, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return -1;
        at += r;
        n -= (size_t)r;
    }
    return 0;
}

/* Every size in the head is bounded before it is used, so that no sum overflows. */
static const char *check_head(const struct head *h, uint64_t bytes)
{
    const struct tr_snapshot_facts *f = &h->facts;
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return "it is no snapshot of this version";
    if (!tr_hash_equal(h->self, tr_hash(h, offsetof(struct head, self))))
        return "its head is damaged";
    if (f->page_tokens < 1 || f->page_tokens > 4096 || h->n_tokens < 1 ||
        h->n_tokens > MAX_TOKENS || h->n_tokens % f->page_tokens ||
        f->local_page_bytes > UINT32_MAX || f->global_page_bytes > UINT32_MAX)
        return "its head makes no sense";
    uint64_t n_pages = h->n_tokens / f->page_tokens;
    if (h->n_local > n_pages || (h->n_global && h->n_global != n_pages))
        return "its head makes no sense";
    uint64_t expected = sizeof *h + h->n_tokens * sizeof(int32_t) +
                        h->n_local * (sizeof(struct page_head) + f->local_page_bytes) +
                        h->n_global * (sizeof(struct page_head) + f->global_page_bytes);
    return bytes == expected ? NULL : "its length is wrong";
}

/* Which fact of the cache the file contradicts; NULL = none. */
static const char *check_facts(const struct tr_snapshot_facts *file,
                               const struct tr_snapshot_facts *cache)
{
    if (!tr_hash_equal(file->fingerprint, cache->fingerprint))
        return "another checkpoint or other numeric options";
    if (file->kv_type != cache->kv_type)
        return "another kv_type";
    if (file->page_tokens != cache->page_tokens)
        return "another page_tokens";
    if (file->owner[0] != cache->owner[0] || file->owner[1] != cache->owner[1])
        return "another API key";
    if (file->window != cache->window || file->n_local_layers != cache->n_local_layers ||
        file->n_global_layers != cache->n_global_layers ||
        file->local_page_bytes != cache->local_page_bytes ||
        file->global_page_bytes != cache->global_page_bytes)
        return "another cache layout";
    return NULL;
}

static int load(struct tr_snapshot_file *f, const char *name, const struct tr_snapshot_facts *facts,
                struct tr_err *err)
{
    struct stat st;
    if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        read_all(f->fd, &f->head, sizeof f->head) < 0)
        return tr_err_set(err, TR_EFORMAT, "snapshot", "snapshot %s: it is no snapshot", name);
    f->bytes = (uint64_t)st.st_size;
    const char *why = check_head(&f->head, f->bytes);
    if (why)
        return tr_err_set(err, TR_EFORMAT, "snapshot", "snapshot %s: %s", name, why);
    why = facts ? check_facts(&f->head.facts, facts) : NULL;
    if (why)
        return tr_err_set(err, TR_EINVAL, "snapshot", "snapshot %s was made with %s", name, why);
    size_t bytes = f->head.n_tokens * sizeof *f->ids;
    f->ids = malloc(bytes);
    if (!f->ids)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (read_all(f->fd, f->ids, bytes) < 0 || !tr_hash_equal(tr_hash(f->ids, bytes), f->head.ids))
        return tr_err_set(err, TR_EFORMAT, "snapshot", "snapshot %s: its token ids are damaged",
                          name);
    return 0;
}

int tr_snapshot_open(struct tr_snapshot_file **ret, const char *dir, const char *name,
                     const struct tr_snapshot_facts *facts, struct tr_err *err)
{
    char path[4096];
    struct tr_snapshot_file *f = calloc(1, sizeof *f);
    if (!f)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int n = snprintf(path, sizeof path, "%s/%s.snapshot", dir, name);
    f->fd = n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    int r = f->fd < 0 ? tr_err_set(err, TR_ENOTFOUND, "snapshot", "there is no snapshot %s", name)
                      : load(f, name, facts, err);
    if (r < 0) {
        tr_snapshot_close(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct tr_snapshot_file *tr_snapshot_close(struct tr_snapshot_file *f)
{
    if (!f)
        return NULL;
    if (f->fd >= 0)
        close(f->fd);
    free(f->ids);
    free(f);
    return NULL;
}

struct tr_snapshot_content tr_snapshot_content(const struct tr_snapshot_file *f)
{
    return (struct tr_snapshot_content){.ids = f->ids,
                                        .n_tokens = (int64_t)f->head.n_tokens,
                                        .n_local = (int64_t)f->head.n_local,
                                        .n_global = (int64_t)f->head.n_global,
                                        .owner = {f->head.facts.owner[0], f->head.facts.owner[1]},
                                        .bytes = f->bytes,
                                        .created = (int64_t)f->head.created};
}

static int read_page(struct tr_snapshot_file *f, struct page_head expected, void *data,
                     uint64_t bytes, struct tr_err *err)
{
    struct page_head h;
    if (read_all(f->fd, &h, sizeof h) < 0 || read_all(f->fd, data, bytes) < 0)
        return tr_err_set(err, TR_EIO, "snapshot", "the snapshot cannot be read");
    if (h.kind != expected.kind || h.start != expected.start ||
        !tr_hash_equal(h.key, expected.key) || !tr_hash_equal(h.checksum, tr_hash(data, bytes)))
        return tr_err_set(
            err, TR_EFORMAT, "snapshot", "the snapshot's %s page at token %lld is damaged",
            expected.kind == KIND_LOCAL ? "local" : "global", (long long)expected.start);
    return 0;
}

int tr_snapshot_read(struct tr_snapshot_file *f, const struct tr_local_table *local,
                     const struct tr_global_table *global, struct tr_err *err)
{
    const struct head *h = &f->head;
    struct page_walk w = walk_begin(h, f->ids);
    int64_t n_pages = (int64_t)(h->n_tokens / h->facts.page_tokens);
    int r = 0;
    for (int64_t i = 0; i < n_pages && r == 0; i++) {
        tr__prefix_advance(&w.chain, w.page_tokens, f->ids);
        if (h->n_global)
            r = read_page(f, identity(&w, KIND_GLOBAL), global->table.data[i],
                          h->facts.global_page_bytes, err);
        if (r == 0 && i >= n_pages - (int64_t)h->n_local)
            r = read_page(f, identity(&w, KIND_LOCAL), local->table.data[i - local->table.first],
                          h->facts.local_page_bytes, err);
    }
    return r;
}
