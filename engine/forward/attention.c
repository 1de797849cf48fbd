/*
 * Gated attention. Every layer: q and k are RMS-normed per head, v is not; the output is multiplied
 * per channel by sigmoid(W_G h) before W_O, h being what q, k and v are made from. Local layers
 * keep rotated keys and look back `window` keys; global layers know no positions. Which is which is
 * one switch, here.
 */
#include "engine/forward/forward_internal.h"

#include <string.h>

/* A tile's keys and values of one KV head into the pages of the layer's kind. */
static void store_tile(const struct worker *w, const struct tr_layer *l, int layer,
                       const struct tile *tile, int head)
{
    struct tr_forward *f = w->f;
    const struct tr_model_config *c = f->config;
    int index = c->kind_index[layer];
    float key[TR_MAX_HEAD_DIM];
    for (int i = 0; i < tile->n; i++) {
        size_t row = (size_t)tile->row0 + i;
        const float *k = f->k + row * f->sk + (size_t)head * c->head_dim;
        const float *v = f->v + row * f->sk + (size_t)head * c->head_dim;
        f->kn->rmsnorm(k, l->k_norm, c->head_dim, c->norm_eps, key);
        if (c->kind[layer] == TR_LOCAL)
            tr_local_write(&f->local, tile->span->local, index, head, tile->pos0 + i,
                           f->rope_table + row * c->head_dim, key, v);
        else
            tr_global_write(&f->global, tile->span->global, index, head, tile->pos0 + i, key, v);
    }
}

/* One tile and KV head: normed queries of the head's group, attention, gate. */
static void attend_tile(const struct worker *w, const struct tr_layer *l, int layer,
                        const struct tile *tile, int head)
{
    struct tr_forward *f = w->f;
    const struct tr_model_config *c = f->config;
    int group = c->n_heads / c->n_kv_heads;
    size_t width = (size_t)group * c->head_dim;
    size_t offset = (size_t)head * width; /* of the group's channels in a row of q, z and o */

    for (int i = 0; i < tile->n; i++)
        for (int g = 0; g < group; g++)
            f->kn->rmsnorm(
                f->q + ((size_t)tile->row0 + i) * f->sq + offset + (size_t)g * c->head_dim,
                l->q_norm, c->head_dim, c->norm_eps, w->q + i * width + (size_t)g * c->head_dim);
    struct tr_kv_query query = {
        .q = w->q,
        .o = w->o,
        .n_tokens = tile->n,
        .group = group,
        .pos0 = tile->pos0,
        .window = c->window,
        .layer = c->kind_index[layer],
        .head = head,
    };
    if (c->kind[layer] == TR_LOCAL)
        tr_local_attend(f->kn, &f->local, tile->span->local, &query,
                        f->rope_table + (size_t)tile->row0 * c->head_dim, w->attend);
    else
        tr_global_attend(f->kn, &f->global, tile->span->global, &query, w->attend);
    for (int i = 0; i < tile->n; i++) {
        size_t row = (size_t)tile->row0 + i;
        float *o = f->o.f32 + row * f->sq + offset;
        memcpy(o, w->o + i * width, width * sizeof *o);
        f->kn->gate(o, f->z + row * f->sq + offset, (int)width);
        if (width % CUT == 0)
            prepare_columns(w, &f->o, (int)row, (int)offset, (int)(offset + width),
                            tr_wtype_form(l->o.type));
    }
}

void tr__project_heads(const struct worker *w)
{
    struct tr_forward *f = w->f;
    const struct tr_layer *l = layer_of(w);
    project(w, &l->q, &f->h, f->q, f->sq);
    project(w, &l->k, &f->h, f->k, f->sk);
    project(w, &l->v, &f->h, f->v, f->sk);
    project(w, &l->gate, &f->h, f->z, f->sq);
    warm(w, &l->o);
}

/* Where parts have whole KV heads, they need not wait for the others' keys. */
void tr__attend_heads(const struct worker *w)
{
    struct tr_forward *f = w->f;
    for (int head = w->part; head < f->config->n_kv_heads; head += w->n_parts) {
        for (int t = 0; t < f->n_tiles; t++)
            store_tile(w, layer_of(w), f->layer, &f->tiles[t], head);
        for (int t = 0; t < f->n_tiles; t++)
            attend_tile(w, layer_of(w), f->layer, &f->tiles[t], head);
    }
}

/* Otherwise all keys are stored first, and (tile, head) pairs are handed out. */
void tr__store_keys(const struct worker *w)
{
    struct tr_forward *f = w->f;
    int heads = f->config->n_kv_heads;
    for (int unit = w->part; unit < f->n_tiles * heads; unit += w->n_parts)
        store_tile(w, layer_of(w), f->layer, &f->tiles[unit / heads], unit % heads);
}

void tr__attend_tiles(const struct worker *w)
{
    struct tr_forward *f = w->f;
    int heads = f->config->n_kv_heads;
    for (int unit; (unit = take_ticket(w)) < f->n_tiles * heads;)
        attend_tile(w, layer_of(w), f->layer, &f->tiles[unit / heads], unit % heads);
}

/* For heads that share a cut. */
void tr__prepare_heads(const struct worker *w)
{
    struct tr_forward *f = w->f;
    int begin;
    int end;
    share(w, f->n_rows, &begin, &end);
    for (int r = begin; r < end; r++)
        tr_rows_prepare(f->kn, &f->o, r, tr_wtype_form(layer_of(w)->o.type));
}

void tr__project_out(const struct worker *w)
{
    const struct tr_layer *l = layer_of(w);
    project(w, &l->o, &w->f->o, w->f->branch, w->f->sd);
    warm(w, &l->mlp.gate);
}
