/* Names to structs: which tensor is which weight, in either kind of checkpoint. */
#ifndef TR_ENGINE_CHECKPOINT_BIND_H
#define TR_ENGINE_CHECKPOINT_BIND_H

#include "engine/checkpoint/plan.h"

/* Allocates w->layers for w->config, fills in every matrix' n and k, and adds a slot to the plan
 * for each weight, in the order of the arena. Marks the tensors it uses. TR_EFORMAT with all
 * missing names in one message, else with the first tensor whose shape or type is wrong. On
 * failure w holds what was allocated. */
TR_NODISCARD int tr__bind(struct tr_weights *w, struct tr_source *s, enum tr_checkpoint_kind kind,
                          struct tr_load_plan *plan, struct tr_err *err);

/* Warns of the tensors that no weight uses, in one line; nothing if there are none. */
void tr__bind_unused(struct tr_source *s);

#endif
