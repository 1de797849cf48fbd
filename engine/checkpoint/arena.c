/*
 * The arena; see arena.h. Decoding reads all of it at every token, so one TLB entry for 2 MiB
 * instead of 4 KiB is worth a tenth of its speed. A file is mapped at an address that agrees with
 * its offsets modulo 2 MiB: where the page cache holds it in huge pages, it is mapped in them.
 *
 * The file must not be truncated or written to while it is mapped: that would end the process with
 * SIGBUS, or change answers. It is the daemon's own (mode 0600), is written under another name and
 * only ever replaced by a rename, which leaves the mapped one alone.
 */
#include "engine/checkpoint/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/promote.h"
#include "engine/machine/machine.h"
#include "engine/machine/pool.h"

#define HUGE ((uint64_t)2 << 20)

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

/* Addresses for `bytes`, from a multiple of 2 MiB to another. */
static int reserve(struct tr_arena *a, uint64_t bytes, int protection, uint8_t **ret,
                   struct tr_err *err)
{
    /* Asking for too much would succeed here, and end the process at some later touch. */
    uint64_t left = tr_memory_left(TR_CGROUP_ROOT);
    uint64_t mapped;
    if (bytes > left || __builtin_add_overflow(bytes, 2 * HUGE, &mapped))
        return tr_err_set(err, TR_ENOMEM, NULL, "the weights need %.2f GiB, %.2f GiB are left",
                          gib(bytes), gib(left));
    void *p = mmap(NULL, mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return tr_err_set(err, TR_ENOMEM, NULL, "no %.2f GiB of address space for the weights",
                          gib(mapped));
    a->mapping = p;
    a->mapped = mapped;
    *ret = (uint8_t *)TR_ROUND_UP((uintptr_t)p, HUGE);
    return 0;
}

int tr__arena_init(struct tr_arena *a, uint64_t bytes, struct tr_err *err)
{
    *a = (struct tr_arena){.bytes = bytes};
    if (bytes == 0)
        return 0;
    int r = reserve(a, bytes, PROT_READ | PROT_WRITE, &a->data, err);
    if (!r)
        (void)madvise(a->data, TR_ROUND_UP(bytes, HUGE), MADV_HUGEPAGE);
    return r;
}

int tr__arena_map(struct tr_arena *a, int fd, uint64_t offset, uint64_t bytes, struct tr_err *err)
{
    *a = (struct tr_arena){.bytes = bytes};
    if (bytes == 0)
        return 0;
    uint8_t *file = NULL;
    int r = reserve(a, offset + bytes, PROT_NONE, &file, err);
    if (r)
        return r;
    void *p = mmap(file, offset + bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0);
    int copy = p == MAP_FAILED ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        tr__arena_done(a);
        return tr_err_set(err, TR_ENOTFOUND, NULL, "can't be mapped");
    }
    /* Also lets the kernel read it into huge pages, if the file system can hold such. */
    (void)madvise(file, offset + bytes, MADV_HUGEPAGE);
    a->file = file;
    a->fd = copy;
    a->data = file + offset;
    return 0;
}

void tr__arena_promote(struct tr_arena *a)
{
    if (a->file)
        a->promoter = tr__promoter_start(a->file, (uint64_t)(a->data - a->file) + a->bytes, a->fd);
}

void tr__arena_done(struct tr_arena *a)
{
    tr__promoter_stop(a->promoter);
    if (a->mapping)
        munmap(a->mapping, a->mapped);
    if (a->file)
        close(a->fd);
    *a = (struct tr_arena){0};
}
