#include "engine/cache/global.h"

void tr_global_write(const struct tr_kv_layout *l, const struct tr_global_table *t, int layer,
                     int head, int64_t pos, const float *k, const float *v)
{
    tr__kv_put(l, t->table.data[pos / l->page_tokens], layer, head, (int)(pos % l->page_tokens), k,
               v);
}

void tr_global_attend(const struct tr_kernels *kn, const struct tr_kv_layout *l,
                      const struct tr_global_table *t, const struct tr_kv_query *q, void *scratch)
{
    struct tr_kv_query all = *q;
    all.window = INT64_MAX;
    tr__kv_attend(kn, l, t->table.data, 0, &all, scratch);
}
