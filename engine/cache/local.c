#include "engine/cache/local.h"

#include <stdlib.h>

#include "engine/kernels/math.h"

int tr_rope_init(struct tr_rope *rope, int head_dim, double theta)
{
    float *inv_freq = malloc((size_t)head_dim / 2 * sizeof *inv_freq);
    if (!inv_freq)
        return TR_ENOMEM;
    for (int i = 0; i < head_dim / 2; i++)
        inv_freq[i] = (float)tr_exp(-tr_log(theta) * (2.0 * i / head_dim));
    *rope = (struct tr_rope){.head_dim = head_dim, .inv_freq = inv_freq};
    return 0;
}

void tr_rope_done(struct tr_rope *rope)
{
    free(rope->inv_freq);
    *rope = (struct tr_rope){0};
}

void tr_rope_table(const struct tr_rope *rope, int64_t position, float *table)
{
    int half = rope->head_dim / 2;
    for (int i = 0; i < half; i++) {
        float angle = (float)position * rope->inv_freq[i]; /* fp32, as the reference */
        double s;
        double c;
        tr_sincos((double)angle, &s, &c);
        table[i] = (float)c;
        table[half + i] = (float)s;
    }
}

/* Half-split pairs: (x[i], x[i + D/2]) turn by the angle of frequency i. x and y may be the
 * same. */
static void rotate(const float *x, const float *table, int head_dim, float *y)
{
    int half = head_dim / 2;
    for (int i = 0; i < half; i++) {
        float c = table[i];
        float s = table[half + i];
        float a = x[i];
        float b = x[half + i];
        y[i] = a * c - b * s;
        y[half + i] = b * c + a * s;
    }
}

void tr_local_write(const struct tr_kv_layout *l, const struct tr_local_table *t, int layer,
                    int head, int64_t pos, const float *table, const float *k, const float *v)
{
    float rotated[TR_MAX_HEAD_DIM];
    rotate(k, table, l->head_dim, rotated);
    tr__kv_put(l, t->table.data[pos / l->page_tokens - t->table.first], layer, head,
               (int)(pos % l->page_tokens), rotated, v);
}

void tr_local_attend(const struct tr_kernels *kn, const struct tr_kv_layout *l,
                     const struct tr_local_table *t, const struct tr_kv_query *q,
                     const float *tables, void *scratch)
{
    for (int i = 0; i < q->n_tokens * q->group; i++) {
        float *row = q->q + (size_t)i * l->head_dim;
        rotate(row, tables + (size_t)(i / q->group) * l->head_dim, l->head_dim, row);
    }
    tr__kv_attend(kn, l, t->table.data, t->table.first, q, scratch);
}
