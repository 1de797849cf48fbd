/*
 * Merging by a heap of (rank, position) over a linked list of symbols.
 *
 * A heap entry is not removed when its pair is gone; when it comes up it is compared with the pair
 * that stands there now.
 */
#include "engine/text/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "config/cancel.h"
#include "engine/text/unicode.h"

enum { TURNS_A_LOOK = 1024 }; /* merges between looks at whether the work is called off */

struct tr_bpe_symbol {
    int32_t id;         /* -1 = merged into the symbol before */
    int32_t prev, next; /* -1 = none */
};

int tr_ids_add(struct tr_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *p = cap > SIZE_MAX / sizeof(*p) ? NULL : realloc(ids->ids, cap * sizeof(*p));

        if (!p)
            return TR_ENOMEM;
        ids->ids = p;
        ids->cap = cap;
    }
    ids->ids[ids->n++] = id;
    return TR_OK;
}

static int32_t model_token(const struct tr_bpe *b, const char *text, size_t n)
{
    int32_t id = tr_vocab_find(b->vocab, text, n);

    return id >= 0 && (b->vocab->tokens[id].flags & TR_TOKEN_MODEL) ? id : -1;
}

int tr_bpe_init(struct tr_bpe *b, struct tr_vocab *vocab, size_t max_merges, bool byte_level,
                bool ignore_merges)
{
    size_t n = 16;

    *b = (struct tr_bpe){.vocab = vocab, .byte_level = byte_level, .ignore_merges = ignore_merges};
    if (max_merges > INT32_MAX)
        return TR_ETOOLONG;
    while (n < max_merges * 2)
        n *= 2;
    b->mask = n - 1;
    b->max_merges = (uint32_t)max_merges;
    b->merges = malloc(n * sizeof(*b->merges));
    b->merged = calloc(max_merges + 1, sizeof(*b->merged));
    if (!b->merges || !b->merged) {
        tr_bpe_done(b);
        return TR_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        b->merges[i].left = -1;
    for (int i = 0; i < 256; i++) {
        struct tr_buf text = {0};

        tr_utf8_put(&text, tr_alphabet_char((unsigned char)i));
        b->byte_ids[i] = text.oom ? -1 : model_token(b, text.data, text.len);
        tr_buf_done(&text);
    }
    return TR_OK;
}

void tr_bpe_done(struct tr_bpe *b)
{
    free(b->merges);
    free(b->merged);
    *b = (struct tr_bpe){0};
}

bool tr_bpe_complete(const struct tr_bpe *b)
{
    for (int i = 0; i < 256; i++) {
        if (b->byte_ids[i] < 0)
            return false;
    }
    return true;
}

/* The slot of a pair, or the free one where it would stand. */
static struct tr_merge *merge_slot(const struct tr_bpe *b, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(h >> 32) & b->mask;

    while (b->merges[i].left >= 0 && (b->merges[i].left != left || b->merges[i].right != right))
        i = (i + 1) & b->mask;
    return &b->merges[i];
}

int tr_bpe_add_merge(struct tr_bpe *b, const char *left, size_t n_left, const char *right,
                     size_t n_right)
{
    struct tr_buf both = {0};
    int32_t l = model_token(b, left, n_left), r = model_token(b, right, n_right), id;

    tr_buf_add(&both, left, n_left);
    tr_buf_add(&both, right, n_right);
    if (both.oom)
        return TR_ENOMEM;
    id = model_token(b, both.data, both.len);
    tr_buf_done(&both);
    if (l < 0 || r < 0 || id < 0 || b->n_merges == b->max_merges)
        return TR_EINVAL;
    *merge_slot(b, l, r) = (struct tr_merge){l, r, b->n_merges, id};
    b->merged[b->n_merges++] = id;
    return TR_OK;
}

void tr_bpe_space_done(struct tr_bpe_space *s)
{
    free(s->symbols);
    free(s->heap);
    *s = (struct tr_bpe_space){0};
}

static int push(const struct tr_bpe *b, struct tr_bpe_space *s, int32_t at)
{
    int32_t next = s->symbols[at].next;
    const struct tr_merge *m;
    uint64_t entry;
    size_t i;

    if (next < 0)
        return TR_OK;
    m = merge_slot(b, s->symbols[at].id, s->symbols[next].id);
    if (m->left < 0)
        return TR_OK;
    if (s->n_heap == s->max_heap) {
        size_t max = s->max_heap ? s->max_heap * 2 : 64;
        uint64_t *p = realloc(s->heap, max * sizeof(*p));

        if (!p)
            return TR_ENOMEM;
        s->heap = p;
        s->max_heap = max;
    }
    entry = (uint64_t)m->rank << 32 | (uint32_t)at;
    for (i = s->n_heap++; i > 0 && s->heap[(i - 1) / 2] > entry; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = entry;
    return TR_OK;
}

static uint64_t pop(struct tr_bpe_space *s)
{
    uint64_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < s->n_heap) {
        if (child + 1 < s->n_heap && s->heap[child + 1] < s->heap[child])
            child++;
        if (last <= s->heap[child])
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* The symbols of a piece, linked. Returns how many. */
static int32_t make_symbols(const struct tr_bpe *b, struct tr_bpe_symbol *symbols, const char *text,
                            size_t n)
{
    int32_t count = 0;

    for (size_t i = 0, k = 1; i < n; i += k) {
        int32_t id;

        if (b->byte_level) {
            id = b->byte_ids[(unsigned char)text[i]];
        } else {
            tr_utf8_at(text + i, &k);
            id = model_token(b, text + i, k);
        }
        if (id < 0)
            continue;
        symbols[count] = (struct tr_bpe_symbol){id, count - 1, count + 1};
        count++;
    }
    if (count > 0)
        symbols[count - 1].next = -1;
    return count;
}

static int merge_all(const struct tr_bpe *b, struct tr_bpe_space *s, int32_t count)
{
    struct tr_bpe_symbol *symbols = s->symbols;

    s->n_heap = 0;
    for (int32_t i = 0; i + 1 < count; i++) {
        if (push(b, s, i))
            return TR_ENOMEM;
    }
    for (unsigned turn = 0; s->n_heap > 0; turn++) {
        uint64_t top = pop(s);
        int32_t at = (int32_t)(top & UINT32_MAX), id = b->merged[top >> 32];
        int32_t next = symbols[at].next;
        const struct tr_merge *m;

        if (turn % TURNS_A_LOOK == 0 && tr_cancel_asked())
            return TR_ECANCELED;
        if (symbols[at].id < 0 || next < 0)
            continue;
        m = merge_slot(b, symbols[at].id, symbols[next].id);
        if (m->left < 0 || m->id != id)
            continue;
        symbols[at].id = id;
        symbols[at].next = symbols[next].next;
        symbols[next].id = -1;
        if (symbols[at].next >= 0)
            symbols[symbols[at].next].prev = at;
        if ((symbols[at].prev >= 0 && push(b, s, symbols[at].prev)) || push(b, s, at))
            return TR_ENOMEM;
    }
    return TR_OK;
}

/* Encodes by merging, whatever the index of whole pieces says. */
static int encode(const struct tr_bpe *b, struct tr_bpe_space *s, const char *text, size_t n,
                  struct tr_ids *out)
{
    int32_t count;
    int code;

    assert(n > 0);
    if (n > INT32_MAX)
        return TR_ETOOLONG;
    if (n > s->max_symbols) {
        size_t max = TR_MAX(n, 64);
        struct tr_bpe_symbol *p = malloc(max * sizeof(*p));

        if (!p)
            return TR_ENOMEM;
        free(s->symbols);
        s->symbols = p;
        s->max_symbols = max;
    }
    count = make_symbols(b, s->symbols, text, n);
    code = merge_all(b, s, count);
    if (code)
        return code;
    for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = s->symbols[i].next) {
        if (tr_ids_add(out, s->symbols[i].id))
            return TR_ENOMEM;
    }
    return TR_OK;
}

int tr_bpe_encode(const struct tr_bpe *b, struct tr_bpe_space *s, const char *text, size_t n,
                  struct tr_ids *out)
{
    int32_t id = -1;

    if (b->byte_level)
        id = tr_vocab_find_bytes(b->vocab, text, n);
    else if (b->ignore_merges)
        id = model_token(b, text, n);
    return id >= 0 ? tr_ids_add(out, id) : encode(b, s, text, n, out);
}

int tr_bpe_finish(struct tr_bpe *b)
{
    struct tr_bpe_space space = {0};
    struct tr_ids ids = {0};
    int code = TR_OK;

    for (int32_t id = 0; id < b->vocab->size && b->byte_level && !code; id++) {
        const struct tr_token *t = &b->vocab->tokens[id];

        if (!(t->flags & TR_TOKEN_MODEL) || t->bytes.at == t->text.at)
            continue;
        ids.n = 0;
        if (!b->ignore_merges)
            code = encode(b, &space, tr_vocab_text(b->vocab, t->bytes), t->bytes.n, &ids);
        if (b->ignore_merges || (ids.n == 1 && ids.ids[0] == id))
            tr_vocab_index_bytes(b->vocab, id);
    }
    tr_bpe_space_done(&space);
    free(ids.ids);
    return code;
}
