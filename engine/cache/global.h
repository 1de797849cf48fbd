/*
 * The cache of the global layers: full causal prefix, keys stored UNROTATED; no position enters,
 * nothing is dropped while the sequence lives. Nothing here knows of rotation.
 */
#ifndef TR_ENGINE_CACHE_GLOBAL_H
#define TR_ENGINE_CACHE_GLOBAL_H

#include "engine/cache/attend.h"

struct tr_global_page;

struct tr_global_table {
    struct tr_page_table table; /* its first page is 0 */
};

void tr_global_write(const struct tr_kv_layout *l, const struct tr_global_table *t, int layer,
                     int head, int64_t pos, const float *k, const float *v);
/* Every key up to each token's own; q->window is not looked at. */
void tr_global_attend(const struct tr_kernels *kn, const struct tr_kv_layout *l,
                      const struct tr_global_table *t, const struct tr_kv_query *q, void *scratch);

#endif
