/*
 * What the machine must know of a finished node table: which rules match the empty text, how much
 * stack each node needs to reach its rule's end (so that no text runs into the bound on the stack
 * or into a rule that never ends), and an order of the rules in which callers come first.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/nodes.h"

enum { NEVER = 0xFFFF };

struct analysis {
    struct tr__nodes *b;
    uint32_t *first, *from;        /* nodes that lead to a node: from[first[x]..first[x+1]) */
    uint32_t *calls_first, *calls; /* CALL nodes of a rule */
    uint32_t *link;                /* lists of nodes */
    uint8_t *null;                 /* node reaches its rule's end without a byte */
    uint32_t *edges;               /* pairs: a rule, a rule that it can call at once */
    uint32_t n_edges, edges_cap;
};

static void done(struct analysis *w)
{
    free(w->first);
    free(w->from);
    free(w->calls_first);
    free(w->calls);
    free(w->link);
    free(w->null);
    free(w->edges);
}

static bool has_two(const struct tr__node *x)
{
    return x->op == TR__OP_SPLIT && x->arg != x->next;
}

/* Counts, sums and fills the two reversed lists. */
static void reverse(struct analysis *w)
{
    const struct tr__nodes *b = w->b;

    for (uint32_t i = 1; i < b->n; i++) {
        const struct tr__node *x = &b->nodes[i];
        w->first[x->next + 1]++;
        if (has_two(x))
            w->first[x->arg + 1]++;
        if (x->op == TR__OP_CALL)
            w->calls_first[x->arg + 1]++;
    }
    for (uint32_t i = 0; i <= b->n; i++)
        w->first[i + 1] += w->first[i];
    for (uint32_t i = 0; i <= b->n_rules; i++)
        w->calls_first[i + 1] += w->calls_first[i];
    for (uint32_t i = b->n - 1; i > 0; i--) {
        const struct tr__node *x = &b->nodes[i];
        w->from[--w->first[x->next + 1]] = i;
        if (has_two(x))
            w->from[--w->first[x->arg + 1]] = i;
        if (x->op == TR__OP_CALL)
            w->calls[--w->calls_first[x->arg + 1]] = i;
    }
}

static int prepare(struct analysis *w)
{
    size_t n = (size_t)w->b->n + 2, rules = (size_t)w->b->n_rules + 2;

    w->first = calloc(n + 1, sizeof(*w->first));
    w->from = calloc(2 * n, sizeof(*w->from));
    w->calls_first = calloc(rules + 1, sizeof(*w->calls_first));
    w->calls = calloc(n, sizeof(*w->calls));
    w->link = calloc(n, sizeof(*w->link));
    w->null = calloc(n, sizeof(*w->null));
    w->b->height = malloc(n * sizeof(*w->b->height));
    if (!w->first || !w->from || !w->calls_first || !w->calls || !w->link || !w->null ||
        !w->b->height)
        return TR_ENOMEM;
    memset(w->b->height, 0xFF, n * sizeof(*w->b->height));
    reverse(w);
    return 0;
}

/* reverse() leaves the begin of x's list at first[x + 1]. */
static const uint32_t *leading(const struct analysis *w, uint32_t x, const uint32_t **end)
{
    *end = w->from + w->first[x + 2];
    return w->from + w->first[x + 1];
}

static const uint32_t *calling(const struct analysis *w, uint32_t rule, const uint32_t **end)
{
    *end = w->calls + w->calls_first[rule + 2];
    return w->calls + w->calls_first[rule + 1];
}

/* ---- stack heights: cheapest first, as in Knuth's generalisation of Dijkstra's algorithm ---- */

static void settle(struct analysis *w, uint32_t *heads, uint32_t x, unsigned h)
{
    if (x == 0 || w->b->nodes[x].op == TR__OP_FAIL || h > TR__MAX_DEPTH || w->b->height[x] != NEVER)
        return;
    w->b->height[x] = (uint16_t)h;
    w->link[x] = heads[h];
    heads[h] = x;
}

static void settle_call(struct analysis *w, uint32_t *heads, uint32_t x)
{
    const struct tr__nodes *b = w->b;
    unsigned next = b->height[b->nodes[x].next];
    unsigned start = b->height[b->rules[b->nodes[x].arg].start];

    if (next != NEVER && start != NEVER)
        settle(w, heads, x, TR_MAX(next, start + 1));
}

static void heights(struct analysis *w)
{
    struct tr__nodes *b = w->b;
    uint32_t heads[TR__MAX_DEPTH + 1] = {0};

    for (uint32_t i = 0; i < b->n_rules; i++)
        settle(w, heads, b->rules[i].match, 0);
    for (unsigned h = 0; h <= TR__MAX_DEPTH; h++) {
        while (heads[h]) {
            uint32_t x = heads[h];
            const uint32_t *end, *at = leading(w, x, &end);
            heads[h] = w->link[x];
            for (; at < end; at++) {
                if (b->nodes[*at].op == TR__OP_CALL)
                    settle_call(w, heads, *at);
                else
                    settle(w, heads, *at, h);
            }
            if (b->rules[b->nodes[x].rule].start == x)
                for (at = calling(w, b->nodes[x].rule, &end); at < end; at++)
                    settle_call(w, heads, *at);
        }
    }
}

static bool can_count(const struct tr__nodes *b, const uint8_t *counts, uint32_t rule)
{
    uint32_t vital = b->rules[rule].vital;

    return counts[rule] && (vital == TR__NONE || b->height[b->rules[vital].start] != NEVER);
}

/* A lower bound cannot be met where nothing, or not enough, can be counted: such ends of loops are
 * taken out, and the heights, which took them for ways out, are found anew. */
static bool drop_vain_bounds(struct analysis *w)
{
    struct tr__nodes *b = w->b;
    uint8_t *counts = calloc(b->n_rules + 1u, 1);
    bool dropped = false;

    if (!counts) {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        return false;
    }
    for (uint32_t i = 1; i < b->n; i++)
        if (b->nodes[i].op == TR__OP_INC && b->height[i] != NEVER)
            counts[b->nodes[i].rule] = 1;
    for (uint32_t i = 1; i < b->n; i++) {
        struct tr__node *x = &b->nodes[i];
        uint32_t body = b->rules[x->rule].body;
        if (x->op != TR__OP_MIN || x->arg == 0 || can_count(b, counts, x->rule) ||
            b->height[i] == NEVER || (body != TR__NONE && b->rules[body].nullable))
            continue;
        if (b->rules[x->rule].vital != TR__NONE && !b->rules[x->rule].counted)
            tr__nodes_fail(b, TR_EUNSUPPORTED, NULL,
                           "schema: minProperties beside a property that nothing satisfies is "
                           "not supported");
        x->op = TR__OP_FAIL;
        dropped = true;
    }
    free(counts);
    return dropped;
}

static void all_heights(struct analysis *w)
{
    do {
        memset(w->b->height, 0xFF, w->b->n * sizeof(*w->b->height));
        heights(w);
    } while (drop_vain_bounds(w) && tr__spend(w->b, w->b->n));
}

/* ---- empty matches ---- */

static bool passes_empty(const struct analysis *w, uint32_t x)
{
    const struct tr__node *node = &w->b->nodes[x];

    switch (node->op) {
    case TR__OP_SPLIT:
        return w->null[node->next] || w->null[node->arg];
    case TR__OP_INC:
    case TR__OP_MAX:
        return w->null[node->next];
    case TR__OP_MIN:
        return w->null[node->next] && node->arg == 0;
    case TR__OP_CALL:
        return w->null[node->next] && !(node->flags & TR__NODE_NONEMPTY) &&
               w->b->rules[node->arg].nullable;
    default:
        return node->op == TR__OP_MATCH;
    }
}

static void visit_empty(struct analysis *w, uint32_t x, uint32_t *list)
{
    if (x == 0 || w->null[x] || !passes_empty(w, x))
        return;
    w->null[x] = 1;
    w->link[x] = *list;
    *list = x;
}

static void spread_empty(struct analysis *w, uint32_t list)
{
    struct tr__nodes *b = w->b;

    while (list) {
        uint32_t x = list;
        const uint32_t *end, *at = leading(w, x, &end);
        list = w->link[x];
        for (; at < end; at++)
            visit_empty(w, *at, &list);
        if (b->rules[b->nodes[x].rule].start == x) {
            b->rules[b->nodes[x].rule].nullable = true;
            for (at = calling(w, b->nodes[x].rule, &end); at < end; at++)
                visit_empty(w, *at, &list);
        }
    }
}

/* Repetitions of what may be empty may be empty, whatever their lower bound. */
static void empty_matches(struct analysis *w)
{
    struct tr__nodes *b = w->b;
    uint32_t list = 0;
    bool again = true;

    for (uint32_t i = 0; i < b->n_rules; i++)
        visit_empty(w, b->rules[i].match, &list);
    spread_empty(w, list);
    while (again && tr__spend(b, b->n / 8)) {
        again = false;
        for (uint32_t i = 1; i < b->n; i++) {
            struct tr__node *x = &b->nodes[i];
            uint32_t body = b->rules[x->rule].body;
            if (x->op != TR__OP_MIN || x->arg == 0 || body == TR__NONE || !b->rules[body].nullable)
                continue;
            x->arg = 0;
            b->rules[x->rule].min = 0;
            again = true;
            list = 0;
            visit_empty(w, i, &list);
            spread_empty(w, list);
        }
    }
}

/* ---- order of rules ---- */

static void add_edge(struct analysis *w, uint32_t from, uint32_t to)
{
    if (w->n_edges == w->edges_cap) {
        uint32_t cap = w->edges_cap ? 2 * w->edges_cap : 256;
        uint32_t *grown = realloc(w->edges, 2 * (size_t)cap * sizeof(*grown));
        if (!grown) {
            tr__nodes_fail(w->b, TR_ENOMEM, NULL, "out of memory");
            return;
        }
        w->edges = grown;
        w->edges_cap = cap;
    }
    w->edges[2 * w->n_edges] = from;
    w->edges[2 * w->n_edges + 1] = to;
    w->n_edges++;
}

/* Rules that `rule` can call before it takes a byte. null doubles as the mark of visited nodes. */
static void left_corner(struct analysis *w, uint32_t rule)
{
    const struct tr__nodes *b = w->b;
    uint32_t list = 0;

#define VISIT(node)                                                                                \
    do {                                                                                           \
        uint32_t v_ = (node);                                                                      \
        if (v_ && !(w->null[v_] & 2) && b->height[v_] != NEVER) {                                  \
            w->null[v_] |= 2;                                                                      \
            w->link[v_] = list;                                                                    \
            list = v_;                                                                             \
        }                                                                                          \
    } while (0)
    VISIT(b->rules[rule].start);
    while (list && b->r == 0) {
        const struct tr__node *x = &b->nodes[list];
        list = w->link[list];
        if (x->op == TR__OP_CALL)
            add_edge(w, rule, x->arg);
        if (x->op == TR__OP_SPLIT || x->op == TR__OP_INC || x->op == TR__OP_MAX ||
            (x->op == TR__OP_MIN && x->arg == 0) ||
            (x->op == TR__OP_CALL && b->rules[x->arg].nullable && !(x->flags & TR__NODE_NONEMPTY)))
            VISIT(x->next);
        if (x->op == TR__OP_SPLIT)
            VISIT(x->arg);
    }
#undef VISIT
}

/* Kahn's algorithm; returns a rule in or behind a circle, TR__NONE if there is none. */
static uint32_t sort_rules(struct analysis *w)
{
    struct tr__nodes *b = w->b;
    uint32_t n = b->n_rules, head = 0, tail = 0;
    uint32_t *begin = calloc(n + 2, sizeof(*begin)), *out = calloc(w->n_edges + 1, sizeof(*out));
    uint32_t *in = calloc(n + 1, sizeof(*in)), *queue = calloc(n + 1, sizeof(*queue));

    if (!begin || !out || !in || !queue) {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        n = 0;
    }
    for (uint32_t i = 0; n && i < w->n_edges; i++) {
        begin[w->edges[2 * i] + 1]++;
        in[w->edges[2 * i + 1]]++;
    }
    for (uint32_t i = 0; i < n; i++)
        begin[i + 1] += begin[i];
    for (uint32_t i = 0; n && i < w->n_edges; i++)
        out[--begin[w->edges[2 * i] + 1]] = w->edges[2 * i + 1];
    for (uint32_t i = 0; i < n; i++)
        if (in[i] == 0)
            queue[tail++] = i;
    while (head < tail) {
        uint32_t rule = queue[head];
        b->rules[rule].rank = head++;
        for (uint32_t i = begin[rule + 1]; i < (rule + 2 <= n ? begin[rule + 2] : w->n_edges); i++)
            if (--in[out[i]] == 0)
                queue[tail++] = out[i];
    }
    uint32_t left = TR__NONE;
    for (uint32_t i = 0; i < n && left == TR__NONE; i++)
        if (in[i])
            left = i;
    free(begin);
    free(out);
    free(in);
    free(queue);
    return left;
}

int tr__analyse(struct tr__nodes *b, uint32_t root)
{
    struct analysis w = {.b = b};
    uint32_t circle;

    if (tr__spend(b, b->n)) {
        if (prepare(&w) == 0) {
            empty_matches(&w);
            all_heights(&w);
            for (uint32_t i = 0; i < b->n_rules && b->r == 0; i++)
                left_corner(&w, i);
            circle = b->r ? TR__NONE : sort_rules(&w);
            if (circle != TR__NONE)
                tr__nodes_fail(b, TR_EUNSUPPORTED, NULL, "grammar: left recursion in rule \"%.*s\"",
                               (int)TR_MIN(b->rules[circle].name_bytes, 64u),
                               b->rules[circle].name ? b->rules[circle].name : "");
            else if (b->r == 0 && b->height[b->rules[root].start] == NEVER)
                tr__nodes_fail(b, TR_EINVAL, NULL, "nothing can satisfy the grammar");
        } else {
            tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        }
    }
    done(&w);
    return b->r;
}
