/*
 * One byte further: every item that takes the byte goes on through the nodes that take none.
 *
 * First what existed before the byte is followed, through ends of rules into the stacks below. Then
 * the calls met are made, in an order in which all calls of a rule are known before it is entered,
 * so that one entry, with one stack of all the callers' edges, does for all of them. A rule's
 * empty match is its caller's affair (the node after the call is visited at once), so an end of
 * rule met while entering counts for nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/machine_internal.h"

enum { SEEN_SLOTS = 64, NAME_FLAGS = TR__NODE_NAME | TR__NODE_NAME_BEGIN | TR__NODE_NAME_END };

static uint32_t slot_of(const struct tr__item *x, uint32_t cap)
{
    uint64_t h = (uint64_t)x->node * 0x9E3779B97F4A7C15u + x->count;

    h = (h ^ h >> 31) * 0xBF58476D1CE4E5B9u + x->stack;
    h *= 0x94D049BB133111EBu;
    return (uint32_t)(h >> 40) & (cap - 1);
}

static bool put_seen(struct tr_grammar *g, uint32_t index)
{
    const struct tr__item *x = &g->todo.at[index];
    uint32_t at = slot_of(x, g->seen.cap);

    for (; g->seen.slots[at]; at = (at + 1) & (g->seen.cap - 1)) {
        const struct tr__item *y = &g->todo.at[g->seen.slots[at] - 1];
        if (x->node == y->node && x->count == y->count && x->stack == y->stack)
            return false;
    }
    g->seen.slots[at] = index + 1;
    return true;
}

static void reset_seen(struct tr_grammar *g, uint32_t cap)
{
    memset(g->seen.slots, 0, cap * sizeof(*g->seen.slots));
    g->seen.cap = cap;
    for (uint32_t i = 0; i < g->todo.n; i++)
        put_seen(g, i);
}

static void visit(struct tr_grammar *g, uint32_t node, uint32_t count, uint32_t stack)
{
    uint32_t depth = stack == TR__ROOT ? 0 : tr__stack_at(g, stack)->depth;

    if (node == 0 || depth + g->height[node] > TR__MAX_DEPTH ||
        !tr__items_add(g, &g->todo, (struct tr__item){node, count, stack}))
        return;
    if (!put_seen(g, g->todo.n - 1)) {
        g->todo.n--;
        return;
    }
    if (--g->fuel < 0)
        g->r = g->r ? g->r : TR_EUNSUPPORTED;
    if (g->todo.n > g->seen.cap / 2)
        reset_seen(g, 2 * g->seen.cap);
}

/* ---- calls ---- */

static void sift_up(struct tr_grammar *g, uint32_t rule)
{
    uint32_t at = g->n_heap++;

    while (at > 0 && g->rules[g->heap[(at - 1) / 2]].rank > g->rules[rule].rank) {
        g->heap[at] = g->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    g->heap[at] = rule;
}

static uint32_t pop_rule(struct tr_grammar *g)
{
    uint32_t top = g->heap[0], last = g->heap[--g->n_heap], at = 0, child;

    while ((child = 2 * at + 1) < g->n_heap) {
        if (child + 1 < g->n_heap &&
            g->rules[g->heap[child + 1]].rank < g->rules[g->heap[child]].rank)
            child++;
        if (g->rules[g->heap[child]].rank >= g->rules[last].rank)
            break;
        g->heap[at] = g->heap[child];
        at = child;
    }
    g->heap[at] = last;
    return top;
}

static void add_call(struct tr_grammar *g, uint32_t rule, struct tr__item back)
{
    if (!tr__items_add(g, &g->calls, back))
        return;
    if (g->calls.n > g->call_cap) {
        uint32_t *grown = realloc(g->call_next, g->calls.cap * sizeof(*grown));
        if (!grown) {
            g->r = g->r ? g->r : TR_ENOMEM;
            return;
        }
        g->call_next = grown;
        g->call_cap = g->calls.cap;
    }
    if (g->rule_calls[rule] == 0)
        sift_up(g, rule);
    g->call_next[g->calls.n - 1] = g->rule_calls[rule];
    g->rule_calls[rule] = g->calls.n;
}

/* The stack under `rule`, of all its calls. A call that its caller ends with comes back to where
 * the caller does, so that lists by recursion need no stack. */
static uint32_t stack_of_calls(struct tr_grammar *g, uint32_t rule)
{
    g->edges.n = 0;
    for (uint32_t i = g->rule_calls[rule]; i && g->r == 0; i = g->call_next[i - 1]) {
        struct tr__item back = g->calls.at[i - 1];
        if (g->nodes[back.node].op == TR__OP_MATCH && back.stack != TR__ROOT) {
            const struct tr__stack *s = tr__stack_at(g, back.stack);
            for (uint32_t k = 0; k < s->n; k++)
                tr__items_add(g, &g->edges, s->edges[k]);
        } else {
            tr__items_add(g, &g->edges, back);
        }
    }
    tr__unite_items(g, &g->edges);
    return g->r ? 0 : tr__stack_intern(g, g->edges.at, g->edges.n);
}

/* ---- nodes that take no byte ---- */

static void increment(struct tr_grammar *g, const struct tr__node *x, const struct tr__item *item)
{
    const struct tr__rule *rule = &g->rules[x->rule];
    uint32_t count = item->count;

    if (rule->named) {
        if (tr__name_count(g, count) >= x->arg)
            return;
        count = tr__name_add_property(g, count);
    } else if (count != TR__FREE && count != TR__LOW) {
        if (count >= x->arg)
            return;
        count++;
        if (rule->counted && rule->max == TR__NO_LIMIT && count > rule->min)
            count = rule->min;
    }
    visit(g, x->next, count, item->stack);
}

static void leave(struct tr_grammar *g, uint32_t stack)
{
    if (stack == TR__ROOT) {
        g->accept = true;
        return;
    }
    const struct tr__stack *s = tr__stack_at(g, stack);
    for (uint32_t i = 0; i < s->n; i++)
        visit(g, s->edges[i].node, s->edges[i].count, s->edges[i].stack);
}

static void follow(struct tr_grammar *g, struct tr__item item, bool entering)
{
    const struct tr__node *x = &g->nodes[item.node];
    bool named = g->rules[x->rule].named;
    uint32_t count = named ? tr__name_count(g, item.count) : item.count;

    switch (x->op) {
    case TR__OP_BYTE:
        tr__items_add(g, &g->found, item);
        break;
    case TR__OP_SPLIT:
        visit(g, x->next, item.count, item.stack);
        visit(g, x->arg, item.count, item.stack);
        break;
    case TR__OP_CALL:
        add_call(g, x->arg, (struct tr__item){x->next, item.count, item.stack});
        if (g->rules[x->arg].nullable && !(x->flags & TR__NODE_NONEMPTY))
            visit(g, x->next, item.count, item.stack);
        break;
    case TR__OP_MATCH:
        if (!entering)
            leave(g, item.stack);
        break;
    case TR__OP_INC:
        increment(g, x, &item);
        break;
    case TR__OP_MIN:
        if (count == TR__FREE || (count != TR__LOW && count >= x->arg))
            visit(g, x->next, item.count, item.stack);
        break;
    case TR__OP_MAX:
        if (count == TR__FREE || count == TR__LOW || count <= x->arg)
            visit(g, x->next, item.count, item.stack);
        break;
    case TR__OP_ROOM:
        if (tr__name_room(g, x, item.count))
            visit(g, x->next, item.count, item.stack);
        break;
    default:
        break;
    }
}

/* From what todo holds to the configuration. */
static uint32_t close_over(struct tr_grammar *g)
{
    uint32_t head = 0, found;

    for (; head < g->todo.n && g->r == 0; head++)
        follow(g, g->todo.at[head], false);
    while (g->n_heap > 0) {
        uint32_t rule = pop_rule(g);
        uint32_t stack = stack_of_calls(g, rule);
        g->rule_calls[rule] = 0;
        if (g->r == 0)
            visit(g, g->rules[rule].start, 0, stack);
        for (; head < g->todo.n && g->r == 0; head++)
            follow(g, g->todo.at[head], true);
    }
    found = g->r ? TR__DEAD : tr__config_intern(g, &g->found, g->accept);
    return g->r ? TR__DEAD : found;
}

static void start_over(struct tr_grammar *g)
{
    g->todo.n = g->found.n = g->calls.n = g->n_heap = 0;
    g->accept = false;
    reset_seen(g, SEEN_SLOTS);
}

uint32_t tr__begin(struct tr_grammar *g)
{
    start_over(g);
    visit(g, g->rules[g->root].start, 0, TR__ROOT);
    return close_over(g);
}

uint32_t tr__step(struct tr_grammar *g, uint32_t config, unsigned byte)
{
    const struct tr__config *c = tr__config_at(g, config);
    uint32_t key = config << 8 | byte, to;

    if (g->r || !tr__allows(c, byte))
        return TR__DEAD;
    to = tr__move_find(g, key);
    if (to)
        return to;
    start_over(g);
    g->fuel -= c->n;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct tr__node *x = &g->nodes[c->items[i].node];
        uint32_t count = c->items[i].count;
        if (byte < x->lo || x->hi < byte)
            continue;
        if (!(x->flags & NAME_FLAGS) || tr__name_step(g, x, byte, &count))
            visit(g, x->next, count, c->items[i].stack);
    }
    to = close_over(g);
    if (to)
        tr__move_add(g, key, to);
    return g->r ? TR__DEAD : to;
}
