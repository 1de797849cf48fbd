/*
 * The arena; see arena.h. Decoding reads all of it at every token, so one TLB entry for 2 MiB
 * instead of 4 KiB is worth a tenth of its speed; only anonymous memory gets them.
 */
#include "engine/checkpoint/arena.h"

#include <sys/mman.h>

#include "engine/kernels/pool.h"

#define HUGE ((uint64_t)2 << 20)

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

int tr_arena_init(struct tr_arena *a, uint64_t bytes, struct tr_err *err)
{
    *a = (struct tr_arena){.bytes = bytes};
    if (bytes == 0)
        return 0;
    /* Asking for too much would succeed here, and end the process at some later touch. */
    uint64_t left = tr_memory_left("/sys/fs/cgroup");
    uint64_t mapped;
    if (bytes > left || __builtin_add_overflow(bytes, 2 * HUGE, &mapped))
        return tr_err_set(err, TR_ENOMEM, NULL, "the weights need %.2f GiB, %.2f GiB are left",
                          gib(bytes), gib(left));
    void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return tr_err_set(err, TR_ENOMEM, NULL, "no %.2f GiB of address space for the weights",
                          gib(mapped));
    a->mapping = p;
    a->mapped = mapped;
    a->data = (uint8_t *)TR_ROUND_UP((uintptr_t)p, HUGE);
    (void)madvise(a->data, TR_ROUND_UP(bytes, HUGE), MADV_HUGEPAGE);
    return 0;
}

void tr_arena_done(struct tr_arena *a)
{
    if (a->mapping)
        munmap(a->mapping, a->mapped);
    *a = (struct tr_arena){0};
}
