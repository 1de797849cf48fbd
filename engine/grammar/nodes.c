#include "engine/grammar/nodes.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_FUEL = 16 }; /* a node made: its place in the table is far from the last one's */

int tr__nodes_init(struct tr__nodes *b, struct tr_err *err)
{
    memset(b, 0, sizeof(*b));
    b->err = err;
    b->fuel = TR__COMPILE_FUEL;
    b->max_nodes = TR__MAX_NODES;
    b->cap = 256;
    b->rules_cap = 16;
    b->shared_cap = 512;
    b->nodes = calloc(b->cap, sizeof(*b->nodes));
    b->rules = calloc(b->rules_cap, sizeof(*b->rules));
    b->shared = calloc(b->shared_cap, sizeof(*b->shared));
    b->n = 1;
    if (b->nodes && b->rules && b->shared)
        return 0;
    tr__nodes_done(b);
    return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
}

void tr__nodes_done(struct tr__nodes *b)
{
    free(b->nodes);
    free(b->rules);
    free(b->shared);
    free(b->height);
    b->nodes = NULL;
    b->rules = NULL;
    b->shared = NULL;
    b->height = NULL;
}

uint32_t tr__nodes_fail(struct tr__nodes *b, int code, const char *param, const char *fmt, ...)
{
    va_list ap;

    if (b->r == 0) {
        va_start(ap, fmt);
        b->r = tr_err_vset(b->err, code, param, fmt, ap);
        va_end(ap);
    }
    return 0;
}

bool tr__spend(struct tr__nodes *b, int64_t steps)
{
    if (b->r)
        return false;
    b->fuel -= steps;
    if (b->fuel < 0)
        tr__nodes_fail(b, TR_EUNSUPPORTED, NULL, "the grammar takes too much work to compile");
    return b->r == 0;
}

/* ---- the table ---- */

static uint32_t hash_of(const struct tr__node *x)
{
    uint64_t h = (uint64_t)x->op | (uint64_t)x->lo << 8 | (uint64_t)x->hi << 16 |
                 (uint64_t)x->flags << 24 | (uint64_t)x->next << 32;

    h = h * 0x9E3779B97F4A7C15u ^ ((uint64_t)x->arg << 20) ^ x->rule;
    h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

static bool same(const struct tr__node *x, const struct tr__node *y)
{
    return x->op == y->op && x->lo == y->lo && x->hi == y->hi && x->flags == y->flags &&
           x->next == y->next && x->arg == y->arg && x->rule == y->rule;
}

static uint32_t append(struct tr__nodes *b, struct tr__node x)
{
    if (!tr__spend(b, NODE_FUEL))
        return 0;
    if (b->n >= b->max_nodes)
        return tr__nodes_fail(b, TR_EUNSUPPORTED, NULL, "the grammar is too large: over %u nodes",
                              b->max_nodes);
    if (b->n == b->cap) {
        struct tr__node *grown = realloc(b->nodes, 2 * (size_t)b->cap * sizeof(*grown));
        if (!grown)
            return tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        b->nodes = grown;
        b->cap *= 2;
    }
    b->nodes[b->n] = x;
    return b->n++;
}

static bool grow_shared(struct tr__nodes *b)
{
    uint32_t cap = 2 * b->shared_cap;
    struct tr__shared *grown = calloc(cap, sizeof(*grown));

    if (!grown) {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < b->shared_cap; i++) {
        if (b->shared[i].node == 0)
            continue;
        uint32_t at = b->shared[i].hash & (cap - 1);
        while (grown[at].node)
            at = (at + 1) & (cap - 1);
        grown[at] = b->shared[i];
    }
    free(b->shared);
    b->shared = grown;
    b->shared_cap = cap;
    return true;
}

/* The node equal to x, made if there is none. */
static uint32_t intern(struct tr__nodes *b, struct tr__node x)
{
    uint32_t at, hash, node;

    if (b->r)
        return 0;
    x.rule = b->rule;
    if (b->n > b->shared_cap / 4 * 3 && !grow_shared(b))
        return 0;
    hash = hash_of(&x);
    for (at = hash & (b->shared_cap - 1); b->shared[at].node; at = (at + 1) & (b->shared_cap - 1))
        if (b->shared[at].hash == hash && same(&b->nodes[b->shared[at].node], &x))
            return b->shared[at].node;
    node = append(b, x);
    if (node)
        b->shared[at] = (struct tr__shared){hash, node};
    return node;
}

/* ---- emitting ---- */

uint32_t tr__rule_new(struct tr__nodes *b)
{
    if (b->r)
        return 0;
    if (b->n_rules == b->rules_cap) {
        struct tr__rule *grown = realloc(b->rules, 2 * (size_t)b->rules_cap * sizeof(*grown));
        if (!grown)
            return tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        b->rules = grown;
        b->rules_cap *= 2;
    }
    b->rules[b->n_rules] = (struct tr__rule){
        .max = TR__NO_LIMIT, .body = TR__NONE, .vital = TR__NONE, .few_names = TR__NO_LIMIT};
    b->rules[b->n_rules].match = append(b, (struct tr__node){TR__OP_MATCH, .rule = b->n_rules});
    return b->n_rules++;
}

uint32_t tr__rule_enter(struct tr__nodes *b, uint32_t rule)
{
    uint32_t before = b->rule;

    b->rule = rule;
    return before;
}

uint32_t tr__match(const struct tr__nodes *b)
{
    return b->r ? 0 : b->rules[b->rule].match;
}

uint32_t tr__byte(struct tr__nodes *b, unsigned lo, unsigned hi, unsigned flags, uint32_t next)
{
    if (next == 0 || lo > hi)
        return 0;
    return intern(
        b, (struct tr__node){TR__OP_BYTE, (uint8_t)lo, (uint8_t)hi, (uint8_t)flags, next, 0, 0});
}

uint32_t tr__name_byte(struct tr__nodes *b, unsigned lo, unsigned hi, unsigned flags, uint32_t arg,
                       uint32_t next)
{
    if (next == 0)
        return 0;
    b->rules[b->rule].named = true;
    if ((flags & TR__NODE_NAME) && arg)
        b->rules[b->rule].few_names = TR_MIN(b->rules[b->rule].few_names, arg);
    return intern(
        b, (struct tr__node){TR__OP_BYTE, (uint8_t)lo, (uint8_t)hi, (uint8_t)flags, next, arg, 0});
}

uint32_t tr__name_room_for(struct tr__nodes *b, unsigned language, uint32_t names, uint32_t next)
{
    if (next == 0)
        return 0;
    return intern(
        b, (struct tr__node){TR__OP_ROOM, .lo = (uint8_t)language, .next = next, .arg = names});
}

uint32_t tr__split(struct tr__nodes *b, uint32_t x, uint32_t y)
{
    if (x == 0 || x == y)
        return y;
    if (y == 0)
        return x;
    return intern(b, (struct tr__node){TR__OP_SPLIT, .next = x, .arg = y});
}

uint32_t tr__call(struct tr__nodes *b, uint32_t rule, unsigned flags, uint32_t next)
{
    if (next == 0)
        return 0;
    return intern(
        b, (struct tr__node){TR__OP_CALL, .flags = (uint8_t)flags, .next = next, .arg = rule});
}

uint32_t tr__inc(struct tr__nodes *b, uint32_t limit, uint32_t next)
{
    if (next == 0)
        return 0;
    return intern(b, (struct tr__node){TR__OP_INC, .next = next, .arg = limit});
}

uint32_t tr__min(struct tr__nodes *b, uint32_t limit, uint32_t next)
{
    if (next == 0)
        return 0;
    return intern(b, (struct tr__node){TR__OP_MIN, .next = next, .arg = limit});
}

uint32_t tr__max(struct tr__nodes *b, uint32_t limit, uint32_t next)
{
    if (next == 0)
        return 0;
    return intern(b, (struct tr__node){TR__OP_MAX, .next = next, .arg = limit});
}

uint32_t tr__text(struct tr__nodes *b, const char *bytes, size_t n, uint32_t next)
{
    while (n-- > 0)
        next = tr__byte(b, (uint8_t)bytes[n], (uint8_t)bytes[n], 0, next);
    return next;
}

uint32_t tr__hole(struct tr__nodes *b)
{
    return append(b, (struct tr__node){TR__OP_SPLIT, .rule = b->rule});
}

void tr__patch(struct tr__nodes *b, uint32_t hole, uint32_t x, uint32_t y)
{
    if (b->r)
        return;
    b->nodes[hole].next = x;
    b->nodes[hole].arg = y;
}
