/* Memory for weights: anonymous, zeroed, in huge pages where the machine gives them. */
#ifndef TR_ENGINE_CHECKPOINT_ARENA_H
#define TR_ENGINE_CHECKPOINT_ARENA_H

#include "config/base.h"
#include "config/err.h"

struct tr_arena {
    uint8_t *data;  /* aligned to 2 MiB; NULL if bytes is 0 */
    uint64_t bytes; /* asked for */
    void *mapping;  /* what to unmap */
    uint64_t mapped;
};

/* TR_ENOMEM with both figures if more is asked for than the machine or the cgroup has left. */
TR_NODISCARD int tr_arena_init(struct tr_arena *a, uint64_t bytes, struct tr_err *err);
void tr_arena_done(struct tr_arena *a); /* a zeroed struct is fine */

#endif
