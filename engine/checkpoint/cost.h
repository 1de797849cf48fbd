/* What a token costs with these weights: the figures that measured speed is held against. */
#ifndef TR_ENGINE_CHECKPOINT_COST_H
#define TR_ENGINE_CHECKPOINT_COST_H

#include "engine/checkpoint/weights.h"

struct tr_cost {
    uint64_t step_bytes;   /* read by every step that samples: no embedding, no experts */
    uint64_t expert_bytes; /* all experts of all layers */
    uint64_t token_flops;  /* 2 x the weights that a prompt token meets; the head is not one */
};
struct tr_cost tr_weights_cost(const struct tr_weights *w);
/* Bytes of its weights in memory. */
uint64_t tr_mlp_bytes(const struct tr_mlp *mlp);

#endif
