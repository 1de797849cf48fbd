#include "engine/grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "config/buf.h"
#include "engine/text/unicode.h"

enum { MAX_TRIE = 0xFFFFFF }; /* a node's size has 24 bits */

struct token {
    const char *bytes;
    uint64_t head; /* the first eight bytes as a big-endian number: most comparisons end here */
    uint32_t n, id;
    uint32_t chars; /* of a clean token, else 0 */
};

/* ---- tokens ---- */

static uint32_t clean_chars(const char *bytes, size_t n)
{
    uint32_t chars = 0, c;

    for (size_t at = 0; at < n; chars++) {
        int k = tr_utf8_scan(bytes + at, n - at, &c);
        if (k <= 0 || !tr__is_clean(c))
            return 0;
        at += (size_t)k;
    }
    return chars;
}

static int compare(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    int r;

    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    r = memcmp(x->bytes, y->bytes, TR_MIN(x->n, y->n));
    if (r)
        return r;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Control tokens as the machine sees them: the mark, then their text. */
static int spell_controls(struct tr_buf *out, int n_ids, tr_grammar_piece_fn *piece,
                          const void *arg)
{
    for (int i = 0; i < n_ids; i++) {
        size_t n = 0;
        bool special = false;
        const char *s = piece(arg, i, &n, &special);
        if (!s || !special || n == 0 || n >= TR__TOKEN_MAX)
            continue;
        tr_buf_addc(out, (char)TR__CONTROL);
        tr_buf_add(out, s, n);
    }
    return out->oom ? TR_ENOMEM : 0;
}

static uint32_t read_tokens(struct token *tokens, int n_ids, tr_grammar_piece_fn *piece,
                            const void *arg, const char *controls)
{
    uint32_t n = 0;

    for (int i = 0; i < n_ids; i++) {
        size_t bytes = 0;
        bool special = false;
        const char *s = piece(arg, i, &bytes, &special);
        if (!s || bytes == 0 || bytes + special > TR__TOKEN_MAX ||
            (!special && memchr(s, TR__CONTROL, bytes)))
            continue;
        if (special) {
            s = controls;
            controls += ++bytes;
        }
        tokens[n] = (struct token){s, 0, (uint32_t)bytes, (uint32_t)i, clean_chars(s, bytes)};
        for (unsigned k = 0; k < 8; k++)
            tokens[n].head = tokens[n].head << 8 | (k < bytes ? (uint8_t)s[k] : 0);
        n++;
    }
    qsort(tokens, n, sizeof(*tokens), compare);
    return n;
}

/* ---- tries ---- */

static struct tr__trie_node *add_node(struct tr__trie *t)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 1024;
        struct tr__trie_node *grown = realloc(t->nodes, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        t->nodes = grown;
        t->cap = cap;
    }
    t->nodes[t->n] = (struct tr__trie_node){0};
    return &t->nodes[t->n++];
}

/* Opens the nodes of x below `depth` open ones; open[d] is the node of byte d. */
static int open_nodes(struct tr__trie *t, uint32_t *open, uint32_t depth, const struct token *x)
{
    for (; depth < x->n; depth++) {
        struct tr__trie_node *node = add_node(t);
        if (!node)
            return TR_ENOMEM;
        open[depth] = t->n - 1;
        node->byte = (uint8_t)x->bytes[depth];
    }
    return 0;
}

static void close_nodes(struct tr__trie *t, const uint32_t *open, uint32_t from, uint32_t to)
{
    for (uint32_t d = to; d < from; d++)
        t->nodes[open[d]].size = (t->n - open[d]) & 0xFFFFFF;
}

static int build_trie(struct tr__trie *t, const struct token *tokens, uint32_t n, bool only_rest)
{
    const struct token *before = NULL;
    uint32_t open[TR__TOKEN_MAX + 1];

    t->order = malloc((n + 1) * sizeof(*t->order));
    if (!t->order || !add_node(t))
        return TR_ENOMEM;
    t->n = 0; /* so that nodes is never NULL */
    for (uint32_t i = 0; i < n; i++) {
        const struct token *x = &tokens[i];
        uint32_t common = 0;
        if (only_rest && x->chars)
            continue;
        while (before && common < TR_MIN(x->n, before->n) &&
               x->bytes[common] == before->bytes[common])
            common++;
        if (before && common == x->n && common == before->n) {
            t->order[t->n_order - 1] |= TR__ORDER_MORE;
        } else {
            if (before)
                close_nodes(t, open, before->n, common);
            if (open_nodes(t, open, common, x) < 0)
                return TR_ENOMEM;
            if (t->n > MAX_TRIE)
                return TR_EUNSUPPORTED;
            t->nodes[t->n - 1].first = t->n_order + 1;
        }
        t->order[t->n_order++] = x->id;
        before = x;
    }
    if (before)
        close_nodes(t, open, before->n, 0);
    return 0;
}

/* ---- clean tokens ---- */

static int build_clean(struct tr_grammar_vocab *v, const struct token *tokens, uint32_t n)
{
    uint32_t begin[TR__TOKEN_MAX + 1] = {0}; /* of the long ones, by number of characters */
    size_t words = (size_t)v->words;

    v->clean = calloc((TR__CLEAN_SETS + 1) * words, sizeof(*v->clean));
    v->long_ids = malloc((n + 1) * sizeof(*v->long_ids));
    v->long_chars = malloc(n + 1);
    if (!v->clean || !v->long_ids || !v->long_chars)
        return TR_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const struct token *x = &tokens[i];
        if (x->chars == 0)
            continue;
        for (uint32_t k = TR_MIN(x->chars, (uint32_t)TR__CLEAN_SETS); k <= TR__CLEAN_SETS; k++) {
            v->clean[k * words + x->id / 64] |= 1ull << x->id % 64;
            v->clean_n[k]++;
        }
        v->most_chars = TR_MAX(v->most_chars, x->chars);
        if (x->chars >= TR__CLEAN_SETS)
            begin[x->chars]++;
    }
    for (uint32_t k = 1; k <= TR__TOKEN_MAX; k++)
        begin[k] += begin[k - 1];
    v->n_long = begin[TR__TOKEN_MAX];
    for (uint32_t i = n; i-- > 0;) {
        const struct token *x = &tokens[i];
        if (x->chars < TR__CLEAN_SETS)
            continue;
        v->long_ids[--begin[x->chars]] = x->id;
        v->long_chars[begin[x->chars]] = (uint8_t)x->chars;
    }
    return 0;
}

uint32_t tr__vocab_clean_count(const struct tr_grammar_vocab *v, uint32_t chars)
{
    uint32_t n;

    if (chars < TR__CLEAN_SETS)
        return v->clean_n[chars];
    if (chars >= v->most_chars)
        return v->clean_n[TR__CLEAN_SETS];
    n = v->clean_n[TR__CLEAN_SETS - 1];
    for (uint32_t i = 0; i < v->n_long && v->long_chars[i] <= chars; i++)
        n++;
    return n;
}

void tr__vocab_clean_copy(const struct tr_grammar_vocab *v, uint32_t chars, uint64_t *bits)
{
    size_t words = (size_t)v->words;
    bool all = chars >= v->most_chars && chars >= TR__CLEAN_SETS;
    uint32_t set = all ? TR__CLEAN_SETS : TR_MIN(chars, TR__CLEAN_SETS - 1u);

    memcpy(bits, v->clean + set * words, words * sizeof(*bits));
    for (uint32_t i = 0; !all && i < v->n_long && v->long_chars[i] <= chars; i++)
        bits[v->long_ids[i] / 64] |= 1ull << v->long_ids[i] % 64;
}

/* ---- tokens with names ---- */

static struct tr__namer looked_at(const struct token *x)
{
    struct tr__namer namer = {.id = x->id, .n = x->n};
    const char *open = memchr(x->bytes, '<', x->n);

    for (uint32_t i = 0; i < x->n; i++)
        namer.quotes = (uint8_t)(namer.quotes + (x->bytes[i] == '"'));
    if (memchr(x->bytes, '>', x->n))
        namer.tag = open && memchr(open, '>', x->n - (size_t)(open - x->bytes)) ? 2 : 1;
    if (!namer.quotes && !namer.tag)
        namer.n = 0;
    return namer;
}

static int build_namers(struct tr_grammar_vocab *v, const struct token *tokens, uint32_t n)
{
    uint32_t count = 0, bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct tr__namer x = looked_at(&tokens[i]);
        count += x.n > 0;
        bytes += x.n;
    }
    v->namers = malloc((count + 1) * sizeof(*v->namers));
    v->namer_bytes = malloc(bytes + 1u);
    if (!v->namers || !v->namer_bytes)
        return TR_ENOMEM;
    for (uint32_t i = 0, at = 0; i < n; i++) {
        struct tr__namer x = looked_at(&tokens[i]);
        if (x.n == 0)
            continue;
        x.at = at;
        memcpy(v->namer_bytes + at, tokens[i].bytes, x.n);
        at += x.n;
        v->namers[v->n_namers++] = x;
    }
    return 0;
}

/* ---- life ---- */

int tr_grammar_vocab_open(struct tr_grammar_vocab **ret, int n_ids, tr_grammar_piece_fn *piece,
                          const void *tokens)
{
    struct tr_grammar_vocab *v = n_ids > 0 ? calloc(1, sizeof(*v)) : NULL;
    struct token *list = n_ids > 0 ? malloc((size_t)n_ids * sizeof(*list)) : NULL;
    struct tr_buf controls = {0};
    uint32_t n;
    int r = n_ids > 0 ? TR_ENOMEM : TR_EINVAL;

    if (v && list)
        r = spell_controls(&controls, n_ids, piece, tokens);
    if (r == 0) {
        v->n_ids = n_ids;
        v->words = (n_ids + 63) / 64;
        n = read_tokens(list, n_ids, piece, tokens, controls.data);
        for (uint32_t i = 0; i < n; i++)
            v->longest = TR_MAX(v->longest, list[i].n);
        r = build_trie(&v->all, list, n, false);
        if (r == 0)
            r = build_trie(&v->rest, list, n, true);
        if (r == 0)
            r = build_clean(v, list, n);
        if (r == 0)
            r = build_namers(v, list, n);
    }
    free(list);
    tr_buf_done(&controls);
    if (r < 0) {
        tr_grammar_vocab_close(v);
        return r;
    }
    *ret = v;
    return 0;
}

struct tr_grammar_vocab *tr_grammar_vocab_close(struct tr_grammar_vocab *v)
{
    if (!v)
        return NULL;
    free(v->all.nodes);
    free(v->all.order);
    free(v->rest.nodes);
    free(v->rest.order);
    free(v->clean);
    free(v->long_ids);
    free(v->long_chars);
    free(v->namers);
    free(v->namer_bytes);
    free(v);
    return NULL;
}

int tr_grammar_vocab_words(const struct tr_grammar_vocab *v)
{
    return v->words;
}
