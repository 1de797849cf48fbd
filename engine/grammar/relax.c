/*
 * Counters that no token can bring to a bound are forgotten before a mask is made, so that the
 * masks in the middle of a long string or list are one mask.
 */
#include <stdlib.h>

#include "engine/grammar/machine_internal.h"

static uint32_t relaxed(struct tr_grammar *g, uint32_t node, uint32_t count)
{
    const struct tr__rule *rule = &g->rules[g->nodes[node].rule];

    if (rule->named)
        return tr__name_relaxed(g, rule, count);
    if (!rule->counted || count == TR__FREE || count == TR__LOW)
        return count;
    if (count >= rule->min &&
        (rule->max == TR__NO_LIMIT || rule->max - count > g->longest + rule->margin))
        return TR__FREE;
    if (count + g->longest < rule->min)
        return TR__LOW;
    return count;
}

static uint32_t relax_stack(struct tr_grammar *g, uint32_t stack)
{
    struct tr__stack *s = tr__stack_at(g, stack);
    struct tr__items edges = {0};

    if (stack == TR__ROOT || g->r)
        return TR__ROOT;
    if (s->far)
        return s->far;
    for (uint32_t i = 0; i < s->n; i++) {
        struct tr__item e = s->edges[i];
        e.count = relaxed(g, e.node, e.count);
        e.stack = relax_stack(g, e.stack);
        tr__items_add(g, &edges, e);
    }
    tr__unite_items(g, &edges);
    if (g->r == 0)
        s->far = tr__stack_intern(g, edges.at, edges.n);
    free(edges.at);
    return s->far;
}

uint32_t tr__relax(struct tr_grammar *g, uint32_t config)
{
    struct tr__config *c = tr__config_at(g, config);

    if (c->far)
        return c->far;
    g->found.n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        struct tr__item item = c->items[i];
        item.count = relaxed(g, item.node, item.count);
        item.stack = relax_stack(g, item.stack);
        tr__items_add(g, &g->found, item);
    }
    c->far = tr__config_intern(g, &g->found, c->accept);
    return c->far;
}
