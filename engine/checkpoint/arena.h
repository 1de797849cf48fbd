/*
 * * Memory for weights: anonymous and zeroed, to be filled; or a file, mapped read-only. In huge
 * pages where the machine gives them.
 */
#ifndef TR_ENGINE_CHECKPOINT_ARENA_H
#define TR_ENGINE_CHECKPOINT_ARENA_H

#include "config/base.h"
#include "config/err.h"

struct tr_promoter;

struct tr_arena {
    uint8_t *data;                /* a multiple of 4096; NULL if bytes is 0 */
    uint64_t bytes;               /* asked for */
    void *mapping;                /* what to unmap */
    uint64_t mapped;              /* bytes of it */
    uint8_t *file;                /* where the file begins; NULL: anonymous */
    int fd;                       /* of the file, owned; only if there is one */
    struct tr_promoter *promoter; /* NULL: there is none */
};

/* TR_ENOMEM with both figures if more is asked for than the machine or the cgroup has left. data is
 * aligned to 2 MiB. */
TR_NODISCARD int tr__arena_init(struct tr_arena *a, uint64_t bytes, struct tr_err *err);
/* The same for the bytes from `offset` (a multiple of 4096) to the end of a file, which stay there.
 * Also TR_ENOTFOUND: this file can't be mapped. */
TR_NODISCARD int tr__arena_map(struct tr_arena *a, int fd, uint64_t offset, uint64_t bytes,
                               struct tr_err *err);
/* Moves what is mapped into huge pages of memory on a thread of its own, where that has a use. May
 * be called once; whoever reads the arena meanwhile sees no difference. */
void tr__arena_promote(struct tr_arena *a);
void tr__arena_done(struct tr_arena *a); /* a zeroed struct is fine */

#endif
