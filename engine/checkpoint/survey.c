#include "engine/checkpoint/survey.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/bind.h"
#include "engine/checkpoint/quant_rows.h"

enum { ROWS_BYTES = 1 << 20, KEPT_BYTES = 64 };

/* What the values of a slot, then of a tensor, are. */
struct values {
    uint64_t nans, infinities;
    bool nonzero;
    uint32_t types; /* set of enum tr_wtype: what its slots are kept as */
};

struct survey {
    const struct tr_source *source;
    const struct tr_load_plan *plan;
    struct values *slots;   /* [plan->n] */
    struct values *tensors; /* [source->n_tensors] */
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock; /* of err */
    struct tr_err err;
};

struct look_rows {
    uint8_t *file;
    float *row;
    struct tr_quant_rows quant;
};

static void look(struct values *v, const float *x, int n)
{
    uint32_t any = 0, most = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        any |= bits;
        most = TR_MAX(most, bits);
    }
    v->nonzero |= any != 0;
    if (most < 0x7f800000)
        return;
    for (int i = 0; i < n; i++) {
        v->nans += x[i] != x[i];
        v->infinities += x[i] == x[i] && x[i] - x[i] != 0;
    }
}

static int look_at_rows(const struct survey *s, size_t i, int first, int n, struct look_rows *b,
                        struct tr_err *err)
{
    const struct tr_slot *slot = &s->plan->slots[i];
    const struct tr_tensor *t = slot->tensor;
    struct tr_hash hash;
    uint64_t row = tr__slot_file_bytes(slot, 1);
    int r = t->quant
                ? tr__quant_rows_read(&b->quant, s->source, t, slot->first + (uint64_t)first, n,
                                      &hash, err)
                : tr__file_read(&s->source->files[t->file], slot->offset + (uint64_t)first * row,
                                b->file, (uint64_t)n * row, err);
    for (int j = 0; j < n && r == 0; j++) {
        if (t->quant)
            r = tr__quant_rows_floats(&b->quant, j, b->row, err);
        else
            tr_dequantize_row(t->type, b->file + (size_t)j * row, slot->k, b->row);
        if (r == 0)
            look(&s->slots[i], b->row, slot->k);
    }
    return r;
}

static int look_at_slot(const struct survey *s, size_t i, struct tr_err *err)
{
    const struct tr_slot *slot = &s->plan->slots[i];
    uint64_t bytes = tr__slot_file_bytes(slot, 1);
    int at_once = (int)TR_MIN(TR_MAX(ROWS_BYTES / bytes, 1), (uint64_t)slot->n);
    struct look_rows b = {.file = malloc((size_t)at_once * bytes),
                          .row = malloc((size_t)slot->k * sizeof *b.row)};
    int r = b.file && b.row ? 0 : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (int j = 0; j < slot->n && r == 0; j += at_once)
        r = look_at_rows(s, i, j, TR_MIN(at_once, slot->n - j), &b, err);
    tr__quant_rows_done(&b.quant);
    free(b.row);
    free(b.file);
    return r;
}

static void work(void *arg, const struct tr_pool_part *part)
{
    (void)part;
    struct survey *s = arg;
    struct tr_err err;
    while (!atomic_load(&s->failed)) {
        size_t i = atomic_fetch_add(&s->next, 1);
        if (i >= s->plan->n)
            break;
        if (look_at_slot(s, i, &err) == 0)
            continue;
        pthread_mutex_lock(&s->lock);
        if (!s->err.code)
            s->err = err;
        pthread_mutex_unlock(&s->lock);
        atomic_store(&s->failed, true);
    }
}

/* ---- what is told ---- */

static void gather(const struct survey *s, const struct tr_weights *w)
{
    for (size_t i = 0; i < s->plan->n; i++) {
        const struct tr_slot *slot = &s->plan->slots[i];
        struct values *v = &s->tensors[slot->tensor - s->source->tensors];
        v->nans += s->slots[i].nans;
        v->infinities += s->slots[i].infinities;
        v->nonzero |= s->slots[i].nonzero;
        v->types |= 1u << slot->type;
        /* A bias may well be none. */
        for (int l = 0; l < w->config.n_layers && slot->kind == TR_SLOT_VECTOR; l++)
            v->nonzero |= slot->owner.vector == &w->layers[l].expert_bias;
    }
}

static void name_kept(const struct tr_tensor *t, const struct values *v, char text[KEPT_BYTES])
{
    size_t n = 0;
    strcpy(text, t->used || t->part ? "part" : "unused");
    for (enum tr_wtype type = TR_W_F32; type < TR_W_COUNT; type++) {
        const char *name = tr__wtype_name(type);
        if (!(v->types >> type & 1) || n + strlen(name) + 2 > KEPT_BYTES)
            continue;
        if (n)
            text[n++] = '+';
        strcpy(text + n, name);
        n += strlen(name);
    }
}

static int by_name(const void *a, const void *b, void *tensors)
{
    const struct tr_tensor *t = tensors;
    return strverscmp(t[*(const size_t *)a].name, t[*(const size_t *)b].name);
}

static int tell(const struct survey *s, tr_tensor_fn fn, void *arg, struct tr_err *err)
{
    size_t n = s->source->n_tensors;
    size_t *order = calloc(n + 1, sizeof *order);
    if (!order)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, by_name, s->source->tensors);
    for (size_t i = 0; i < n; i++) {
        const struct tr_tensor *t = &s->source->tensors[order[i]];
        const struct values *v = &s->tensors[order[i]];
        char kept[KEPT_BYTES];
        name_kept(t, v, kept);
        struct tr_tensor_facts facts = {.name = t->name,
                                        .file = s->source->files[t->file].name,
                                        .stored = t->type_name,
                                        .kept = kept,
                                        .dims = t->dims,
                                        .n_dims = t->n_dims,
                                        .zero = v->types && !v->nonzero,
                                        .nans = v->nans,
                                        .infinities = v->infinities};
        fn(arg, &facts);
    }
    free(order);
    return 0;
}

static int run(struct survey *s, struct tr_pool *pool, struct tr_err *err)
{
    s->slots = calloc(s->plan->n + 1, sizeof *s->slots);
    s->tensors = calloc(s->source->n_tensors + 1, sizeof *s->tensors);
    if (!s->slots || !s->tensors)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    tr_pool_run(pool, work, s);
    if (s->err.code)
        *err = s->err;
    return s->err.code;
}

int tr_survey(const char *model, enum tr_weights_choice choice, struct tr_pool *pool,
              tr_tensor_fn fn, void *arg, struct tr_err *err)
{
    struct tr_checkpoint *c = NULL;
    struct tr_load_plan plan = {0};
    struct tr_weights *w = calloc(1, sizeof *w);
    struct survey s = {.plan = &plan, .lock = PTHREAD_MUTEX_INITIALIZER};
    int r =
        w ? tr_checkpoint_open(&c, model, err) : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0) {
        w->config = c->config;
        s.source = &c->source;
        r = tr__bind(w, &c->source, c->kind, &plan, err);
    }
    if (r == 0)
        r = tr__load_plan_layout(&plan, &c->source, choice, false, err);
    if (r == 0)
        r = run(&s, pool, err);
    if (r == 0) {
        gather(&s, w);
        r = tell(&s, fn, arg, err);
    }
    free(s.tensors);
    free(s.slots);
    tr__load_plan_done(&plan);
    tr_weights_close(w);
    tr_checkpoint_close(c);
    return r;
}
