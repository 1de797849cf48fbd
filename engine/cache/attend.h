/* Attention of a few query rows over pages of either kind. */
#ifndef TR_ENGINE_CACHE_ATTEND_H
#define TR_ENGINE_CACHE_ATTEND_H

#include "engine/cache/layout.h"

/* What the tables of both kinds consist of. All zero: empty, with room for nothing. */
struct tr_page_table {
    struct tr_page **pages; /* [n]; pages[i] covers positions from (first + i) * page_tokens */
    void **data;            /* [n]: their memory, for the compute threads */
    int64_t first;          /* page number of pages[0] */
    int n, cap;
};

/*
 * Attention of some consecutive tokens' query rows of one KV head over pages. Key blocks of 64 and
 * pieces of 2048 are cut at absolute positions and merged in order: a token's result depends on its
 * q and on the keys and values it sees, and on nothing else.
 */
struct tr_kv_query {
    float *q;     /* [n_tokens][group][head_dim]: `group` query heads share the KV head */
    float *o;     /* [n_tokens][group][head_dim] */
    int n_tokens; /* positions pos0, pos0 + 1, … */
    int group;
    int64_t pos0;
    int64_t window; /* token t sees positions [max(0, pos0 + t - window + 1), pos0 + t] */
    int layer;      /* index within the layer's kind */
    int head;       /* KV head */
};

/* data[i]: memory of the page that covers positions from (first_page + i) * page_tokens. */
void tr__kv_attend(const struct tr_kernels *kn, const struct tr_kv_layout *l, void *const *data,
                   int64_t first_page, const struct tr_kv_query *query, void *scratch);
size_t tr_kv_attend_scratch(int rows, int head_dim);

#endif
