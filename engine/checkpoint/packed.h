/*
 * The packed cache: an arena on disk, so that the next start has what this one computed.
 *
 * A file says which files, sizes and times it was made from, and carries a checksum. One that does
 * not match is as good as none: it is made again.
 */
#ifndef TR_ENGINE_CHECKPOINT_PACKED_H
#define TR_ENGINE_CHECKPOINT_PACKED_H

#include "config/hash.h"
#include "engine/checkpoint/arena.h"
#include "engine/checkpoint/plan.h"

struct tr_packed {
    char *path;         /* owned; of the cache file */
    struct tr_hash key; /* of everything that the arena was made from */
};

/* Where the cache of this plan is, and what it must say. `model` is the path of the checkpoint.
 * TR_ENOMEM. */
TR_NODISCARD int tr__packed_init(struct tr_packed *p, const char *folder, const char *model,
                                 const struct tr_load_plan *plan,
                                 const struct tr_model_config *config, const struct tr_source *s,
                                 enum tr_weights_choice choice, struct tr_err *err);
void tr__packed_done(struct tr_packed *p); /* a zeroed struct is fine */

/* Makes the arena of the file, on the pool's threads: maps it, or reads it if options->use_mmap is
 * false. 0; TR_ENOTFOUND: there is no such file; any other: the file is stale or damaged, err says
 * which. After a failure there is no arena. */
TR_NODISCARD int tr__packed_read(const struct tr_packed *p, struct tr_arena *arena, uint64_t bytes,
                                 const struct tr_weights_options *options,
                                 struct tr_hash *ret_values, struct tr_err *err);
/* Writes it beside and renames: whoever reads sees all of it or nothing. */
TR_NODISCARD int tr__packed_write(const struct tr_packed *p, const uint8_t *arena, uint64_t bytes,
                                  struct tr_hash values, struct tr_err *err);

/* The same on a thread of its own, which takes *p over (an empty one stays) and tells `done` how it
 * ended, unless it was stopped. The arena must live and keep still until tr__packed_writer_stop.
 * TR_ENOMEM. */
struct tr_packed_writer;
TR_NODISCARD int tr__packed_writer_start(struct tr_packed_writer **ret, struct tr_packed *p,
                                         const uint8_t *arena, uint64_t bytes,
                                         struct tr_hash values, tr_packed_fn done, void *arg,
                                         struct tr_err *err);
/* Ends it, in the middle if need be: there is no file then. NULL ok. */
void tr__packed_writer_stop(struct tr_packed_writer *w);

#endif
