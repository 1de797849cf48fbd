/* The block of words that configurations, stacks and masks live in: hash-consing and collection. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/machine_internal.h"

enum { TABLE_SLOTS = 1 << 16, STACK_WORDS = 5, CONFIG_WORDS = 13 };

int tr__store_init(struct tr__store *s)
{
    memset(s, 0, sizeof(*s));
    s->cap = TR__STORE_WORDS;
    s->used = 1;
    s->stacks.cap = s->configs.cap = TABLE_SLOTS;
    s->moves.cap = TR__STORE_MOVES;
    s->words = calloc(s->cap, sizeof(*s->words));
    s->stacks.slots = calloc(TABLE_SLOTS, sizeof(uint32_t));
    s->configs.slots = calloc(TABLE_SLOTS, sizeof(uint32_t));
    s->moves.slots = calloc(TR__STORE_MOVES, sizeof(*s->moves.slots));
    if (s->words && s->stacks.slots && s->configs.slots && s->moves.slots)
        return 0;
    tr__store_done(s);
    return TR_ENOMEM;
}

void tr__store_done(struct tr__store *s)
{
    free(s->words);
    free(s->stacks.slots);
    free(s->configs.slots);
    free(s->moves.slots);
    memset(s, 0, sizeof(*s));
}

/* A full store ends the call with TR_ENOFIT, upon which the caller collects and begins again. */
uint32_t tr__store_take(struct tr_grammar *g, uint32_t n)
{
    struct tr__store *s = &g->store;

    if (g->r)
        return 0;
    if (n > s->cap - s->used || s->stacks.used > TABLE_SLOTS / 2 ||
        s->configs.used > TABLE_SLOTS / 2 || s->moves.used > TR__STORE_MOVES / 4 * 3) {
        g->r = TR_ENOFIT;
        return 0;
    }
    s->used += n;
    return s->used - n;
}

bool tr__items_add(struct tr_grammar *g, struct tr__items *a, struct tr__item item)
{
    if (a->n == a->cap) {
        uint32_t cap = a->cap ? 2 * a->cap : 256;
        struct tr__item *grown = a->n < TR__MAX_ITEMS ? realloc(a->at, cap * sizeof(*grown)) : NULL;
        if (!grown) {
            g->r = g->r ? g->r : a->n < TR__MAX_ITEMS ? TR_ENOMEM : TR_EUNSUPPORTED;
            return false;
        }
        a->at = grown;
        a->cap = cap;
    }
    a->at[a->n++] = item;
    return true;
}

/* ---- hash-consing ---- */

static uint32_t hash_items(const struct tr__item *items, uint32_t n, uint32_t seed)
{
    const uint32_t *words = (const uint32_t *)(const void *)items;
    uint64_t h = seed + 0x9E3779B97F4A7C15u;

    for (uint32_t i = 0; i < 3 * n; i++) {
        h = (h ^ words[i]) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32 ^ h);
}

static int compare(const void *a, const void *b)
{
    const struct tr__item *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* A stack that stands for the texts of both: edges in common are united below. */
static uint32_t unite(struct tr_grammar *g, uint32_t x, uint32_t y)
{
    struct tr__items both = {0};
    const struct tr__stack *s, *t;
    uint32_t i = 0, j = 0, united = 0;

    if (x == y || g->r)
        return x;
    if (x == TR__ROOT || y == TR__ROOT) { /* the root rule is entered once, by nothing */
        g->r = TR_EINTERNAL;
        return 0;
    }
    s = tr__stack_at(g, x);
    t = tr__stack_at(g, y);
    g->fuel -= s->n + t->n;
    if (g->fuel < 0)
        g->r = TR_EUNSUPPORTED;
    while (g->r == 0 && (i < s->n || j < t->n)) {
        struct tr__item e;
        if (j == t->n || (i < s->n && (s->edges[i].node < t->edges[j].node ||
                                       (s->edges[i].node == t->edges[j].node &&
                                        s->edges[i].count < t->edges[j].count)))) {
            e = s->edges[i++];
        } else {
            e = t->edges[j++];
            if (i < s->n && s->edges[i].node == e.node && s->edges[i].count == e.count)
                e.stack = unite(g, s->edges[i++].stack, e.stack);
        }
        tr__items_add(g, &both, e);
    }
    if (g->r == 0)
        united = tr__stack_intern(g, both.at, both.n);
    free(both.at);
    return united;
}

void tr__unite_items(struct tr_grammar *g, struct tr__items *items)
{
    struct tr__item *a = items->at;
    uint32_t n = 0;

    if (items->n < 2)
        return;
    qsort(a, items->n, sizeof(*a), compare);
    for (uint32_t i = 1; i < items->n; i++) {
        if (a[i].node == a[n].node && a[i].count == a[n].count)
            a[n].stack = unite(g, a[n].stack, a[i].stack);
        else
            a[++n] = a[i];
    }
    items->n = n + 1;
}

static bool equal(const struct tr__item *x, const struct tr__item *y, uint32_t n)
{
    return n == 0 || memcmp(x, y, n * sizeof(*x)) == 0;
}

static bool is_record(const struct tr_grammar *g, const struct tr__item *item)
{
    return item->count && !(item->node & TR__CELL) && g->rules[g->nodes[item->node].rule].named;
}

uint32_t tr__stack_intern(struct tr_grammar *g, const struct tr__item *edges, uint32_t n)
{
    struct tr__table *t = &g->store.stacks;
    uint32_t hash = hash_items(edges, n, n), at = hash & (t->cap - 1), made, depth = 0, names = 0;
    struct tr__stack *s;

    for (; t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        s = tr__stack_at(g, t->slots[at]);
        if (s->hash == hash && s->n == n && equal(s->edges, edges, n))
            return t->slots[at];
    }
    made = tr__store_take(g, STACK_WORDS + 3 * n);
    if (!made)
        return 0;
    s = tr__stack_at(g, made);
    for (uint32_t i = 0; i < n; i++) {
        const struct tr__stack *below = edges[i].stack ? tr__stack_at(g, edges[i].stack) : NULL;
        depth = below ? TR_MAX(depth, below->depth) : depth;
        names |= is_record(g, &edges[i]) || (below && below->names);
    }
    *s = (struct tr__stack){.hash = hash, .n = n, .depth = depth + 1, .names = names};
    if (n > 0)
        memcpy(s->edges, edges, n * sizeof(*edges));
    t->slots[at] = made;
    t->used++;
    return made;
}

static void allow(struct tr__config *c, unsigned lo, unsigned hi)
{
    for (unsigned b = lo; b <= hi; b++)
        c->allowed[b >> 5] |= 1u << (b & 31);
}

uint32_t tr__config_intern(struct tr_grammar *g, struct tr__items *items, bool accept)
{
    struct tr__table *t = &g->store.configs;
    uint32_t hash, at, made;
    struct tr__config *c;

    tr__unite_items(g, items);
    if (g->r || (items->n == 0 && !accept))
        return TR__DEAD;
    hash = hash_items(items->at, items->n, items->n * 2 + accept);
    for (at = hash & (t->cap - 1); t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        c = tr__config_at(g, t->slots[at]);
        if (c->hash == hash && c->n == items->n && c->accept == accept &&
            equal(c->items, items->at, c->n))
            return t->slots[at];
    }
    made = tr__store_take(g, CONFIG_WORDS + 3 * items->n);
    if (!made)
        return TR__DEAD;
    c = tr__config_at(g, made);
    *c = (struct tr__config){.hash = hash, .n = items->n, .accept = accept};
    for (uint32_t i = 0; i < items->n; i++) {
        c->items[i] = items->at[i];
        allow(c, g->nodes[items->at[i].node].lo, g->nodes[items->at[i].node].hi);
    }
    t->slots[at] = made;
    t->used++;
    return made;
}

/* ---- steps ---- */

static uint32_t move_slot(const struct tr__moves *m, uint32_t key)
{
    return (key * 0x9E3779B1u >> 7 ^ key) & (m->cap - 1);
}

uint32_t tr__move_find(const struct tr_grammar *g, uint32_t key)
{
    const struct tr__moves *m = &g->store.moves;

    for (uint32_t at = move_slot(m, key); m->slots[at].key; at = (at + 1) & (m->cap - 1))
        if (m->slots[at].key == key)
            return m->slots[at].to;
    return TR__DEAD;
}

void tr__move_add(struct tr_grammar *g, uint32_t key, uint32_t to)
{
    struct tr__moves *m = &g->store.moves;
    uint32_t at = move_slot(m, key);

    if (m->used > TR__STORE_MOVES / 4 * 3) {
        g->r = g->r ? g->r : TR_ENOFIT;
        return;
    }
    while (m->slots[at].key)
        at = (at + 1) & (m->cap - 1);
    m->slots[at] = (struct tr__move){key, to};
    m->used++;
}

/* ---- collection ---- */

/* In a copied stack or configuration of the old block, `hash` holds the offset of its copy and `n`
 * this mark. */
enum { COPIED = 0x7FFFFFFF };

static uint32_t copy_stack(struct tr_grammar *g, const struct tr__store *old, uint32_t at);

static struct tr__item copy_item(struct tr_grammar *g, const struct tr__store *old,
                                 struct tr__item item)
{
    if (is_record(g, &item))
        item.count = copy_stack(g, old, item.count);
    item.stack = copy_stack(g, old, item.stack);
    return item;
}

static uint32_t copy_stack(struct tr_grammar *g, const struct tr__store *old, uint32_t at)
{
    struct tr__stack *s = (struct tr__stack *)(void *)(old->words + at);
    struct tr__items edges = {0};
    uint32_t made;

    if (at == TR__ROOT || g->r)
        return TR__ROOT;
    if (s->n == COPIED)
        return s->hash;
    for (uint32_t i = 0; i < s->n; i++)
        tr__items_add(g, &edges, copy_item(g, old, s->edges[i]));
    made = g->r ? 0 : tr__stack_intern(g, edges.at, edges.n);
    free(edges.at);
    s->hash = made;
    s->n = COPIED;
    return made;
}

static uint32_t copy_config(struct tr_grammar *g, const struct tr__store *old, uint32_t at)
{
    struct tr__config *c = (struct tr__config *)(void *)(old->words + at);
    uint32_t made;

    if (at == TR__DEAD || g->r)
        return TR__DEAD;
    if (c->n == COPIED)
        return c->hash;
    g->found.n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        tr__items_add(g, &g->found, copy_item(g, old, c->items[i]));
    made = tr__config_intern(g, &g->found, c->accept);
    c->hash = made;
    c->n = COPIED;
    return made;
}

int tr__store_collect(struct tr_grammar *g)
{
    struct tr__store old = g->store;
    int r = tr__store_init(&g->store);

    if (r < 0) {
        g->store = old;
        return r;
    }
    g->r = 0;
    g->begin = copy_config(g, &old, g->begin);
    for (struct tr_grammar_state *s = g->states; s; s = s->next) {
        s->config = copy_config(g, &old, s->config);
        for (int i = 0; i < s->n_past; i++) {
            int at = (s->last - i + TR_GRAMMAR_ROLLBACK) % TR_GRAMMAR_ROLLBACK;
            s->past[at] = copy_config(g, &old, s->past[at]);
        }
    }
    tr__store_done(&old);
    r = g->r ? TR_EUNSUPPORTED : 0;
    return g->store.used > g->store.cap / 2 ? TR_EUNSUPPORTED : r;
}
