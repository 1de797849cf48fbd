/*
 * The packed cache: an arena on disk, so that the next start reads what this one computed.
 *
 * A file says which files, sizes and times it was made from, and carries a checksum. One that does
 * not match is as good as none: it is made again.
 */
#ifndef TR_ENGINE_CHECKPOINT_PACKED_H
#define TR_ENGINE_CHECKPOINT_PACKED_H

#include "config/hash.h"
#include "engine/checkpoint/plan.h"

struct tr_packed {
    char *path;         /* owned; of the cache file */
    struct tr_hash key; /* of everything that the arena was made from */
};

/* Where the cache of this plan is, and what it must say. `model` is the path of the checkpoint.
 * TR_ENOMEM. */
TR_NODISCARD int tr_packed_init(struct tr_packed *p, const char *folder, const char *model,
                                const struct tr_plan *plan, const struct tr_model_config *config,
                                const struct tr_source *s, enum tr_weights_choice choice,
                                struct tr_err *err);
void tr_packed_done(struct tr_packed *p); /* a zeroed struct is fine */

/* Fills the arena on the pool's threads. 0; TR_ENOTFOUND: there is no such file; any other: the
 * file is stale or damaged, err says which. The arena's content is undefined after a failure. */
TR_NODISCARD int tr_packed_read(const struct tr_packed *p, uint8_t *arena, uint64_t bytes,
                                const struct tr_weights_options *options,
                                struct tr_hash *ret_values, struct tr_err *err);
/* Writes it beside and renames: whoever reads sees all of it or nothing. */
TR_NODISCARD int tr_packed_write(const struct tr_packed *p, const uint8_t *arena, uint64_t bytes,
                                 struct tr_pool *pool, struct tr_hash values, struct tr_err *err);

#endif
