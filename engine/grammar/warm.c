/*
 * Masks made ahead: walks by chance through a new grammar's texts, so that those who follow it find
 * most masks made, however long the vocabulary's walk for one takes.
 */
#include "engine/grammar/machine_internal.h"

/* At most: some ten milliseconds, and a part of the store. */
enum { WARM_FUEL = 60000, WARM_BYTES = 3000, WARM_PART = 4, FEW = 16 };

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A byte that c allows; inside strings now and then their end. -1: the text ends. */
static int some_byte(const struct tr__config *c, uint32_t *seed)
{
    int n = 0;

    for (int i = 0; i < 8; i++)
        n += __builtin_popcount(c->allowed[i]);
    if (n == 0 || (c->accept && next_random(seed) % 2))
        return -1;
    if (n > FEW && tr__allows(c, '"') && next_random(seed) % 6 == 0)
        return '"';
    if (n > FEW && tr__allows(c, 'a'))
        return 'a';
    int k = (int)(next_random(seed) % (uint32_t)n);
    for (unsigned byte = 0; byte < 256; byte++)
        if (tr__allows(c, byte) && k-- == 0)
            return (int)byte;
    return -1;
}

void tr_grammar_warm(struct tr_grammar *g)
{
    uint32_t seed = 1, config;

    pthread_mutex_lock(&g->lock);
    g->fuel = WARM_FUEL;
    g->r = 0;
    config = g->begin;
    for (int i = 0; g->vocab && i < WARM_BYTES && g->store.used < g->store.cap / WARM_PART; i++) {
        int byte = tr__mask_at(g, config) ? some_byte(tr__config_at(g, config), &seed) : -1;
        if (g->r)
            break;
        config = byte < 0 ? g->begin : tr__step(g, config, (unsigned)byte);
        if (config == TR__DEAD) /* a name of the object come twice */
            config = g->begin;
    }
    pthread_mutex_unlock(&g->lock);
}
