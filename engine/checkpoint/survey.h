/* A look at every tensor of a checkpoint: what it is, and whether its values can be right. */
#ifndef TR_ENGINE_CHECKPOINT_SURVEY_H
#define TR_ENGINE_CHECKPOINT_SURVEY_H

#include "engine/machine/pool.h"
#include "engine/types.h"

/* Checks names, types and shapes as loading does, then reads every value once, on the pool's
 * threads, and keeps none. fn hears of each tensor in the order of the names (10 after 2), on the
 * calling thread. What loading would refuse is refused. */
TR_NODISCARD int tr_survey(const char *model, enum tr_weights_choice choice, struct tr_pool *pool,
                           tr_tensor_fn fn, void *arg, struct tr_err *err);

#endif
