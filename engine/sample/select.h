/* Cutting a list at the shortest prefix of its sorted order that reaches a target, without
 * sorting it. */
#ifndef TR_ENGINE_SAMPLE_SELECT_H
#define TR_ENGINE_SAMPLE_SELECT_H

#include <stdbool.h>

#include "engine/kernels/math.h"

/* The last entry that is kept, in the order (key, index). */
struct tr_cut {
    uint32_t key;
    int index;
};

static inline bool tr_cut_keeps(struct tr_cut cut, uint32_t key, int index)
{
    return key < cut.key || (key == cut.key && index <= cut.index);
}

/* Ascending keys = descending values; -0 and +0 are equal. */
static inline uint32_t tr_key_descending(float x)
{
    uint32_t u = tr_f32_bits(x + 0.0F);
    return u & 0x80000000U ? u : u ^ 0x7FFFFFFFU;
}

/* keys [n], n >= 1; weights [n] >= 0, NULL = each 1; scratch [n]. The shortest prefix, at least
 * one entry, whose weights sum to target or more; all entries if they never do. Radix selection,
 * four passes over ever fewer entries; sums are in double and in index order. */
struct tr_cut tr_select(const uint32_t *keys, const float *weights, int n, double target,
                        int *scratch);

#endif
