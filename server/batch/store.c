#include "server/batch/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/json.h"

enum { HEX = 24, TIME_HEX = 14, OWNER = 2 * SRV_STORE_SHA, NAME = SRV_STORE_ID + 16 };

struct srv_store {
    char *dir;
    int fd; /* of the folder */
    uint64_t quota;
    pthread_mutex_t lock;
    uint64_t used; /* under the lock: bytes of all files, records aside */
};

static const char *const suffixes[] = {"json", "data", "part"};

static int fail(struct tr_err *err, const char *what)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return tr_err_set(err, full ? TR_EFULL : TR_EIO, NULL, "%s: %s", what, strerror(errno));
}

/* ---- names ---- */

static void owner_name(char ret[OWNER + 1], const unsigned char sha[SRV_STORE_SHA])
{
    for (int i = 0; i < SRV_STORE_SHA; i++)
        snprintf(ret + 2 * i, 3, "%02x", sha[i]);
}

static bool parse_owner(const char *name, unsigned char sha[SRV_STORE_SHA])
{
    if (strlen(name) != OWNER || strspn(name, "0123456789abcdef") != OWNER)
        return false;
    for (int i = 0; i < SRV_STORE_SHA; i++) {
        const char pair[] = {name[2 * i], name[2 * i + 1], '\0'};
        sha[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return true;
}

void srv_store_new_id(char ret[SRV_STORE_ID], const char *prefix)
{
    struct timespec now;
    uint64_t random = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint64_t)now.tv_nsec;
    snprintf(ret, SRV_STORE_ID, "%s%0*llx%0*llx", prefix, TIME_HEX,
             (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000,
             HEX - TIME_HEX, (unsigned long long)random & 0xffffffffffULL);
}

bool srv_store_is_id(const char *id, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(id, prefix, n) == 0 && strlen(id + n) == HEX &&
           strspn(id + n, "0123456789abcdef") == HEX;
}

static void file_name(char ret[NAME], const char *id, const char *suffix)
{
    snprintf(ret, NAME, "%s.%s", id, suffix);
}

/* The owner's folder, which is made if `make`; -1 with errno. */
static int open_owner(const struct srv_owner *o, bool make)
{
    char name[OWNER + 1];
    owner_name(name, o->sha);
    if (make && mkdirat(o->store->fd, name, 0700) < 0 && errno != EEXIST)
        return -1;
    return openat(o->store->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

char *srv_store_path(const struct srv_owner *o, const char *id, const char *suffix)
{
    char name[OWNER + 1];
    struct tr_buf b = {0};
    owner_name(name, o->sha);
    tr_buf_addf(&b, "%s/%s/%s.%s", o->store->dir, name, id, suffix);
    if (b.oom)
        tr_buf_done(&b);
    return b.data;
}

int srv_store_file(const struct srv_owner *o, const char *id, const char *suffix, int flags)
{
    char name[NAME];
    int dir = open_owner(o, (flags & O_CREAT) != 0);
    file_name(name, id, suffix);
    int fd = dir < 0 ? -1 : openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    int e = errno;
    if (dir >= 0)
        close(dir);
    errno = e;
    return fd;
}

/* ---- room ---- */

int srv_store_take(struct srv_store *st, uint64_t n, struct tr_err *err)
{
    pthread_mutex_lock(&st->lock);
    bool fits = st->quota == 0 || (st->used <= st->quota && n <= st->quota - st->used);
    if (fits)
        st->used += n;
    pthread_mutex_unlock(&st->lock);
    return fits ? 0
                : tr_err_set(err, TR_EFULL, NULL,
                             "no room for more files (batch_quota): delete some");
}

void srv_store_give(struct srv_store *st, uint64_t n)
{
    pthread_mutex_lock(&st->lock);
    st->used -= TR_MIN(n, st->used);
    pthread_mutex_unlock(&st->lock);
}

void srv_store_charge(struct srv_store *st, uint64_t n)
{
    pthread_mutex_lock(&st->lock);
    st->used += n;
    pthread_mutex_unlock(&st->lock);
}

bool srv_store_full(struct srv_store *st, uint64_t n)
{
    pthread_mutex_lock(&st->lock);
    bool full = st->quota > 0 && (st->used > st->quota || n > st->quota - st->used);
    pthread_mutex_unlock(&st->lock);
    return full;
}

int srv_store_put(int fd, const char *bytes, size_t n, struct tr_err *err)
{
    while (n > 0) {
        ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail(err, "the file cannot be written");
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

/* ---- objects ---- */

static int newest_first(const void *a, const void *b)
{
    return -strcmp(a, b);
}

int srv_store_list(const struct srv_owner *o, const char *prefix, char (**ret)[SRV_STORE_ID],
                   size_t *ret_n, struct tr_err *err)
{
    char(*ids)[SRV_STORE_ID] = NULL;
    size_t n = 0, cap = 0;
    int fd = open_owner(o, false), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *e; dir && r == 0 && (e = readdir(dir));) {
        char id[SRV_STORE_ID];
        size_t len = strlen(e->d_name);
        if (len < 6 || len - 5 >= sizeof id || strcmp(e->d_name + len - 5, ".json") != 0)
            continue;
        snprintf(id, sizeof id, "%.*s", (int)(len - 5), e->d_name);
        if (!srv_store_is_id(id, prefix))
            continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 64;
            void *grown = realloc(ids, cap * sizeof *ids);
            if (!grown) {
                r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
                break;
            }
            ids = grown;
        }
        memcpy(ids[n++], id, sizeof id);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    if (r < 0) {
        free(ids);
        return r;
    }
    if (n > 1)
        qsort(ids, n, sizeof *ids, newest_first);
    *ret = ids;
    *ret_n = n;
    return 0;
}

int srv_store_read(const struct srv_owner *o, const char *id, struct tr_buf *ret,
                   struct tr_err *err)
{
    int fd = srv_store_file(o, id, "json", O_RDONLY);
    if (fd < 0)
        return tr_err_set(err, TR_ENOTFOUND, NULL, "there is no %s", id);
    size_t n = 0;
    int r = 0;
    for (;;) {
        char *at = n < SRV_STORE_RECORD ? tr_buf_reserve(ret, 4096) : NULL;
        ssize_t got = at ? read(fd, at, 4096) : -1;
        if (got < 0 && at && errno == EINTR)
            continue;
        if (got < 0)
            r = tr_err_set(err, TR_EIO, NULL, "the record of %s cannot be read", id);
        if (got <= 0)
            break;
        ret->len += (size_t)got;
        n += (size_t)got;
    }
    close(fd);
    return r;
}

int srv_store_rename(const struct srv_owner *o, const char *id, const char *from, const char *to_id,
                     const char *to, struct tr_err *err)
{
    char a[NAME], b[NAME];
    file_name(a, id, from);
    file_name(b, to_id, to);
    int dir = open_owner(o, false);
    int r = dir < 0 ? -1 : renameat(dir, a, dir, b);
    if (r < 0)
        r = fail(err, "the file cannot be put in its place");
    if (dir >= 0)
        close(dir);
    return r;
}

int srv_store_write(const struct srv_owner *o, const char *id, const struct tr_buf *record,
                    struct tr_err *err)
{
    if (record->oom)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    int fd = srv_store_file(o, id, "new", O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0)
        return fail(err, "nothing can be written");
    int r = srv_store_put(fd, record->data, record->len, err);
    if (r == 0 && fdatasync(fd) < 0)
        r = fail(err, "the file cannot be written");
    close(fd);
    if (r == 0)
        r = srv_store_rename(o, id, "new", id, "json", err);
    if (r < 0)
        srv_store_remove(o, id, "new");
    return r;
}

bool srv_store_remove(const struct srv_owner *o, const char *id, const char *suffix)
{
    int dir = open_owner(o, false);
    bool found = false;
    for (size_t i = 0; dir >= 0 && i < (suffix ? 1 : TR_ARRAY_LEN(suffixes)); i++) {
        const char *which = suffix ? suffix : suffixes[i];
        char name[NAME];
        struct stat st;
        file_name(name, id, which);
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || unlinkat(dir, name, 0) < 0)
            continue;
        found = true;
        if (strcmp(which, "data") == 0)
            srv_store_give(o->store, (uint64_t)st.st_size);
    }
    if (dir >= 0)
        close(dir);
    return found;
}

int srv_store_add_file(const struct srv_owner *o, const char *id, uint64_t bytes, const char *name,
                       size_t name_bytes, const char *purpose, struct tr_err *err)
{
    struct tr_buf b = {0};
    tr_buf_addf(&b, "{\"id\":\"%s\",\"object\":\"file\",\"bytes\":%llu,\"created_at\":%lld,", id,
                (unsigned long long)bytes, (long long)time(NULL));
    tr_buf_adds(&b, "\"filename\":");
    tr_json_quote(&b, name, name_bytes);
    tr_buf_addf(&b,
                ",\"purpose\":\"%s\",\"status\":\"processed\",\"expires_at\":null,"
                "\"status_details\":null}",
                purpose);
    int r = srv_store_write(o, id, &b, err);
    tr_buf_done(&b);
    return r;
}

/* ---- the folder ---- */

/* Counts an owner's files, and removes what no record speaks of. */
static void look_through(void *arg, const struct srv_owner *o)
{
    (void)arg;
    int fd = open_owner(o, false);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        char id[NAME], record[NAME + 8];
        const char *dot = strchr(e->d_name, '.');
        if (!dot || dot == e->d_name || (size_t)(dot - e->d_name) >= SRV_STORE_ID)
            continue;
        snprintf(id, sizeof id, "%.*s", (int)(dot - e->d_name), e->d_name);
        snprintf(record, sizeof record, "%s.json", id);
        bool stray = strcmp(dot, ".new") == 0 || faccessat(fd, record, F_OK, 0) < 0;
        if (stray)
            unlinkat(fd, e->d_name, 0);
        else if (strcmp(dot, ".data") == 0 && fstatat(fd, e->d_name, &st, 0) == 0)
            o->store->used += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
}

void srv_store_owners(struct srv_store *st, void (*fn)(void *arg, const struct srv_owner *o),
                      void *arg)
{
    struct srv_owner o = {.store = st};
    int fd = openat(st->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (parse_owner(e->d_name, o.sha))
            fn(arg, &o);
    if (dir)
        closedir(dir);
}

int srv_store_open(struct srv_store **ret, const char *dir, uint64_t quota, struct tr_err *err)
{
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return tr_err_set(err, TR_ECONFIG, "batch_dir", "batch_dir: %s: %s", dir, strerror(errno));
    struct srv_store *st = calloc(1, sizeof *st);
    char *copy = strdup(dir);
    if (!st || !copy) {
        free(st);
        free(copy);
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    }
    st->dir = copy;
    st->quota = quota;
    pthread_mutex_init(&st->lock, NULL);
    st->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (st->fd < 0 || faccessat(st->fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
        tr_err_set(err, TR_ECONFIG, "batch_dir", "batch_dir: %s: %s", dir, strerror(errno));
        srv_store_close(st);
        return TR_ECONFIG;
    }
    srv_store_owners(st, look_through, NULL);
    *ret = st;
    return 0;
}

void srv_store_close(struct srv_store *st)
{
    if (!st)
        return;
    if (st->fd >= 0)
        close(st->fd);
    pthread_mutex_destroy(&st->lock);
    free(st->dir);
    free(st);
}
