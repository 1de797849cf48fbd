/*
 * Attention over pages: which keys, in which order. The arithmetic of one block is a kernel
 * (kernels.h, attn).
 *
 * A token's blocks and pieces are determined by its position alone, whatever tile it is computed in
 * and whatever pages hold the keys. Tokens of a tile that see the same part of a block go through
 * the kernel together, so that a full block is read once for all of them; at the edges (the
 * diagonal, the far end of the window) each token goes alone.
 */
#include "engine/cache/attend.h"

#include <string.h>

#include "engine/kernels/math.h"

enum { PIECE = 2048 };

static const float neg_inf = -__builtin_inff();

/* Running state of online softmax for the rows of a tile. */
struct state {
    float *max; /* [rows] */
    float *sum; /* [rows] */
    float *o;   /* [rows][head_dim] */
};

size_t tr_kv_attend_scratch(int rows, int head_dim)
{
    return (size_t)rows * ((size_t)head_dim + 4) * sizeof(float) + 64;
}

static void state_reset(const struct state *s, int rows, int head_dim)
{
    for (int r = 0; r < rows; r++) {
        s->max[r] = neg_inf;
        s->sum[r] = 0.0F;
    }
    memset(s->o, 0, (size_t)rows * head_dim * sizeof *s->o);
}

/* total = total merged with the next piece, in order of position. */
static void state_merge(const struct state *total, const struct state *piece, int rows,
                        int head_dim)
{
    for (int r = 0; r < rows; r++) {
        float *o = total->o + (size_t)r * head_dim;
        const float *po = piece->o + (size_t)r * head_dim;
        if (piece->max[r] == neg_inf)
            continue;
        if (total->max[r] ==
            neg_inf) { /* a copy, to the sign of zero: what one piece alone gives */
            total->max[r] = piece->max[r];
            total->sum[r] = piece->sum[r];
            memcpy(o, po, (size_t)head_dim * sizeof *o);
            continue;
        }
        float m = total->max[r] > piece->max[r] ? total->max[r] : piece->max[r];
        float a = tr_expf(total->max[r] - m);
        float b = tr_expf(piece->max[r] - m);
        total->max[r] = m;
        total->sum[r] = fmaf(piece->sum[r], b, total->sum[r] * a);
        for (int d = 0; d < head_dim; d++)
            o[d] = fmaf(po[d], b, o[d] * a);
    }
}

struct walk {
    const struct tr_kernels *kn;
    const struct tr_kv_layout *l;
    void *const *data;
    int64_t first_page;
    const struct tr_kv_query *q;
};

static int64_t first_key(const struct tr_kv_query *q, int token)
{
    int64_t pos = q->pos0 + token;
    return pos < q->window ? 0 : pos - q->window + 1;
}

/* Tokens [t0, t1), all of which see exactly keys [lo, hi) of the block at position `base`. */
static void attend_block(const struct walk *w, const struct state *s, int64_t base, int t0, int t1,
                         int lo, int hi)
{
    const struct tr_kv_query *q = w->q;
    const struct tr_kv_layout *l = w->l;
    size_t row = (size_t)t0 * q->group;
    struct tr_attn_block b = {
        .q = q->q + row * l->head_dim,
        .m = (t1 - t0) * q->group,
        .head_dim = l->head_dim,
        .scale = (float)(1.0 / sqrt((double)l->head_dim)),
        .lo = lo,
        .hi = hi,
        .max = s->max + row,
        .sum = s->sum + row,
        .o = s->o + row * l->head_dim,
    };
    for (int i = lo / TR_ATTN_SUB; i * TR_ATTN_SUB < hi; i++) {
        int64_t pos = base + (int64_t)i * TR_ATTN_SUB;
        const char *page = w->data[pos / l->page_tokens - w->first_page];
        int slot = (int)(pos % l->page_tokens);
        b.k[i] = page + tr_kv_key_offset(l, q->layer, q->head, slot);
        b.v[i] = page + tr_kv_value_offset(l, q->layer, q->head, slot);
    }
    for (int i = 0; i < TR_ATTN_KEYS / TR_ATTN_SUB; i++) {
        int64_t pos = base + TR_ATTN_KEYS + (int64_t)i * TR_ATTN_SUB;
        if (pos < q->pos0 + q->n_tokens) {
            const char *page = w->data[pos / l->page_tokens - w->first_page];
            int slot = (int)(pos % l->page_tokens);
            b.next[i] = page + tr_kv_key_offset(l, q->layer, q->head, slot);
        }
    }
    w->kn->attn[l->type](&b);
}

static void attend_piece(const struct walk *w, const struct state *s, int64_t begin, int64_t end)
{
    const struct tr_kv_query *q = w->q;
    int64_t first = TR_MAX(begin, first_key(q, 0) / TR_ATTN_KEYS * TR_ATTN_KEYS);
    int64_t last = TR_MIN(end - 1, q->pos0 + q->n_tokens - 1);
    for (int64_t base = first; base <= last; base += TR_ATTN_KEYS) {
        for (int t = 0; t < q->n_tokens;) {
            int64_t lo = TR_MAX(first_key(q, t), base) - base;
            int64_t hi = TR_MIN(q->pos0 + t + 1, base + TR_ATTN_KEYS) - base;
            int u = t + 1;
            while (u < q->n_tokens && TR_MAX(first_key(q, u), base) - base == lo &&
                   TR_MIN(q->pos0 + u + 1, base + TR_ATTN_KEYS) - base == hi)
                u++;
            if (lo < hi && lo < TR_ATTN_KEYS && hi > 0)
                attend_block(w, s, base, t, u, (int)lo, (int)hi);
            t = u;
        }
    }
}

void tr__kv_attend(const struct tr_kernels *kn, const struct tr_kv_layout *l, void *const *data,
                   int64_t first_page, const struct tr_kv_query *query, void *scratch)
{
    struct walk w = {kn, l, data, first_page, query};
    int rows = query->n_tokens * query->group;
    int head_dim = l->head_dim;
    float *mem = scratch;
    struct state total = {mem, mem + rows, query->o};
    struct state piece = {mem + 2 * (size_t)rows, mem + 3 * (size_t)rows, mem + 4 * (size_t)rows};
    int64_t begin = first_key(query, 0) / PIECE;
    int64_t end = (query->pos0 + query->n_tokens - 1) / PIECE;
    state_reset(&total, rows, head_dim);
    if (begin == end) { /* one piece: merging it with nothing would copy it */
        attend_piece(&w, &total, begin * PIECE, (begin + 1) * PIECE);
    } else {
        for (int64_t p = begin; p <= end; p++) {
            state_reset(&piece, rows, head_dim);
            attend_piece(&w, &piece, p * PIECE, (p + 1) * PIECE);
            state_merge(&total, &piece, rows, head_dim);
        }
    }
    for (int r = 0; r < rows; r++) {
        float inv = 1.0F / total.sum[r];
        float *o = total.o + (size_t)r * head_dim;
        for (int d = 0; d < head_dim; d++)
            o[d] *= inv;
    }
}
