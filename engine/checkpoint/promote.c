/*
 * The promoter; see promote.h.
 *
 * It works in pieces of 32 MiB. Each may become a mapping of its own, of which a process may have
 * 65,530; as all come from one range of fresh addresses, in order, the kernel in fact merges them.
 * What the page cache holds in huge pages stays where it is: it is as fast, shared with the next
 * start, and costs nothing. Whatever fails, fails for good, and the file goes on serving.
 */
#include "engine/checkpoint/promote.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/thread.h"
#include "engine/machine/machine.h"

#define HUGE  ((uint64_t)2 << 20)
#define PIECE (16 * HUGE)

struct tr_promoter {
    uint8_t *file;
    uint64_t bytes; /* of the file */
    int fd;         /* borrowed */
    uint8_t *fresh; /* [bytes], as aligned as the file: where copies are made */
    bool drop;      /* there is no room for the file in the page cache as well */
    pthread_t thread;
    atomic_bool stop;
    atomic_bool ended;
    atomic_ullong moved; /* bytes */
};

/* ---- what is huge already ---- */

/* From linux/fs.h of Linux 6.7, which is newer than the headers we build with. */
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, n_regions, max_pages;
    uint64_t inverted, mask, anyof, wanted;
};
struct region {
    uint64_t start, end, categories;
};
#define SCAN    _IOWR('f', 16, struct scan)
#define IS_HUGE ((uint64_t)1 << 6)

/* Bytes of [at, at + n) that are mapped by huge pages; -1: this kernel does not say. n: at most a
 * piece. */
static int64_t huge_bytes(const uint8_t *at, uint64_t n)
{
    struct region regions[PIECE / HUGE];
    struct scan s = {.size = sizeof s,
                     .start = (uintptr_t)at,
                     .end = (uintptr_t)at + n,
                     .regions = (uintptr_t)regions,
                     .n_regions = TR_ARRAY_LEN(regions),
                     .mask = IS_HUGE,
                     .wanted = IS_HUGE};
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int found = fd < 0 ? -1 : ioctl(fd, SCAN, &s);
    if (fd >= 0)
        close(fd);
    int64_t sum = found < 0 ? -1 : 0;
    for (int i = 0; i < found; i++)
        sum += (int64_t)(regions[i].end - regions[i].start);
    return sum;
}

/* Has the administrator switched huge pages off? */
static bool are_off(void)
{
    char text[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!f)
        return true;
    bool off = !fgets(text, sizeof text, f) || strstr(text, "[never]");
    fclose(f);
    return off;
}

/* Of a piece. The two ends of a file are never huge and not worth it. */
static bool is_small(const uint8_t *at, uint64_t n)
{
    return huge_bytes(at, n) < (int64_t)(n - TR_MIN(n, 2 * HUGE));
}

/* ---- the thread ---- */

/* Moves one piece. False: it stays where it is. */
static bool move(struct tr_promoter *p, uint64_t at, uint64_t n)
{
    uint8_t *fresh = p->fresh + at;
    uint64_t whole = TR_ROUND_UP(n, HUGE);
    /* What is still mapped from the file counts as left, but is in use. */
    if (tr_memory_left(TR_CGROUP_ROOT) < p->bytes - atomic_load(&p->moved) + PIECE)
        return false;
    for (uint64_t i = 0; i < n; i += HUGE) {
        if (atomic_load(&p->stop))
            return false;
        memcpy(fresh + i, p->file + at + i, TR_MIN(HUGE, n - i));
    }
    /* None: memory is too fragmented, and nothing would be gained. */
    if (huge_bytes(fresh, whole) == 0)
        return false;
    if (mprotect(fresh, whole, PROT_READ) ||
        mremap(fresh, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, p->file + at) == MAP_FAILED)
        return false;
    if (p->drop)
        (void)posix_fadvise(p->fd, (off_t)at, (off_t)n, POSIX_FADV_DONTNEED);
    atomic_fetch_add(&p->moved, n);
    return true;
}

static void *work(void *arg)
{
    struct tr_promoter *p = arg;
    uint64_t whole = TR_ROUND_UP(p->bytes, HUGE);
    uint64_t at = 0;
    bool going = true;
    /* In nobody's way, but not to be starved by the compute threads for ever. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    while (going && at < p->bytes && !atomic_load(&p->stop)) {
        uint64_t n = TR_MIN(PIECE, p->bytes - at);
        bool small = is_small(p->file + at, n);
        bool moved = small && move(p, at, n);
        /* Where a piece was moved away others may have mapped something since: only what has not
         * been moved is ours. */
        if (!moved)
            munmap(p->fresh + at, TR_ROUND_UP(n, HUGE));
        going = moved || !small;
        at += TR_ROUND_UP(n, HUGE);
    }
    if (at < whole)
        munmap(p->fresh + at, whole - at);
    atomic_store(&p->ended, true);
    return NULL;
}

/* Addresses for `bytes` of copies, and no more than these. */
static uint8_t *reserve(uint64_t bytes)
{
    uint64_t mapped = bytes + HUGE;
    void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    uint8_t *from = p;
    uint8_t *aligned = (uint8_t *)TR_ROUND_UP((uintptr_t)p, HUGE);
    if (aligned > from)
        munmap(from, (size_t)(aligned - from));
    munmap(aligned + bytes, (size_t)(from + mapped - (aligned + bytes)));
    (void)madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

struct tr_promoter *tr__promoter_start(uint8_t *file, uint64_t bytes, int fd)
{
    struct tr_promoter *p = are_off() || bytes == 0 ? NULL : calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->file = file;
    p->bytes = bytes;
    p->fd = fd;
    p->drop = tr_memory_left(TR_CGROUP_ROOT) / 2 < bytes;
    p->fresh = reserve(TR_ROUND_UP(bytes, HUGE));
    if (p->fresh && tr_thread_start(&p->thread, "promote", work, p) == 0)
        return p;
    if (p->fresh)
        munmap(p->fresh, TR_ROUND_UP(bytes, HUGE));
    free(p);
    return NULL;
}

void tr__promoter_stop(struct tr_promoter *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    free(p);
}

bool tr__promoter_ended(const struct tr_promoter *p, uint64_t *ret_moved)
{
    bool ended = atomic_load(&p->ended);
    *ret_moved = atomic_load(&p->moved);
    return ended;
}
