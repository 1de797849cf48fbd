#include "engine/schedule/ngram.h"

#include <stdlib.h>
#include <string.h>

enum { GRAM = 3, FIRST_LENGTH = 4, MAX_LENGTH = 16, MAX_PENALTY = 64 };

/* In a text of more trigrams the later ones push out earlier ones. */
enum { MIN_PLACES = 64, MAX_PLACES = 1 << 14 };

static uint32_t places_for(int max_ids)
{
    uint32_t n = MIN_PLACES;
    while (n < (uint32_t)max_ids && n < MAX_PLACES)
        n *= 2;
    return n;
}

size_t tr_ngram_bytes(int max_ids)
{
    return places_for(max_ids) * sizeof(int32_t);
}

int tr_ngram_init(struct tr_ngram *g, int max_ids)
{
    uint32_t n = places_for(max_ids);
    *g = (struct tr_ngram){.mask = n - 1, .n_seen = GRAM, .length = FIRST_LENGTH};
    g->last = calloc(n, sizeof *g->last);
    return g->last ? 0 : TR_ENOMEM;
}

void tr_ngram_done(struct tr_ngram *g)
{
    free(g->last);
    *g = (struct tr_ngram){0};
}

/* The table's place for the trigram that ends before `end`. */
static int32_t *place(const struct tr_ngram *g, const int32_t *ids, int end)
{
    uint32_t h = 0;
    for (int i = end - GRAM; i < end; i++)
        h = (h ^ (uint32_t)ids[i]) * 0x9E3779B1U;
    return &g->last[(h ^ h >> 15) & g->mask];
}

int tr_ngram_draft(struct tr_ngram *g, int32_t *ids, int n, int max)
{
    for (; g->n_seen < n; g->n_seen++)
        *place(g, ids, g->n_seen) = g->n_seen;
    if (n < GRAM || max <= 0 || (g->rest && g->rest--))
        return 0;
    int from = *place(g, ids, n);
    if (from == 0 || memcmp(ids + from - GRAM, ids + n - GRAM, GRAM * sizeof *ids) != 0)
        return 0;
    int count = max < g->length ? max : g->length;
    for (int i = 0; i < count; i++) /* may run into its own guesses: a loop goes on */
        ids[n + i] = ids[from + i];
    return count;
}

void tr_ngram_learn(struct tr_ngram *g, int drafts, int accepted)
{
    if (accepted == 0) {
        g->penalty = TR_MIN(2 * g->penalty + 1, MAX_PENALTY);
        g->rest = g->penalty;
        g->length = FIRST_LENGTH;
    } else {
        g->penalty = 0;
        g->length = accepted == drafts ? TR_MIN(2 * drafts, MAX_LENGTH) : accepted + 1;
    }
}
