/*
 * The cache of the local layers: sliding window, keys stored ROTATED at their absolute positions.
 *
 * Rotation exists nowhere else. tr_local_write takes the normed, unrotated key and rotates it on
 * the way in; tr_local_attend takes the normed, unrotated query and rotates it on the way to the
 * scores. A local page and a global page are different types with different pools, so that
 * replaying one as the other does not compile.
 *
 * A sequence's table is a run of pages; the pages wholly behind the window are dropped from its
 * front.
 */
#ifndef TR_ENGINE_CACHE_LOCAL_H
#define TR_ENGINE_CACHE_LOCAL_H

#include "engine/cache/attend.h"

/* Provenance, checked at each reuse, is kept by the pool beside the data (see pages.h). */
struct tr_local_page;

struct tr_local_table {
    struct tr_page_table table;
};

/* cos and sin of position * theta^(-2i / head_dim), i < head_dim / 2: angles in fp32 as the
 * reference forms them. */
struct tr_rope {
    int head_dim;
    float *inv_freq; /* [head_dim / 2]; owned */
};
TR_NODISCARD int tr_rope_init(struct tr_rope *rope, int head_dim, double theta);
void tr_rope_done(struct tr_rope *rope);
/* table: [head_dim / 2] cosines, then [head_dim / 2] sines. */
void tr_rope_table(const struct tr_rope *rope, int64_t position, float *table);

/* Stores token `pos`'s normed, unrotated key and its value, rotating the key by its position's
 * table. */
void tr_local_write(const struct tr_kv_layout *l, const struct tr_local_table *t, int layer,
                    int head, int64_t pos, const float *table, const float *k, const float *v);
/* q->q holds normed, unrotated queries; it is rotated in place by tables [n_tokens][head_dim]. */
void tr_local_attend(const struct tr_kernels *kn, const struct tr_kv_layout *l,
                     const struct tr_local_table *t, const struct tr_kv_query *q,
                     const float *tables, void *scratch);

#endif
