/*
 * Masks: the vocabulary's trie walked together with the machine, remembered by configuration.
 *
 * Where the text is inside a string that takes every clean character, the clean tokens are a ready
 * set and only the rest of the vocabulary is walked.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/machine_internal.h"
#include "engine/grammar/vocab.h"

/* A remembered mask in the store, followed by n_ids ids, or by the vocabulary's words of bits. */
struct memo {
    uint32_t n;     /* allowed ids */
    uint32_t slack; /* with the clean tokens of at most that many characters */
    uint32_t n_ids; /* further ids, ascending; or ... */
    uint32_t bits;  /* ... 1: bits */
    uint32_t base;  /* not 0: the offset of another memo, which the ids are taken out of */
    uint32_t words[];
};

enum { MEMO_WORDS = 5, NO_END = 0x7FFFFFFF };

static struct memo *memo_at(const struct tr_grammar *g, uint32_t at)
{
    return (struct memo *)(void *)(g->store.words + at);
}

/* Clean characters that may follow one another from c. */
static uint32_t clean_slack(const struct tr_grammar *g, const struct tr__config *c)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        const struct tr__node *x = &g->nodes[c->items[i].node];
        uint32_t count = c->items[i].count, max = g->rules[x->rule].max;
        if (x->flags & TR__NODE_CLEAN_STAR)
            return NO_END;
        if (!(x->flags & TR__NODE_CLEAN_COUNT))
            continue;
        if (count == TR__FREE || count == TR__LOW || max == TR__NO_LIMIT)
            return NO_END;
        most = TR_MAX(most, max - count + 1);
    }
    return most;
}

/* A byte 00..1F, quote, backslash or 7F: part of no clean token. */
static bool is_unclean(unsigned lo, unsigned hi)
{
    return hi < 0x20 || (lo == hi && (lo == '"' || lo == '\\' || lo == 0x7F));
}

/* From c clean characters only go round one loop, and when that has taken its last there is no
 * other way for them: so longer clean tokens do not fit. */
static bool confined(struct tr_grammar *g, uint32_t config, uint32_t slack)
{
    const struct tr__config *c = tr__config_at(g, config);
    const struct tr__item *loop = NULL;

    for (uint32_t i = 0; i < c->n; i++) {
        const struct tr__item *item = &c->items[i];
        const struct tr__node *x = &g->nodes[item->node];
        if (is_unclean(x->lo, x->hi))
            continue;
        if (!(x->flags & TR__NODE_CLEAN_COUNT) ||
            (loop && (loop->count != item->count || loop->stack != item->stack ||
                      g->nodes[loop->node].rule != x->rule)))
            return false;
        loop = item;
    }
    for (; slack > 0 && config; slack--)
        config = tr__step(g, config, 'a');
    c = tr__config_at(g, config);
    for (uint32_t i = 0; config && i < c->n; i++)
        if (!is_unclean(g->nodes[c->items[i].node].lo, g->nodes[c->items[i].node].hi))
            return false;
    return config != TR__DEAD;
}

/* ---- the walk ---- */

static void set_tokens(uint64_t *bits, const struct tr__trie *t, uint32_t first, uint32_t *n)
{
    uint32_t id;

    do {
        id = t->order[first++ - 1];
        bits[(id & ~TR__ORDER_MORE) / 64] |= 1ull << (id % 64);
        (*n)++;
    } while (id & TR__ORDER_MORE);
}

/* The row of a configuration, emptied if it was another's. */
static uint32_t *row_of(struct tr_grammar *g, uint32_t config)
{
    uint32_t slot = (config * 0x9E3779B1u >> 20) % TR__ROWS;

    if (g->rows->config[slot] != config) {
        g->rows->config[slot] = config;
        for (int i = 0; i < 256; i++)
            g->rows->to[slot][i] = TR__UNKNOWN;
    }
    return g->rows->to[slot];
}

/* Sets the bits of the trie's tokens that c allows; returns how many. */
static uint32_t walk(struct tr_grammar *g, const struct tr__trie *t, uint32_t config)
{
    uint32_t ends[TR__TOKEN_MAX + 1], at_depth[TR__TOKEN_MAX + 1], n = 0, i = 0;
    int depth = 0;

    memset(g->rows->config, 0, sizeof(g->rows->config));
    ends[0] = t->n;
    at_depth[0] = config;
    while (i < t->n && g->r == 0) {
        const struct tr__trie_node *node = &t->nodes[i];
        uint32_t *row, to;
        while (i >= ends[depth])
            depth--;
        row = row_of(g, at_depth[depth]);
        to = row[node->byte];
        if (to == TR__UNKNOWN)
            to = row[node->byte] = tr__step(g, at_depth[depth], node->byte);
        if (to == TR__DEAD) {
            i += node->size;
            continue;
        }
        if (node->first)
            set_tokens(g->bits, t, node->first, &n);
        if (node->size > 1) {
            depth++;
            ends[depth] = i + node->size;
            at_depth[depth] = to;
        }
        i++;
        if (i % 16 == 0 && --g->fuel < 0)
            g->r = TR_EUNSUPPORTED;
    }
    return n;
}

/* Takes the set bits out of g->bits, ascending. */
static void take_ids(struct tr_grammar *g, uint32_t *ids)
{
    for (uint32_t w = 0; w < (uint32_t)g->vocab->words; w++) {
        for (uint64_t word = g->bits[w]; word; word &= word - 1)
            *ids++ = 64 * w + (uint32_t)__builtin_ctzll(word);
        g->bits[w] = 0;
    }
}

static void add_clean(struct tr_grammar *g, uint32_t slack)
{
    const struct tr_grammar_vocab *v = g->vocab;
    uint64_t *clean = malloc((size_t)v->words * sizeof(*clean));

    if (!clean) {
        g->r = TR_ENOMEM;
        return;
    }
    tr__vocab_clean_copy(v, slack, clean);
    for (int w = 0; w < v->words; w++)
        g->bits[w] |= clean[w];
    free(clean);
}

/* The offset of the mask of a relaxed configuration; 0 upon an error. */
static uint32_t build(struct tr_grammar *g, uint32_t config)
{
    const struct tr_grammar_vocab *v = g->vocab;
    uint32_t slack = clean_slack(g, tr__config_at(g, config)), words = 2 * (uint32_t)v->words;
    uint32_t walked, n, at;
    bool list;

    if (slack < v->most_chars && !confined(g, config, slack))
        slack = 0;
    walked = walk(g, slack ? &v->rest : &v->all, config);
    n = walked + (slack ? tr__vocab_clean_count(v, slack) : 0);
    list = n <= TR_GRAMMAR_LIST_MAX || walked < words;

    if (g->r == 0 && slack && n <= TR_GRAMMAR_LIST_MAX) {
        add_clean(g, slack);
        walked = n;
        slack = 0;
    }
    at = tr__store_take(g, MEMO_WORDS + (list ? walked : words));
    if (at) {
        struct memo *m = memo_at(g, at);
        *m = (struct memo){n, slack, list ? walked : 0, !list, 0};
        if (list)
            take_ids(g, m->words);
        else
            memcpy(m->words, g->bits, (size_t)v->words * sizeof(*g->bits));
        tr__config_at(g, config)->mask = at;
    }
    memset(g->bits, 0, (size_t)v->words * sizeof(*g->bits));
    return at;
}

/* ---- names that come once ---- */

static bool in_memo(const struct tr_grammar *g, const struct memo *m, const struct tr__namer *x)
{
    const struct tr_grammar_vocab *v = g->vocab;
    uint32_t lo = 0, hi = m->n_ids, chars = 0;

    if (m->slack &&
        v->clean[(size_t)TR__CLEAN_SETS * (size_t)v->words + x->id / 64] >> x->id % 64 & 1) {
        for (uint32_t i = 0; i < x->n; i++)
            chars += (v->namer_bytes[x->at + i] & 0xC0) != 0x80;
        if (chars <= m->slack)
            return true;
    }
    if (m->bits)
        return m->words[x->id / 32] >> x->id % 32 & 1;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (m->words[mid] < x->id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n_ids && m->words[lo] == x->id;
}

/* Quotes that a token must have so that a name matters that it ends; 0: none matters. */
static uint32_t quotes_to_matter(const struct tr_grammar *g, const struct tr__config *c)
{
    bool names = false, under_way = true;

    for (uint32_t i = 0; i < c->n; i++) {
        const struct tr__item *x = &c->items[i];
        bool own = g->rules[g->nodes[x->node].rule].named && x->count;
        names |= own || (x->stack && tr__stack_at(g, x->stack)->names);
        under_way &= own && tr__name_under_way(g, x->count);
    }
    return !names ? 0 : g->few_names ? 1 : under_way ? 3 : 2;
}

static int compare_ids(const void *a, const void *b)
{
    const struct tr__item *x = a, *y = b;

    return x->node < y->node ? -1 : x->node > y->node;
}

/* Ids of the memo that would end a name a second time. */
static void find_vain(struct tr_grammar *g, uint32_t config, uint32_t base, uint32_t quotes,
                      struct tr__items *vain)
{
    const struct tr_grammar_vocab *v = g->vocab;

    for (uint32_t i = 0; i < v->n_namers && g->r == 0; i++) {
        const struct tr__namer *x = &v->namers[i];
        uint32_t at = config;
        if ((x->quotes < quotes && !(g->tags && x->tag + g->few_names > 1)) ||
            !in_memo(g, memo_at(g, base), x))
            continue;
        for (uint32_t k = 0; k < x->n && at; k++)
            at = tr__step(g, at, (uint8_t)v->namer_bytes[x->at + k]);
        if (!at && g->r == 0)
            tr__items_add(g, vain, (struct tr__item){x->id, 0, 0});
    }
    if (vain->n > 1)
        qsort(vain->at, vain->n, sizeof(*vain->at), compare_ids);
}

/* The mask of a configuration with records of names, made from one without. */
static uint32_t without_vain(struct tr_grammar *g, uint32_t config, uint32_t base)
{
    uint32_t quotes = quotes_to_matter(g, tr__config_at(g, config)), at = base;
    struct tr__items vain = {0};

    if (quotes)
        find_vain(g, config, base, quotes, &vain);
    if (vain.n > 0 && g->r == 0 && (at = tr__store_take(g, MEMO_WORDS + vain.n))) {
        struct memo *m = memo_at(g, at);
        *m = (struct memo){memo_at(g, base)->n - vain.n, 0, vain.n, 0, base};
        for (uint32_t i = 0; i < vain.n; i++)
            m->words[i] = vain.at[i].node;
    }
    free(vain.at);
    if (g->r == 0)
        tr__config_at(g, config)->mask = at;
    return g->r ? 0 : at;
}

/* ---- output ---- */

static void take_out(const struct memo *m, struct tr_grammar_mask *out)
{
    uint32_t n = 0, k = 0;

    if (!out->listed) {
        for (uint32_t i = 0; out->bits && i < m->n_ids; i++)
            out->bits[m->words[i] / 64] &= ~(1ull << m->words[i] % 64);
        return;
    }
    for (int i = 0; i < out->n; i++) {
        while (k < m->n_ids && m->words[k] < (uint32_t)out->ids[i])
            k++;
        if (k == m->n_ids || m->words[k] != (uint32_t)out->ids[i])
            out->ids[n++] = out->ids[i];
    }
}

static void answer(const struct tr_grammar *g, const struct memo *m, struct tr_grammar_mask *out)
{
    const struct tr_grammar_vocab *v = g->vocab;
    size_t bytes = (size_t)v->words * sizeof(*out->bits);

    if (m->base) {
        answer(g, memo_at(g, m->base), out);
        take_out(m, out);
        out->n = (int)m->n;
        return;
    }
    out->n = (int)m->n;
    out->listed = m->n <= TR_GRAMMAR_LIST_MAX;
    if (out->listed) {
        memcpy(out->ids, m->words, m->n * sizeof(*out->ids));
        return;
    }
    if (!out->bits)
        return;
    if (m->slack)
        tr__vocab_clean_copy(v, m->slack, out->bits);
    else
        memset(out->bits, 0, bytes);
    if (m->bits) {
        for (int w = 0; w < v->words; w++)
            out->bits[w] |= (uint64_t)m->words[2 * w] | (uint64_t)m->words[2 * w + 1] << 32;
    }
    for (uint32_t i = 0; i < m->n_ids; i++)
        out->bits[m->words[i] / 64] |= 1ull << m->words[i] % 64;
}

uint32_t tr__mask_at(struct tr_grammar *g, uint32_t config)
{
    uint32_t at = tr__config_at(g, config)->mask, far = at ? config : tr__relax(g, config);

    if (g->r || at)
        return at;
    at = tr__config_at(g, far)->mask;
    at = at ? at : build(g, far);
    return at && far != config ? without_vain(g, config, at) : at;
}

static int make(struct tr_grammar *g, const struct tr_grammar_state *s, struct tr_grammar_mask *out)
{
    uint32_t at;

    if (!s->config)
        return TR_EUNSUPPORTED;
    at = tr__mask_at(g, s->config);
    if (g->r)
        return g->r;
    out->may_end = tr__config_at(g, s->config)->accept;
    answer(g, memo_at(g, at), out);
    return 0;
}

int tr_grammar_mask(struct tr_grammar_state *s, struct tr_grammar_mask *out)
{
    struct tr_grammar *g = s->grammar;
    int r = g->vocab ? 0 : TR_EUNSUPPORTED;

    pthread_mutex_lock(&g->lock);
    g->fuel = TR__CALL_FUEL;
    g->r = 0;
    if (r == 0)
        r = make(g, s, out);
    if (r == TR_ENOFIT && (r = tr__retry(g)) == 0)
        r = make(g, s, out);
    pthread_mutex_unlock(&g->lock);
    return r == TR_ENOFIT ? TR_EUNSUPPORTED : r;
}

int32_t tr_grammar_mask_forced(const struct tr_grammar_mask *m)
{
    return m->n == 1 && !m->may_end ? m->ids[0] : -1;
}
