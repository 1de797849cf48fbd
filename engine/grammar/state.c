/* Grammars and the states of sequences in them: life, advancing, taking back. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/machine_internal.h"
#include "engine/grammar/vocab.h"

/* ---- life ---- */

static void destroy(struct tr_grammar *g)
{
    free(g->nodes);
    free(g->rules);
    free(g->height);
    tr__store_done(&g->store);
    free(g->todo.at);
    free(g->found.at);
    free(g->calls.at);
    free(g->edges.at);
    free(g->seen.slots);
    free(g->call_next);
    free(g->rule_calls);
    free(g->heap);
    free(g->bits);
    free(g->rows);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static void take_nodes(struct tr_grammar *g, struct tr__nodes *b)
{
    g->nodes = b->nodes;
    g->rules = b->rules;
    g->height = b->height;
    g->n_nodes = b->n;
    g->n_rules = b->n_rules;
    for (uint32_t i = 1; i < b->n; i++)
        g->tags |= (b->nodes[i].flags & TR__NODE_NAME_BEGIN) && b->nodes[i].lo == '<';
    for (uint32_t i = 0; i < b->n_rules; i++)
        g->few_names |= b->rules[i].few_names != TR__NO_LIMIT;
    b->nodes = NULL;
    b->rules = NULL;
    b->height = NULL;
}

int tr__grammar_new(struct tr_grammar **ret, struct tr__nodes *b, uint32_t root,
                    const struct tr_grammar_vocab *vocab)
{
    struct tr_grammar *g = calloc(1, sizeof(*g));
    int r;

    if (!g)
        return TR_ENOMEM;
    pthread_mutex_init(&g->lock, NULL);
    atomic_init(&g->refs, 1);
    take_nodes(g, b);
    g->root = root;
    g->vocab = vocab;
    g->longest = vocab ? vocab->longest : 0;
    g->seen.slots = calloc(4 * TR__MAX_ITEMS, sizeof(*g->seen.slots));
    g->rule_calls = calloc(g->n_rules + 1, sizeof(*g->rule_calls));
    g->heap = calloc(g->n_rules + 1, sizeof(*g->heap));
    g->bits = calloc(vocab ? (size_t)vocab->words : 1, sizeof(*g->bits));
    g->rows = malloc(sizeof(*g->rows));
    r = tr__store_init(&g->store);
    if (r < 0 || !g->rows || !g->seen.slots || !g->rule_calls || !g->heap || !g->bits) {
        destroy(g);
        return TR_ENOMEM;
    }
    g->fuel = TR__CALL_FUEL;
    g->begin = tr__begin(g);
    if (g->r || !g->begin) {
        r = g->r == 0 ? TR_EINVAL : g->r == TR_ENOMEM ? TR_ENOMEM : TR_EUNSUPPORTED;
        destroy(g);
        return r;
    }
    *ret = g;
    return 0;
}

struct tr_grammar *tr_grammar_ref(struct tr_grammar *g)
{
    atomic_fetch_add(&g->refs, 1);
    return g;
}

struct tr_grammar *tr_grammar_unref(struct tr_grammar *g)
{
    if (g && atomic_fetch_sub(&g->refs, 1) == 1)
        destroy(g);
    return NULL;
}

size_t tr_grammar_bytes(const struct tr_grammar *g)
{
    return sizeof(*g) + sizeof(*g->rows) + g->n_nodes * (sizeof(*g->nodes) + sizeof(*g->height)) +
           g->n_rules * (sizeof(*g->rules) + 8) + g->store.cap * sizeof(uint32_t) +
           g->store.stacks.cap * 2 * sizeof(uint32_t) +
           g->store.moves.cap * sizeof(struct tr__move) + 4 * TR__MAX_ITEMS * sizeof(uint32_t) +
           (g->vocab ? (size_t)g->vocab->words * sizeof(uint64_t) : 0);
}

/* ---- states ---- */

/* Begins a call: the lock, fuel. */
static struct tr_grammar *enter(const struct tr_grammar_state *s)
{
    pthread_mutex_lock(&s->grammar->lock);
    s->grammar->fuel = TR__CALL_FUEL;
    s->grammar->r = 0;
    return s->grammar;
}

static int leave(struct tr_grammar *g, int r)
{
    pthread_mutex_unlock(&g->lock);
    return r;
}

static void link_state(struct tr_grammar_state *s)
{
    struct tr_grammar *g = s->grammar;

    s->next = g->states;
    s->link = &g->states;
    if (s->next)
        s->next->link = &s->next;
    g->states = s;
}

int tr_grammar_state_open(struct tr_grammar_state **ret, struct tr_grammar *g)
{
    struct tr_grammar_state *s = calloc(1, sizeof(*s));

    if (!s)
        return TR_ENOMEM;
    s->grammar = tr_grammar_ref(g);
    pthread_mutex_lock(&g->lock);
    s->config = g->begin;
    link_state(s);
    *ret = s;
    return leave(g, 0);
}

int tr_grammar_state_copy(struct tr_grammar_state **ret, const struct tr_grammar_state *from)
{
    struct tr_grammar_state *s = malloc(sizeof(*s));
    struct tr_grammar *g = from->grammar;

    if (!s)
        return TR_ENOMEM;
    pthread_mutex_lock(&g->lock);
    *s = *from;
    tr_grammar_ref(g);
    link_state(s);
    *ret = s;
    return leave(g, 0);
}

struct tr_grammar_state *tr_grammar_state_free(struct tr_grammar_state *s)
{
    if (!s)
        return NULL;
    pthread_mutex_lock(&s->grammar->lock);
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    pthread_mutex_unlock(&s->grammar->lock);
    tr_grammar_unref(s->grammar);
    free(s);
    return NULL;
}

size_t tr_grammar_state_bytes(void)
{
    return sizeof(struct tr_grammar_state);
}

void tr_grammar_state_reset(struct tr_grammar_state *s)
{
    struct tr_grammar *g = enter(s);

    s->config = g->begin;
    s->n_past = 0;
    leave(g, 0);
}

/* ---- moving ---- */

int tr__retry(struct tr_grammar *g)
{
    int r = g->r == TR_ENOFIT ? tr__store_collect(g) : g->r;

    g->r = 0;
    return r;
}

/* The configuration behind the bytes, and with `control` behind that mark before them. */
static uint32_t run(struct tr_grammar *g, uint32_t config, bool control, const char *bytes,
                    size_t n)
{
    if (control)
        config = tr__step(g, config, TR__CONTROL);
    for (size_t i = 0; i < n && config; i++)
        config = tr__step(g, config, (uint8_t)bytes[i]);
    return config;
}

static int advance(struct tr_grammar_state *s, bool control, const char *bytes, size_t n)
{
    struct tr_grammar *g = enter(s);
    uint32_t config = s->config ? run(g, s->config, control, bytes, n) : TR__DEAD;

    if (g->r) {
        int r = tr__retry(g);
        if (r < 0)
            return leave(g, r);
        config = run(g, s->config, control, bytes, n);
        if (g->r)
            return leave(g, g->r == TR_ENOMEM ? TR_ENOMEM : TR_EUNSUPPORTED);
    }
    if (!config)
        return leave(g, s->config ? TR_EINVAL : TR_EUNSUPPORTED);
    s->last = (s->last + 1) % TR_GRAMMAR_ROLLBACK;
    s->past[s->last] = s->config;
    s->n_past = TR_MIN(s->n_past + 1, TR_GRAMMAR_ROLLBACK);
    s->config = config;
    return leave(g, 0);
}

int tr_grammar_advance(struct tr_grammar_state *s, const char *bytes, size_t n)
{
    return advance(s, false, bytes, n);
}

int tr_grammar_advance_control(struct tr_grammar_state *s, const char *text, size_t n)
{
    return advance(s, true, text, n);
}

int tr_grammar_rollback(struct tr_grammar_state *s, int n)
{
    struct tr_grammar *g = enter(s);

    if (n < 0 || n > s->n_past)
        return leave(g, TR_EINVAL);
    for (; n > 0; n--) {
        s->config = s->past[s->last];
        s->last = (s->last + TR_GRAMMAR_ROLLBACK - 1) % TR_GRAMMAR_ROLLBACK;
        s->n_past--;
    }
    return leave(g, 0);
}

bool tr_grammar_may_end(const struct tr_grammar_state *s)
{
    struct tr_grammar *g = enter(s);
    bool ends = s->config && tr__config_at(g, s->config)->accept;

    leave(g, 0);
    return ends;
}

/* The only byte that c allows, -1 if there are several or it may end. */
static int only_byte(const struct tr__config *c)
{
    int only = -1;

    for (int i = 0; i < 8; i++) {
        if (c->allowed[i] == 0)
            continue;
        if (only >= 0 || (c->allowed[i] & (c->allowed[i] - 1)))
            return -1;
        only = 32 * i + __builtin_ctz(c->allowed[i]);
    }
    return c->accept || only == TR__CONTROL ? -1 : only;
}

int tr_grammar_forced_bytes(struct tr_grammar_state *s, char *bytes, size_t cap, size_t *ret_n)
{
    struct tr_grammar *g = enter(s);
    uint32_t config = s->config;
    size_t n = 0;
    int byte;

    while (config && n < cap && (byte = only_byte(tr__config_at(g, config))) >= 0) {
        bytes[n++] = (char)byte;
        config = tr__step(g, config, (unsigned)byte);
    }
    /* What a full store cuts off is only a shorter answer. */
    *ret_n = config ? n : n > 0 ? n - 1 : 0;
    return leave(g, g->r && g->r != TR_ENOFIT ? g->r : 0);
}
