/*
 * A checkpoint's tensors to pointers: names, plan, bytes. Whatever can be wrong without
 * reading the weights is found before the first of them is read.
 */
#include "engine/checkpoint/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/buf.h"
#include "config/clock.h"
#include "engine/checkpoint/arena.h"
#include "engine/checkpoint/bind.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/packed.h"
#include "engine/machine/machine.h"
#include "engine/machine/pool.h"

struct tr_weights_store {
    struct tr_source source; /* its files may stay mapped */
    struct tr_arena arena;
    struct tr_load_plan plan; /* while loading */
    struct tr_buf formats;
    struct tr_packed_writer *writer; /* NULL: nothing is being written */
};

struct tr_weights *tr_weights_close(struct tr_weights *w)
{
    if (!w)
        return NULL;
    for (int i = 0; w->layers && i < w->config.n_layers; i++)
        free(w->layers[i].experts);
    free(w->layers);
    if (w->store) {
        tr__packed_writer_stop(w->store->writer);
        tr__source_done(&w->store->source);
        tr__arena_done(&w->store->arena);
        tr__load_plan_done(&w->store->plan);
        tr_buf_done(&w->store->formats);
    }
    free(w->store);
    free(w);
    return NULL;
}

/* Keeps the arena for the next start: now, or on a thread while it is in use. */
static void keep(struct tr_weights_store *st, const struct tr_weights_options *o,
                 struct tr_packed *p, struct tr_hash values)
{
    struct tr_err why;
    const struct tr_arena *a = &st->arena;
    int r = o->on_packed ? tr__packed_writer_start(&st->writer, p, a->data, a->bytes, values,
                                                   o->on_packed, o->on_packed_arg, &why)
                         : tr__packed_write(p, a->data, a->bytes, values, &why);
    if (r)
        tr__source_warn(&st->source, "packed cache: %s", why.msg);
}

/* The arena, from the packed cache if it has it, else from the checkpoint. */
static int fill(struct tr_weights *w, const struct tr_weights_options *o, struct tr_packed *p,
                struct tr_hash *values, struct tr_err *err)
{
    struct tr_weights_store *st = w->store;
    uint64_t bytes = st->plan.arena_bytes;
    struct tr_err why;
    if (p->path) {
        int r = tr__packed_read(p, &st->arena, bytes, o, values, &why);
        if (r == 0) {
            w->from_packed = true;
            w->cached_bytes = st->arena.file ? bytes : 0;
            return 0;
        }
        if (r != TR_ENOTFOUND)
            tr__source_warn(&st->source, "packed cache is made again: %s", why.msg);
    }
    int r = tr__arena_init(&st->arena, bytes, err);
    if (r)
        return r;
    /* The page cache keeps the files for the next start, if they fit beside the weights. */
    bool drop = w->file_bytes + bytes > tr_memory_left(TR_CGROUP_ROOT);
    r = tr__load(&st->plan, &st->source, st->arena.data, drop, o, values, err);
    if (!r && p->path)
        keep(st, o, p, *values);
    return r;
}

/* Types of the matrices, most bytes first: "q4_K+q6_K". */
static void name_types(const struct tr_load_plan *plan, char *text, size_t size)
{
    uint64_t bytes[TR_W_COUNT] = {0};
    for (size_t i = 0; i < plan->n; i++)
        if (plan->slots[i].kind == TR_SLOT_MATRIX)
            bytes[plan->slots[i].type] += plan->slots[i].bytes;
    text[0] = '\0';
    for (;;) {
        enum tr_wtype most = TR_W_F32;
        for (enum tr_wtype t = TR_W_F32; t < TR_W_COUNT; t++)
            if (bytes[t] > bytes[most])
                most = t;
        if (!bytes[most])
            return;
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", used ? "+" : "", tr__wtype_name(most));
        bytes[most] = 0;
    }
}

/* The facts of struct tr_weights that only the plan knows. */
static void count(struct tr_weights *w)
{
    const struct tr_source *s = &w->store->source;
    const struct tr_load_plan *plan = &w->store->plan;
    for (size_t i = 0; i < s->n_tensors; i++) {
        uint64_t elements;
        if (!s->tensors[i].used || !tr__tensor_elements(&s->tensors[i], &elements))
            continue;
        w->n_params += elements;
        w->file_bytes += s->tensors[i].bytes;
    }
    /* A tied head that stays in the file is the embedding table itself: counted once. */
    const struct tr_slot *head = &plan->slots[plan->n - 1];
    w->memory_bytes = plan->arena_bytes;
    for (size_t i = 0; i < plan->n; i++) {
        const struct tr_slot *slot = &plan->slots[i];
        if (slot->in_place && !(slot != head && slot->tensor == head->tensor && head->in_place))
            w->memory_bytes += slot->bytes;
    }
    name_types(plan, w->types, sizeof w->types);
}

/* What holds for the experts of a layer together. */
static void describe_experts(const struct tr_model_config *c, struct tr_layer *l)
{
    l->expert_panels = true;
    for (int e = 0; l->experts && e < c->n_experts; e++) {
        enum tr_wtype gate = l->experts[e].gate.type, up = l->experts[e].up.type;
        l->expert_forms |= (unsigned)tr_wtype_form(gate) | (unsigned)tr_wtype_form(up);
        l->expert_panels &= gate != TR_W_F32 && up != TR_W_F32;
    }
}

static int load(struct tr_weights *w, const char *path, const struct tr_weights_options *o,
                struct tr_err *err)
{
    struct tr_weights_store *st = w->store;
    struct tr_packed packed = {0};
    struct tr_hash values = {0}, print;
    struct tr_buf text = {0};
    int r = tr__load_plan_layout(&st->plan, &st->source, o->choice, o->use_mmap, err);
    if (r)
        return r;
    count(w);
    if (o->packed_cache)
        r = tr__packed_init(&packed, o->packed_cache, path, &st->plan, &w->config, &st->source,
                            o->choice, err);
    if (!r && o->on_checked &&
        !o->on_checked(o->on_checked_arg, w->memory_bytes, tr_memory_left(TR_CGROUP_ROOT)))
        r = tr_err_set(err, TR_ECANCELED, NULL, "called off before the weights were read");
    if (!r)
        r = fill(w, o, &packed, &values, err);
    tr__packed_done(&packed);
    if (r)
        return r;
    tr__load_plan_point(&st->plan, &st->source, st->arena.data);
    for (int i = 0; i < w->config.n_layers; i++)
        describe_experts(&w->config, &w->layers[i]);
    tr__load_plan_describe(&st->plan, &w->config, false, &text);
    print = tr_hash_link(values, text.data, text.len);
    memcpy(w->fingerprint, &print, sizeof w->fingerprint);
    r = text.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
    tr_buf_done(&text);
    return r;
}

int tr_weights_open(struct tr_weights **ret, struct tr_checkpoint *checkpoint,
                    const struct tr_weights_options *options, struct tr_err *err)
{
    int64_t begun = tr_clock_ns();
    struct tr_weights *w = calloc(1, sizeof *w);
    struct tr_weights_store *st = NULL;
    int r = 0;
    if (!w || !(w->store = calloc(1, sizeof *w->store))) {
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        goto fail;
    }
    st = w->store;
    w->config = checkpoint->config;
    st->source = checkpoint->source;
    checkpoint->source = (struct tr_source){0};
    r = tr__bind(w, &st->source, checkpoint->kind, &st->plan, err);
    if (r)
        goto fail;
    tr__bind_unused(&st->source);
    r = load(w, checkpoint->path, options, err);
    if (r)
        goto fail;
    w->load_seconds = (double)(tr_clock_ns() - begun) * 1e-9;
    for (int i = 0; i < st->source.n_files; i++)
        tr__file_forget(&st->source.files[i]);
    tr__load_plan_formats(&st->plan, &st->formats);
    tr__load_plan_done(&st->plan);
    tr_buf_adds(&st->source.warnings, "");
    if (st->source.warnings.oom || st->formats.oom) {
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        goto fail;
    }
    w->warnings = st->source.warnings.data;
    w->formats = st->formats.data;
    tr__arena_promote(&st->arena);
    *ret = w;
    return 0;
fail:
    tr_weights_close(w);
    return r;
}

void tr_weights_embed(const struct tr_weights *w, int32_t id, float *y)
{
    int d = w->config.hidden_size;
    const uint8_t *rows = w->embed;
    tr_dequantize_row(w->embed_type, rows + (size_t)id * tr_file_row_bytes(w->embed_type, d), d, y);
}
