#include "engine/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

void tr__dfa_done(struct tr__dfa *d)
{
    free(d->to);
    free(d->accept);
    memset(d, 0, sizeof(*d));
}

/* ---- states ---- */

uint32_t tr__dfa_add(struct tr__nodes *b, struct tr__dfa *d)
{
    if (!tr__spend(b, d->n_classes))
        return 0;
    if (d->n >= TR__MAX_STATES)
        return tr__nodes_fail(b, TR_EUNSUPPORTED, NULL,
                              "patterns, lengths or bounds together are too large");
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? 2 * d->cap : 64;
        uint32_t *to = realloc(d->to, (size_t)cap * d->n_classes * sizeof(*to));
        uint8_t *accept = to ? realloc(d->accept, cap) : NULL;
        d->to = to ? to : d->to;
        d->accept = accept ? accept : d->accept;
        if (!to || !accept)
            return tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        d->cap = cap;
    }
    memset(d->to + (size_t)d->n * d->n_classes, 0, d->n_classes * sizeof(*d->to));
    d->accept[d->n] = 0;
    return d->n++;
}

bool tr__dfa_begin(struct tr__nodes *b, struct tr__dfa *d, uint32_t classes)
{
    d->n_classes = classes;
    tr__dfa_add(b, d);
    return tr__dfa_add(b, d) == 1;
}

bool tr__dfa_accepts(const struct tr__dfa *d, const char *bytes, size_t n)
{
    uint32_t at = d->n > 1;

    for (size_t i = 0; i < n && at; i++)
        at = d->to[at * d->n_classes + d->class_of[(uint8_t)bytes[i]]];
    return at && d->accept[at];
}

bool tr__dfa_empty(const struct tr__dfa *d)
{
    if (d->n < 2 || d->accept[1])
        return d->n < 2;
    for (uint32_t c = 0; c < d->n_classes; c++)
        if (d->to[d->n_classes + c])
            return false;
    return true;
}

void tr__dfa_trim(struct tr__nodes *b, struct tr__dfa *d)
{
    uint8_t *alive = d->n ? calloc(d->n, 1) : NULL;
    bool again = alive != NULL;

    if (d->n && !alive)
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
    while (again && tr__spend(b, d->n)) {
        again = false;
        for (uint32_t i = d->n; i-- > 1;) {
            bool lives = alive[i] || d->accept[i];
            for (uint32_t c = 0; c < d->n_classes && !lives; c++)
                lives = alive[d->to[i * d->n_classes + c]];
            again |= lives && !alive[i];
            alive[i] = lives;
        }
    }
    for (uint32_t i = 0; alive && i < d->n * d->n_classes; i++)
        if (!alive[d->to[i]])
            d->to[i] = 0;
    free(alive);
}

/* ---- from expressions ---- */

/* Sets of nodes, hash-consed; a state is a set. */
struct subsets {
    struct tr__nodes *b;
    uint32_t *members; /* the sets one behind the other */
    uint32_t n, cap;
    uint32_t *begin; /* of a state's set; begin[state + 1] is its end */
    uint32_t begin_cap;
    uint32_t *table, table_cap;
    uint32_t *mark, stamp; /* of nodes visited */
    uint32_t *todo;
    uint32_t heads[256]; /* per class: the nodes to go on with, a list through `links` */
    uint32_t *links;     /* pairs: node, next pair + 1 */
    uint32_t n_links, links_cap;
    uint32_t *alone; /* of a node: the state of what is reached from it alone, 0 = not known */
};

static bool grow(struct tr__nodes *b, uint32_t **list, uint32_t *cap, uint32_t need)
{
    uint32_t *grown;

    if (need <= *cap)
        return true;
    grown = realloc(*list, (size_t)need * 2 * sizeof(*grown));
    if (!grown) {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        return false;
    }
    *list = grown;
    *cap = need * 2;
    return true;
}

/* Adds to the set at the end of members what is reached from node without a byte. */
static void reach(struct subsets *s, uint32_t node)
{
    const struct tr__node *nodes = s->b->nodes;
    uint32_t n = 0;

    s->todo[n++] = node;
    while (n > 0 && tr__spend(s->b, 1)) {
        uint32_t x = s->todo[--n];
        if (x == 0 || s->mark[x] == s->stamp)
            continue;
        s->mark[x] = s->stamp;
        if (nodes[x].op == TR__OP_SPLIT) {
            s->todo[n++] = nodes[x].next;
            s->todo[n++] = nodes[x].arg;
        } else if (grow(s->b, &s->members, &s->cap, s->n + 1)) {
            s->members[s->n++] = x;
        }
    }
}

/* Of a set, in whatever order. */
static uint32_t hash_of(const uint32_t *set, uint32_t n)
{
    uint64_t h = n;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = (set[i] + 1) * 0x9E3779B97F4A7C15u;
        h += (x ^ x >> 32) * 0xBF58476D1CE4E5B9u;
    }
    return (uint32_t)(h >> 32 ^ h);
}

/* The state's set is the one just reached, of n nodes: those are marked. */
static bool is_reached(const struct subsets *s, uint32_t state, uint32_t n)
{
    const uint32_t *set = s->members + s->begin[state];

    if (s->begin[state + 1] - s->begin[state] != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (s->mark[set[i]] != s->stamp)
            return false;
    return true;
}

/* The state of the set begun at `first`, just reached; if it is known, the set is taken off
 * again. */
static uint32_t state_of(struct subsets *s, struct tr__dfa *d, uint32_t first)
{
    uint32_t n = s->n - first, *set, at, state;

    if (n == 0 || !tr__spend(s->b, n))
        return 0;
    set = s->members + first;
    for (at = hash_of(set, n) & (s->table_cap - 1); s->table[at];
         at = (at + 1) & (s->table_cap - 1)) {
        state = s->table[at];
        if (is_reached(s, state, n)) {
            s->n = first;
            return state;
        }
    }
    state = tr__dfa_add(s->b, d);
    if (!state || !grow(s->b, &s->begin, &s->begin_cap, state + 2))
        return 0;
    s->begin[state] = first;
    s->begin[state + 1] = s->n;
    for (uint32_t i = 0; i < n; i++)
        d->accept[state] |= s->b->nodes[set[i]].op == TR__OP_MATCH;
    return s->table[at] = state;
}

/* Bytes that no node tells apart are one class. */
static void classify(const struct tr__nodes *b, struct tr__dfa *d)
{
    uint8_t cut[257] = {0};
    unsigned class = 0;

    for (uint32_t i = 1; i < b->n; i++) {
        if (b->nodes[i].op == TR__OP_BYTE) {
            cut[b->nodes[i].lo] = 1;
            cut[b->nodes[i].hi + 1] = 1;
        }
    }
    for (unsigned i = 0; i < 256; i++) {
        class += i > 0 && cut[i];
        d->class_of[i] = (uint8_t) class;
    }
    d->n_classes = class + 1;
}

/* Sorts the nodes that follow a state by the classes of bytes that lead there. */
static void sort_targets(struct subsets *s, const struct tr__dfa *d, uint32_t state)
{
    s->n_links = 0;
    memset(s->heads, 0, sizeof(s->heads));
    for (uint32_t i = s->begin[state]; i < s->begin[state + 1]; i++) {
        struct tr__node x = s->b->nodes[s->members[i]];
        if (x.op != TR__OP_BYTE || !tr__spend(s->b, 1))
            continue;
        for (unsigned c = d->class_of[x.lo]; c <= d->class_of[x.hi]; c++) {
            if (!grow(s->b, &s->links, &s->links_cap, 2 * s->n_links + 2))
                return;
            s->links[2 * s->n_links] = x.next;
            s->links[2 * s->n_links + 1] = s->heads[c];
            s->heads[c] = ++s->n_links;
        }
    }
    tr__spend(s->b, s->n_links / 2);
}

static void determinise(struct subsets *s, struct tr__dfa *d, uint32_t start)
{
    classify(s->b, d);
    tr__dfa_add(s->b, d);
    s->stamp = 1;
    reach(s, start);
    state_of(s, d, 0);
    for (uint32_t state = 1; state < d->n && s->b->r == 0; state++) {
        sort_targets(s, d, state);
        for (uint32_t c = 0; c < d->n_classes && s->b->r == 0; c++) {
            uint32_t first = s->n, to, head = s->heads[c];
            uint32_t only = head && s->links[2 * head - 1] == 0 ? s->links[2 * head - 2] : 0;
            if (s->alone[only]) {
                d->to[state * d->n_classes + c] = s->alone[only];
                continue;
            }
            s->stamp++;
            for (uint32_t i = s->heads[c]; i; i = s->links[2 * i - 1])
                reach(s, s->links[2 * i - 2]);
            to = state_of(s, d, first);
            d->to[state * d->n_classes + c] = to;
            s->alone[only] = only ? to : 0;
        }
    }
}

void tr__dfa_of(struct tr__exprs *x, uint32_t e, enum tr__match_kind kind,
                enum tr__spelling spelling, struct tr__dfa *ret)
{
    struct tr__nodes *b = x->b, own;
    struct subsets s = {.b = &own, .table_cap = 4 * 16384};
    uint32_t start;

    if (b->r || tr__nodes_init(&own, b->err) < 0) {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        return;
    }
    own.fuel = b->fuel;
    x->b = &own;
    tr__rule_enter(&own, tr__rule_new(&own));
    start = tr__emit_match(x, e, kind, spelling, true, tr__match(&own));
    s.table = calloc(s.table_cap, sizeof(*s.table));
    s.mark = calloc(own.n + 1, sizeof(*s.mark));
    s.alone = calloc(own.n + 1, sizeof(*s.alone));
    s.todo = malloc((2 * (size_t)own.n + 8) * sizeof(*s.todo));
    if (s.table && s.mark && s.todo && s.alone)
        determinise(&s, ret, start);
    else
        tr__nodes_fail(&own, TR_ENOMEM, NULL, "out of memory");
    x->b = b;
    b->fuel = own.fuel;
    b->r = own.r;
    tr__dfa_trim(b, ret);
    free(s.table);
    free(s.mark);
    free(s.todo);
    free(s.alone);
    free(s.members);
    free(s.begin);
    free(s.links);
    tr__nodes_done(&own);
}

/* ---- two at once ---- */

struct pairs {
    uint64_t *of; /* of a state: the two states */
    uint32_t of_cap;
    uint32_t *table, table_cap;
};

static uint32_t state_of_pair(struct tr__nodes *b, struct pairs *p, struct tr__dfa *out, uint32_t x,
                              uint32_t y)
{
    uint64_t key = (uint64_t)x << 32 | y;
    uint32_t at = (uint32_t)(key * 0x9E3779B97F4A7C15u >> 40) & (p->table_cap - 1), state;

    for (; p->table[at]; at = (at + 1) & (p->table_cap - 1))
        if (p->of[p->table[at]] == key)
            return p->table[at];
    state = tr__dfa_add(b, out);
    if (state == 0)
        return 0;
    p->of[state] = key;
    return p->table[at] = state;
}

static void join_classes(const struct tr__dfa *d, const struct tr__dfa *e, struct tr__dfa *out,
                         uint8_t *first_of)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < 256; i++) {
        uint32_t c = 0;
        while (c < n && (d->class_of[first_of[c]] != d->class_of[i] ||
                         e->class_of[first_of[c]] != e->class_of[i]))
            c++;
        if (c == n)
            first_of[n++] = (uint8_t)i;
        out->class_of[i] = (uint8_t)c;
    }
    out->n_classes = n;
}

static void meet(struct tr__nodes *b, struct pairs *p, const struct tr__dfa *d,
                 const struct tr__dfa *e, bool without, struct tr__dfa *out)
{
    uint8_t first_of[256];

    join_classes(d, e, out, first_of);
    tr__dfa_add(b, out);
    if (b->r == 0 && d->n > 1)
        state_of_pair(b, p, out, 1, e->n > 1 ? 1 : 0);
    for (uint32_t state = 1; state < out->n && b->r == 0; state++) {
        uint32_t x = (uint32_t)(p->of[state] >> 32), y = (uint32_t)p->of[state];
        bool both = y && e->accept[y];
        out->accept[state] = d->accept[x] && both != without;
        for (uint32_t c = 0; c < out->n_classes && b->r == 0; c++) {
            uint32_t i = d->to[x * d->n_classes + d->class_of[first_of[c]]], to = 0;
            uint32_t j = y ? e->to[y * e->n_classes + e->class_of[first_of[c]]] : 0;
            if (i && (j || without))
                to = state_of_pair(b, p, out, i, j);
            out->to[state * out->n_classes + c] = to;
        }
    }
}

void tr__dfa_meet(struct tr__nodes *b, struct tr__dfa *d, struct tr__dfa *e, bool without)
{
    struct pairs p = {.of_cap = TR__MAX_STATES + 1, .table_cap = 1 << 16};
    struct tr__dfa out = {0};

    p.of = malloc(p.of_cap * sizeof(*p.of));
    p.table = calloc(p.table_cap, sizeof(*p.table));
    if (b->r == 0 && p.of && p.table)
        meet(b, &p, d, e, without, &out);
    else
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
    free(p.of);
    free(p.table);
    tr__dfa_done(d);
    tr__dfa_done(e);
    tr__dfa_trim(b, &out);
    *d = out;
}

/* ---- without a few words ---- */

/* The same language with a class of its own for each byte of the words, and room to come. */
static void refine(struct tr__nodes *b, struct tr__dfa *d, const struct tr_grammar_text *words,
                   uint32_t n)
{
    struct tr__dfa out = {0};
    uint8_t alone[256] = {0}, first_of[256];
    uint32_t classes = 0, class_of[256] = {0}; /* of the old ones, + 1 */

    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < words[i].n; k++)
            alone[(uint8_t)words[i].bytes[k]] = 1;
    for (unsigned i = 0; i < 256; i++) {
        uint32_t *c = &class_of[d->class_of[i]];
        if (alone[i] || *c == 0) {
            first_of[classes++] = (uint8_t)i;
            *c = alone[i] ? *c : classes;
        }
        out.class_of[i] = (uint8_t)((alone[i] ? classes : *c) - 1);
    }
    out.n_classes = classes;
    for (uint32_t i = 0; i < d->n && b->r == 0; i++) {
        tr__dfa_add(b, &out);
        out.accept[i] = d->accept[i];
        for (uint32_t c = 0; c < classes; c++)
            out.to[i * classes + c] = d->to[i * d->n_classes + d->class_of[first_of[c]]];
    }
    tr__dfa_done(d);
    *d = out;
}

/* A copy of a state, to be left by other ways. */
static uint32_t copy_state(struct tr__nodes *b, struct tr__dfa *d, uint32_t state)
{
    uint32_t copy = tr__dfa_add(b, d);

    if (copy) {
        memcpy(d->to + (size_t)copy * d->n_classes, d->to + (size_t)state * d->n_classes,
               d->n_classes * sizeof(*d->to));
        d->accept[copy] = d->accept[state];
    }
    return copy;
}

void tr__dfa_drop_words(struct tr__nodes *b, struct tr__dfa *d, const struct tr_grammar_text *words,
                        uint32_t n)
{
    uint32_t shared, start;

    if (tr__dfa_empty(d) || n == 0)
        return;
    refine(b, d, words, n);
    /* The start moves to a copy, so that every state below `shared` keeps its meaning. */
    start = copy_state(b, d, 1);
    for (uint32_t i = 0; i < start * d->n_classes && b->r == 0; i++)
        if (d->to[i] == 1)
            d->to[i] = start;
    for (uint32_t c = 0; c < d->n_classes && b->r == 0; c++)
        if (d->to[start * d->n_classes + c] == 1)
            d->to[start * d->n_classes + c] = start;
    shared = start;
    for (uint32_t i = 0; i < n && b->r == 0; i++) {
        uint32_t at = 1;
        for (size_t k = 0; k < words[i].n && at && b->r == 0; k++) {
            size_t edge = (size_t)at * d->n_classes + d->class_of[(uint8_t)words[i].bytes[k]];
            uint32_t to = d->to[edge];
            if (to && to <= shared) {
                to = copy_state(b, d, to);
                d->to[edge] = to;
            }
            at = to;
        }
        if (at && b->r == 0)
            d->accept[at] = 0;
    }
    tr__dfa_trim(b, d);
}

void tr__dfa_copy(struct tr__nodes *b, const struct tr__dfa *from, struct tr__dfa *ret)
{
    size_t words = (size_t)from->n * from->n_classes;

    *ret = *from;
    ret->cap = from->n;
    ret->to = malloc((words + 1) * sizeof(*ret->to));
    ret->accept = malloc(from->n + 1u);
    if (!ret->to || !ret->accept) {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
        tr__dfa_done(ret);
        return;
    }
    if (from->n > 0) {
        memcpy(ret->to, from->to, words * sizeof(*ret->to));
        memcpy(ret->accept, from->accept, from->n);
    }
}
