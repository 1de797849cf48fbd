/* What a token costs with these weights: the figures that measured speed is held against. */
#ifndef TR_ENGINE_CHECKPOINT_COST_H
#define TR_ENGINE_CHECKPOINT_COST_H

#include "engine/checkpoint/weights.h"

/* Fills step_bytes, expert_bytes, token_flops, n_experts and n_active_experts of info. */
void tr_weights_cost(const struct tr_weights *w, struct tr_engine_info *info);
/* Bytes of its weights in memory. */
uint64_t tr_mlp_bytes(const struct tr_mlp *mlp);

#endif
