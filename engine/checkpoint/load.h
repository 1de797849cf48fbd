/* Filling the arena from the files: read, convert, pack, hash, on all threads of the pool. */
#ifndef TR_ENGINE_CHECKPOINT_LOAD_H
#define TR_ENGINE_CHECKPOINT_LOAD_H

#include "config/hash.h"
#include "engine/checkpoint/plan.h"

/* At most so many bytes of a file are in a thread's buffer (one panel of rows, if that is more). */
enum { TR_LOAD_CHUNK = 1 << 20 };

/* Reads every byte that a slot needs, in the files' order, once; fills the arena
 * (plan->arena_bytes). *ret_values is a hash of the weights' bytes in the plan's order, the same
 * for every number of threads. The slots learn what converting lost. With `drop` the files' pages
 * leave the page cache behind the reader. TR_EIO, TR_ENOMEM. */
TR_NODISCARD int tr__load(struct tr_load_plan *plan, const struct tr_source *s, uint8_t *arena,
                          bool drop, const struct tr_weights_options *options,
                          struct tr_hash *ret_values, struct tr_err *err);

#endif
