/* Files of a checkpoint; see file.h. */
#include "engine/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Folders are the user's own and may be named as he likes; a file name goes into messages. */
static const char *printable_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (const char *p = name; *p; p++)
        if (*p < ' ' || *p > '~')
            return "(unprintable file name)";
    return name;
}

int tr__file_open(struct tr_file *f, const char *path, struct tr_err *err)
{
    *f = (struct tr_file){.fd = -1};
    f->path = strdup(path);
    if (!f->path)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    f->name = printable_name(f->path);
    int r = 0;
    struct stat st = {0};
    /* O_NONBLOCK: a FIFO in the place of a file must not stop us here. */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st))
        r = tr_err_set(err, TR_EIO, NULL, "%s: %s", f->name, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        r = tr_err_set(err, TR_EFORMAT, NULL, "%s: not a regular file", f->name);
    if (r) {
        tr__file_done(f);
        return r;
    }
    f->size = (uint64_t)st.st_size;
    f->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

void tr__file_forget(struct tr_file *f)
{
    if (f->path && f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

void tr__file_done(struct tr_file *f)
{
    tr__file_forget(f);
    if (f->map)
        munmap((void *)(uintptr_t)f->map, f->size);
    free(f->path);
    *f = (struct tr_file){.fd = -1};
}

int tr__file_read(const struct tr_file *f, uint64_t offset, void *dst, size_t n, struct tr_err *err)
{
    char *p = dst;
    while (n) {
        ssize_t got = pread(f->fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tr_err_set(err, TR_EIO, NULL, "%s: %s", f->name, strerror(errno));
        if (got == 0)
            return tr_err_set(err, TR_EIO, NULL, "%s: has no byte %llu any more", f->name,
                              (unsigned long long)offset);
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

bool tr__file_map(struct tr_file *f)
{
    if (f->map || f->size == 0)
        return f->map != NULL;
    void *p = mmap(NULL, f->size, PROT_READ, MAP_SHARED, f->fd, 0);
    if (p != MAP_FAILED)
        f->map = p;
    return f->map != NULL;
}
