/* From tensors to places in memory; see plan.h. */
#include "engine/checkpoint/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/fields.h"
#include "engine/checkpoint/quant_rows.h"

enum { ALIGN = 64 };

static const char *const type_names[TR_W_COUNT] = {
    [TR_W_F32] = "f32",     [TR_W_F16] = "f16",         [TR_W_BF16] = "bf16",
    [TR_W_Q8_0] = "q8_0",   [TR_W_Q4_0] = "q4_0",       [TR_W_Q4_K] = "q4_K",
    [TR_W_Q5_K] = "q5_K",   [TR_W_Q6_K] = "q6_K",       [TR_W_Q4_1] = "q4_1",
    [TR_W_Q5_0] = "q5_0",   [TR_W_Q5_1] = "q5_1",       [TR_W_IQ4_NL] = "iq4_nl",
    [TR_W_MXFP4] = "mxfp4", [TR_W_NVFP4] = "nvfp4",     [TR_W_Q2_K] = "q2_K",
    [TR_W_Q3_K] = "q3_K",   [TR_W_IQ4_XS] = "iq4_xs",   [TR_W_IQ3_XXS] = "iq3_xxs",
    [TR_W_IQ3_S] = "iq3_s", [TR_W_IQ2_XXS] = "iq2_xxs", [TR_W_IQ2_XS] = "iq2_xs",
    [TR_W_IQ2_S] = "iq2_s", [TR_W_IQ1_S] = "iq1_s",     [TR_W_IQ1_M] = "iq1_m",
    [TR_W_TQ1_0] = "tq1_0", [TR_W_TQ2_0] = "tq2_0",     [TR_W_Q1_0] = "q1_0",
    [TR_W_Q2_0] = "q2_0",
};

const char *tr__wtype_name(enum tr_wtype type)
{
    return type_names[type];
}

void tr__load_plan_done(struct tr_load_plan *plan)
{
    free(plan->slots);
    *plan = (struct tr_load_plan){0};
}

int tr__load_plan_add(struct tr_load_plan *plan, const struct tr_slot *slot, struct tr_err *err)
{
    if (plan->n == plan->cap) {
        size_t cap = plan->cap ? 2 * plan->cap : 1024;
        struct tr_slot *p = realloc(plan->slots, cap * sizeof *p);
        if (!p)
            return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
        plan->slots = p;
        plan->cap = cap;
    }
    plan->slots[plan->n++] = *slot;
    return 0;
}

uint64_t tr__slot_file_bytes(const struct tr_slot *slot, int rows)
{
    if (slot->tensor->quant)
        return tr__quant_rows_bytes(slot->tensor->quant, rows);
    return (uint64_t)rows * tr_file_row_bytes(slot->tensor->type, slot->k);
}

/* Is every value of the router exactly a bf16? Files that were made from a BF16 checkpoint hold the
 * router in F32; half of its bytes are then zeros that need not be read at every token. */
static int is_bf16(const struct tr_slot *slot, const struct tr_source *s, bool *ret,
                   struct tr_err *err)
{
    uint64_t row = tr__slot_file_bytes(slot, 1);
    void *src = malloc(row);
    float *x = calloc((size_t)slot->k, sizeof *x);
    uint32_t bits, low = 0;
    int r = 0;
    for (int i = 0; i < slot->n && !low && src && x; i++) {
        r = tr__file_read(&s->files[slot->tensor->file], slot->offset + (uint64_t)i * row, src, row,
                          err);
        if (r)
            break;
        tr_dequantize_row(slot->tensor->type, src, slot->k, x);
        for (int j = 0; j < slot->k; j++) {
            memcpy(&bits, &x[j], sizeof bits);
            low |= bits & 0xFFFF;
        }
    }
    if (!src || !x)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    free(x);
    free(src);
    *ret = low == 0;
    return r;
}

static enum tr_wtype matrix_type(const struct tr_tensor *t, enum tr_weights_choice choice)
{
    switch (choice) {
    case TR_WEIGHTS_F32:
        return TR_W_F32;
    case TR_WEIGHTS_BF16:
        return TR_W_BF16;
    case TR_WEIGHTS_Q8_0:
        return TR_W_Q8_0;
    case TR_WEIGHTS_Q4_0:
        return TR_W_Q4_0;
    case TR_WEIGHTS_AUTO:
    default:
        return t->quant ? t->quant->kept : t->type;
    }
}

/* Rows of the embedding are looked up one by one: kept as they are, where a file format holds them
 * without a factor. */
static enum tr_wtype embed_type(const struct tr_tensor *t, enum tr_weights_choice choice)
{
    const struct tr_quant *q = t->quant;
    if (!q)
        return t->type;
    if (q->kept != TR_W_NVFP4 && tr__quant_holds(q, q->kept))
        return q->kept;
    return choice == TR_WEIGHTS_F32 ? TR_W_F32 : TR_W_BF16;
}

/* The scale of the slot's part of its tensor. */
static int read_factor(struct tr_slot *slot, const struct tr_source *s, struct tr_err *err)
{
    const struct tr_tensor *t = slot->tensor;
    slot->factor = !t->quant ? 1.0F : t->quant->over ? 1.0F / t->quant->factor : t->quant->factor;
    if (!t->scale)
        return 0;
    uint64_t part = t->bytes / (t->n_dims == 3 ? t->dims[0] : 1);
    uint64_t at = t->scale->offset + (slot->offset - t->offset) / part * sizeof(float);
    const struct tr_file *f = &s->files[t->scale->file];
    int r = tr__file_read(f, at, &slot->factor, sizeof slot->factor, err);
    if (!r && !isfinite(slot->factor))
        r = tr_err_set(err, TR_EFORMAT, t->scale->name, "%s: %s: a scale is not finite", f->name,
                       t->scale->name);
    return r;
}

/* May the slot's rows be used as they lie in the file? */
static bool fits_in_place(const struct tr_slot *slot, struct tr_source *s)
{
    uint64_t align = slot->type == TR_W_F32 ? sizeof(float) : sizeof(uint16_t);
    bool as_it_is =
        (slot->kind == TR_SLOT_EMBED && !slot->tensor->quant) ||
        (slot->kind == TR_SLOT_MATRIX && slot->type == TR_W_F32 && slot->tensor->type == TR_W_F32);
    return as_it_is && slot->offset % align == 0 && tr__file_map(&s->files[slot->tensor->file]);
}

static int lay_out(struct tr_slot *slot, struct tr_source *s, enum tr_weights_choice choice,
                   bool use_mmap, struct tr_err *err)
{
    bool exact = true;
    int r = read_factor(slot, s, err);
    if (r)
        return r;
    switch (slot->kind) {
    case TR_SLOT_MATRIX:
        slot->type = matrix_type(slot->tensor, choice);
        slot->bytes = tr_packed_bytes(slot->type, slot->n, slot->k);
        break;
    case TR_SLOT_VECTOR:
        slot->type = TR_W_F32;
        slot->bytes = (uint64_t)slot->k * sizeof(float);
        break;
    case TR_SLOT_ROUTER:
        if (slot->tensor->quant)
            exact = false;
        else if (slot->tensor->type != TR_W_BF16 && (r = is_bf16(slot, s, &exact, err)))
            return r;
        slot->type = exact ? TR_W_BF16 : TR_W_F32;
        slot->bytes = (uint64_t)slot->n * tr_file_row_bytes(slot->type, slot->k);
        break;
    case TR_SLOT_EMBED:
        slot->type = embed_type(slot->tensor, choice);
        slot->bytes = (uint64_t)slot->n * tr_file_row_bytes(slot->type, slot->k);
        break;
    }
    if (!slot->bytes)
        return tr_err_set(err, TR_EFORMAT, slot->tensor->name, "%s: %s: rows of %d can't be %s",
                          s->files[slot->tensor->file].name, slot->tensor->name, slot->k,
                          tr__wtype_name(slot->type));
    slot->in_place = use_mmap && fits_in_place(slot, s);
    return 0;
}

int tr__load_plan_layout(struct tr_load_plan *plan, struct tr_source *s,
                         enum tr_weights_choice choice, bool use_mmap, struct tr_err *err)
{
    plan->arena_bytes = plan->source_bytes = 0;
    for (size_t i = 0; i < plan->n; i++) {
        struct tr_slot *slot = &plan->slots[i];
        int r = lay_out(slot, s, choice, use_mmap, err);
        if (r)
            return r;
        plan->source_bytes += tr__slot_file_bytes(slot, slot->n);
        if (slot->in_place)
            continue;
        slot->at = plan->arena_bytes;
        /* Far from wrapping: every slot is a part of a file, some hundred times larger at most. */
        plan->arena_bytes += TR_ROUND_UP(slot->bytes, (uint64_t)ALIGN);
    }
    return 0;
}

void tr__load_plan_point(const struct tr_load_plan *plan, const struct tr_source *s,
                         const uint8_t *arena)
{
    for (size_t i = 0; i < plan->n; i++) {
        const struct tr_slot *slot = &plan->slots[i];
        const void *data =
            slot->in_place ? s->files[slot->tensor->file].map + slot->offset : arena + slot->at;
        const union tr_slot_owner *owner = &slot->owner;
        switch (slot->kind) {
        case TR_SLOT_MATRIX:
            owner->matrix->type = slot->type;
            owner->matrix->data = data;
            break;
        case TR_SLOT_VECTOR:
            *owner->vector = data;
            break;
        case TR_SLOT_ROUTER:
            if (slot->type == TR_W_BF16)
                owner->layer->router_bf16 = data;
            else
                owner->layer->router_f32 = data;
            break;
        case TR_SLOT_EMBED:
            owner->weights->embed_type = slot->type;
            owner->weights->embed = data;
            break;
        }
    }
}

void tr__load_plan_describe(const struct tr_load_plan *plan, const struct tr_model_config *config,
                            bool layout, struct tr_buf *b)
{
    struct tr_model_config c = *config;
    for (enum tr_field_id id = 0; id <= TR_FIELD_WINDOW; id++)
        tr_buf_addf(b, "%s %d\n", tr_fields[id].key[TR_KEYS_JSON], *tr__field_int(&c, id));
    tr_buf_addf(b, "eps %a theta %a scale %a norm %d tied %d embed %a\nkinds ", (double)c.norm_eps,
                c.rope_theta, (double)c.route_scale, c.route_norm, c.tied, (double)c.embed_scale);
    for (int i = 0; i < c.n_layers; i++)
        tr_buf_addc(b, c.kind[i] == TR_LOCAL ? 'l' : 'g');
    for (size_t i = 0; i < plan->n; i++) {
        const struct tr_slot *slot = &plan->slots[i];
        const struct tr_tensor *t = slot->tensor;
        tr_buf_addf(b, "\n%s %s %llu %d %d %d %s", t->name, t->type_name,
                    (unsigned long long)(slot->offset - t->offset), slot->n, slot->k, slot->kind,
                    tr__wtype_name(slot->type));
        if (slot->tensor->scale)
            tr_buf_addf(b, " x %a", (double)slot->factor);
        if (layout)
            tr_buf_addf(b, " %d %llu", slot->in_place, (unsigned long long)slot->at);
    }
}

/* ---- what people are told ---- */

struct format {
    const char *stored;
    size_t matrices;
    double lost, present;
    enum tr_wtype kept;
    bool same; /* nothing is converted */
};

static struct format *find_format(struct format *all, size_t *n, const struct tr_slot *slot)
{
    const char *stored = slot->tensor->type_name;
    size_t i = 0;
    while (i < *n && !(all[i].kept == slot->type && strcmp(all[i].stored, stored) == 0))
        i++;
    if (i == *n)
        all[(*n)++] = (struct format){
            .stored = stored, .kept = slot->type, .same = slot->tensor->type == slot->type};
    return &all[i];
}

void tr__load_plan_formats(const struct tr_load_plan *plan, struct tr_buf *b)
{
    struct format all[64];
    size_t n = 0;
    for (size_t i = 0; i < plan->n && n < TR_ARRAY_LEN(all); i++) {
        const struct tr_slot *slot = &plan->slots[i];
        if (slot->kind != TR_SLOT_MATRIX && slot->kind != TR_SLOT_EMBED)
            continue;
        struct format *f = find_format(all, &n, slot);
        f->matrices++;
        f->lost += slot->lost;
        f->present += slot->present;
    }
    for (size_t i = 0; i < n; i++) {
        const struct format *f = &all[i];
        tr_buf_addf(b, "%s%s, kept as %s, %zu %s", i ? "\n" : "", f->stored,
                    tr__wtype_name(f->kept), f->matrices, f->matrices == 1 ? "matrix" : "matrices");
        double lost = f->present > 0 ? sqrt(f->lost / f->present) : 0;
        if (f->same || (f->present > 0 && lost < 1e-6)) /* as a float */
            tr_buf_adds(b, ", exact");
        else if (f->present > 0)
            tr_buf_addf(b, ", rounded by %.1e", lost);
    }
}
