#include "engine/checkpoint/cost.h"

/* Adds a matrix: its bytes in memory, and a multiplication and an addition for every weight. */
static void add_matrix(const struct tr_matrix *m, uint64_t *bytes, uint64_t *flops)
{
    *bytes += tr_packed_bytes(m->type, m->n, m->k);
    *flops += 2 * (uint64_t)m->n * (uint64_t)m->k;
}

static void add_mlp(const struct tr_mlp *mlp, uint64_t *bytes, uint64_t *flops)
{
    if (mlp->gate.n == 0)
        return;
    add_matrix(&mlp->gate, bytes, flops);
    add_matrix(&mlp->up, bytes, flops);
    add_matrix(&mlp->down, bytes, flops);
}

uint64_t tr_mlp_bytes(const struct tr_mlp *mlp)
{
    uint64_t bytes = 0;
    uint64_t flops = 0;
    add_mlp(mlp, &bytes, &flops);
    return bytes;
}

static void add_experts(const struct tr_model_config *c, const struct tr_layer *layer,
                        struct tr_cost *cost)
{
    uint64_t weights = (uint64_t)c->n_experts * (uint64_t)c->hidden_size;
    uint64_t one = 0;
    cost->step_bytes += weights * (layer->router_f32 ? sizeof(float) : sizeof(uint16_t));
    cost->token_flops += 2 * weights;
    for (int i = 0; i < c->n_experts; i++) {
        one = 0; /* all experts have one shape */
        add_mlp(&layer->experts[i], &cost->expert_bytes, &one);
    }
    cost->token_flops += (uint64_t)c->n_active * one;
}

struct tr_cost tr_weights_cost(const struct tr_weights *w)
{
    const struct tr_model_config *c = &w->config;
    struct tr_cost cost = {0};
    for (int i = 0; i < c->n_layers; i++) {
        const struct tr_layer *layer = &w->layers[i];
        const struct tr_matrix *attention[] = {&layer->q, &layer->k, &layer->v, &layer->gate,
                                               &layer->o};
        for (size_t j = 0; j < TR_ARRAY_LEN(attention); j++)
            add_matrix(attention[j], &cost.step_bytes, &cost.token_flops);
        add_mlp(&layer->mlp, &cost.step_bytes, &cost.token_flops);
        if (layer->experts)
            add_experts(c, layer, &cost);
    }
    uint64_t head_flops = 0; /* prompt tokens do not meet it */
    add_matrix(&w->head, &cost.step_bytes, &head_flops);
    return cost;
}
