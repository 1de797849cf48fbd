/*
 * The one pass over the files; see load.h.
 *
 * The work is cut into chunks of rows, whole panels each, that any thread may take in any order:
 * each goes to its own place and has its own hash, so the result does not depend on who does what.
 * Files are read by position into a small buffer, not mapped: that costs one copy inside the cache
 * and saves a page fault every 4 KiB, and a file that shrinks under us is an error, not a signal.
 */
#include "engine/checkpoint/load.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/quant_rows.h"

enum { PANEL = 16 }; /* rows that are packed together */

struct chunk {
    struct tr_slot *slot;
    int row, rows;
    struct tr_hash hash;  /* of the rows as they are in the file */
    double lost, present; /* of its first row, see struct tr_slot */
};

struct loader {
    const struct tr_source *source;
    const struct tr_weights_options *options;
    uint8_t *arena;
    bool drop;
    struct chunk *chunks; /* in the plan's order */
    size_t *order;        /* indices of chunks, in the files' order */
    size_t n;
    uint64_t total;                /* bytes of all chunks in the files */
    uint64_t max_file, max_memory; /* bytes of the largest chunk: in the file, converted */
    int max_k;
    atomic_size_t next;
    atomic_ullong done;
    atomic_bool failed;
    pthread_mutex_t lock; /* of err */
    struct tr_err err;
};

struct scratch {
    uint8_t *file;      /* [max_file] rows as read */
    uint8_t *converted; /* [max_memory] rows in the file format of the kept type */
    float *row, *back;  /* [max_k] */
    struct tr_quant_rows quant;
};

static bool packs(const struct tr_slot *slot)
{
    return slot->kind == TR_SLOT_MATRIX && slot->type != TR_W_F32;
}

/* What became of a row: `row` is what it was, `kept` what it is. */
static void measure(struct chunk *c, const float *row, const uint8_t *kept, float *back)
{
    const struct tr_slot *slot = c->slot;
    tr_dequantize_row(slot->type, kept, slot->k, back);
    float factor = slot->type == TR_W_NVFP4 ? slot->factor : 1.0F;
    for (int j = 0; j < slot->k; j++) {
        double d = (double)row[j] - (double)back[j] * (double)factor;
        c->lost += d * d;
        c->present += (double)row[j] * (double)row[j];
    }
}

/* Rows to the file format of the kept type. */
static int convert(struct chunk *c, const uint8_t *from, const struct scratch *sc, uint8_t *to,
                   struct tr_err *err)
{
    const struct tr_slot *slot = c->slot;
    size_t in = tr_file_row_bytes(slot->tensor->type, slot->k);
    size_t out = tr_file_row_bytes(slot->type, slot->k);
    for (int i = 0; i < c->rows; i++, from += in, to += out) {
        bool copied = tr_copy_row(slot->tensor->type, from, slot->k, slot->type, to) == 0;
        if (copied && i > 0)
            continue;
        tr_dequantize_row(slot->tensor->type, from, slot->k, sc->row);
        for (int j = 0; j < slot->k && slot->tensor->scale; j++)
            sc->row[j] *= slot->factor;
        if (slot->type == TR_W_F32)
            memcpy(to, sc->row, out);
        else if (!copied && tr_quantize_row(slot->type, sc->row, slot->k, to))
            return tr_err_set(err, TR_EINTERNAL, slot->tensor->name, "%s: can't be made %s",
                              slot->tensor->name, tr__wtype_name(slot->type));
        if (i == 0)
            measure(c, sc->row, to, sc->back);
    }
    return 0;
}

/* Rows of a quantised matrix to the file format of the kept type: codes are taken over where that
 * holds them, else through floats. */
static int convert_quant(struct chunk *c, struct scratch *sc, uint8_t *to, struct tr_err *err)
{
    const struct tr_slot *slot = c->slot;
    bool over = tr__quant_holds(slot->tensor->quant, slot->type);
    size_t out = tr_file_row_bytes(slot->type, slot->k);
    int r = 0;
    for (int i = 0; i < c->rows && !r; i++, to += out) {
        if (!over || i == 0)
            r = tr__quant_rows_floats(&sc->quant, i, sc->row, err);
        if (!r && over)
            r = tr__quant_rows_blocks(&sc->quant, i, slot->type, to, err);
        else if (!r && slot->type == TR_W_F32)
            memcpy(to, sc->row, out);
        else if (!r && tr_quantize_row(slot->type, sc->row, slot->k, to))
            r = tr_err_set(err, TR_EINTERNAL, slot->tensor->name, "can't be made %s",
                           tr__wtype_name(slot->type));
        if (!r && i == 0)
            measure(c, sc->row, to, sc->back);
    }
    return r;
}

/* A norm, router or bias that is not finite spoils every answer, or silently the choice of experts.
 * `rows` is as it is kept. */
static int check_finite(const struct loader *l, const struct chunk *c, const uint8_t *rows,
                        float *row, struct tr_err *err)
{
    const struct tr_slot *slot = c->slot;
    const struct tr_tensor *t = slot->tensor;
    for (int i = 0; i < c->rows; i++, rows += tr_file_row_bytes(slot->type, slot->k)) {
        tr_dequantize_row(slot->type, rows, slot->k, row);
        for (int j = 0; j < slot->k; j++)
            if (!isfinite(row[j]))
                return tr_err_set(err, TR_EFORMAT, t->name, "%s: %s: element %lld is %g",
                                  l->source->files[t->file].name, t->name,
                                  (long long)(c->row + i) * slot->k + j, (double)row[j]);
    }
    return 0;
}

/* Tells the kernel what becomes of a chunk's bytes. */
static void advise(const struct loader *l, const struct chunk *c, int advice)
{
    const struct tr_slot *slot = c->slot;
    uint64_t from = slot->offset + tr__slot_file_bytes(slot, c->row);
    (void)posix_fadvise(l->source->files[slot->tensor->file].fd, (off_t)from,
                        (off_t)tr__slot_file_bytes(slot, c->rows), advice);
}

static int load_quant(const struct loader *l, struct chunk *c, struct scratch *sc,
                      struct tr_err *err)
{
    const struct tr_slot *slot = c->slot;
    const struct tr_tensor *t = slot->tensor;
    uint8_t *place = l->arena + slot->at;
    uint8_t *to = packs(slot) ? sc->converted
                              : place + (uint64_t)c->row * tr_file_row_bytes(slot->type, slot->k);
    struct tr_err inner;
    int r = tr__quant_rows_read(&sc->quant, l->source, t, slot->first + (uint64_t)c->row, c->rows,
                                &c->hash, err);
    if (r)
        return r;
    r = convert_quant(c, sc, to, &inner);
    if (r)
        return tr_err_set(err, r, t->name, "%s: %s: %s", l->source->files[t->file].name, t->name,
                          inner.msg);
    if (packs(slot))
        tr_pack_rows(slot->type, to, c->row, c->rows, slot->n, slot->k, place);
    if (packs(slot) && slot->type == TR_W_NVFP4)
        tr_pack_factor(slot->factor, c->row, c->rows, slot->k, place);
    if (l->drop) /* its codes, about; the rest is small */
        advise(l, c, POSIX_FADV_DONTNEED);
    return 0;
}

static int load_chunk(const struct loader *l, struct chunk *c, struct scratch *sc,
                      struct tr_err *err)
{
    if (c->slot->tensor->quant)
        return load_quant(l, c, sc, err);
    const struct tr_slot *slot = c->slot;
    const struct tr_file *f = &l->source->files[slot->tensor->file];
    uint64_t bytes = tr__slot_file_bytes(slot, c->rows);
    uint64_t from = slot->offset + tr__slot_file_bytes(slot, c->row);
    bool same = slot->type == slot->tensor->type;
    uint8_t *raw = l->arena + slot->at + (uint64_t)c->row * tr_file_row_bytes(slot->type, slot->k);
    uint8_t *src = same && !packs(slot) && !slot->in_place ? raw : sc->file;
    int r = tr__file_read(f, from, src, bytes, err);
    if (r)
        return r;
    c->hash = tr_hash(src, bytes);
    if (slot->in_place)
        return 0;
    if (!same) {
        uint8_t *to = packs(slot) ? sc->converted : raw;
        r = convert(c, src, sc, to, err);
        src = to;
    }
    if (!r && (slot->kind == TR_SLOT_VECTOR || slot->kind == TR_SLOT_ROUTER))
        r = check_finite(l, c, raw, sc->row, err);
    if (!r && packs(slot))
        tr_pack_rows(slot->type, src, c->row, c->rows, slot->n, slot->k, l->arena + slot->at);
    if (!r && packs(slot) && same && slot->tensor->scale)
        tr_pack_factor(slot->factor, c->row, c->rows, slot->k, l->arena + slot->at);
    if (l->drop)
        advise(l, c, POSIX_FADV_DONTNEED);
    return r;
}

static void fail(struct loader *l, const struct tr_err *err)
{
    pthread_mutex_lock(&l->lock);
    if (!l->err.code)
        l->err = *err;
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->failed, true);
}

static void load_chunks(struct loader *l, struct scratch *sc, const struct tr_pool_part *part)
{
    while (!atomic_load(&l->failed)) {
        size_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->n)
            break;
        struct chunk *c = &l->chunks[l->order[i]];
        struct tr_err err;
        /* Lets the disk fetch a chunk while others are being packed. The kernel's own reading ahead
         * is made for one reader of a file. */
        if (i + (size_t)part->n < l->n)
            advise(l, &l->chunks[l->order[i + (size_t)part->n]], POSIX_FADV_WILLNEED);
        if (load_chunk(l, c, sc, &err))
            fail(l, &err);
        uint64_t bytes = tr__slot_file_bytes(c->slot, c->rows);
        uint64_t done = atomic_fetch_add(&l->done, bytes) + bytes;
        if (part->tid == 0 && l->options->progress)
            l->options->progress(l->options->progress_arg, done, l->total);
    }
}

static void work(void *arg, const struct tr_pool_part *part)
{
    struct loader *l = arg;
    struct scratch sc = {.file = malloc(l->max_file),
                         .converted = malloc(l->max_memory),
                         .row = malloc((size_t)l->max_k * sizeof *sc.row),
                         .back = malloc((size_t)l->max_k * sizeof *sc.back)};
    if (sc.file && sc.converted && sc.row && sc.back) {
        load_chunks(l, &sc, part);
    } else {
        struct tr_err err;
        tr_err_set(&err, TR_ENOMEM, NULL, "out of memory");
        fail(l, &err);
    }
    tr__quant_rows_done(&sc.quant);
    free(sc.back);
    free(sc.row);
    free(sc.converted);
    free(sc.file);
}

static int rows_per_chunk(const struct tr_slot *slot)
{
    uint64_t panel = tr__slot_file_bytes(slot, PANEL);
    uint64_t rows = PANEL * TR_MAX(TR_LOAD_CHUNK / panel, 1);
    return (int)TR_MIN(rows, (uint64_t)slot->n);
}

static int by_place(const void *a, const void *b, void *chunks)
{
    const struct chunk *x = (struct chunk *)chunks + *(const size_t *)a;
    const struct chunk *y = (struct chunk *)chunks + *(const size_t *)b;
    if (x->slot->tensor->file != y->slot->tensor->file)
        return x->slot->tensor->file < y->slot->tensor->file ? -1 : 1;
    uint64_t p = x->slot->offset + tr__slot_file_bytes(x->slot, x->row);
    uint64_t q = y->slot->offset + tr__slot_file_bytes(y->slot, y->row);
    return (p > q) - (p < q);
}

static int cut(struct loader *l, struct tr_load_plan *plan, struct tr_err *err)
{
    for (size_t i = 0; i < plan->n; i++)
        l->n += TR_CEIL_DIV((size_t)plan->slots[i].n, (size_t)rows_per_chunk(&plan->slots[i]));
    l->chunks = calloc(l->n + 1, sizeof *l->chunks);
    l->order = calloc(l->n + 1, sizeof *l->order);
    if (!l->chunks || !l->order)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++) {
        struct tr_slot *slot = &plan->slots[i];
        int rows = rows_per_chunk(slot);
        uint64_t converted = (uint64_t)rows * tr_file_row_bytes(slot->type, slot->k);
        l->max_file = TR_MAX(l->max_file, tr__slot_file_bytes(slot, rows));
        l->max_memory = TR_MAX(l->max_memory, converted);
        l->max_k = TR_MAX(l->max_k, slot->k);
        for (int row = 0; row < slot->n; row += rows, n++) {
            l->chunks[n] =
                (struct chunk){.slot = slot, .row = row, .rows = TR_MIN(rows, slot->n - row)};
            l->order[n] = n;
        }
    }
    l->total = plan->source_bytes;
    qsort_r(l->order, l->n, sizeof *l->order, by_place, l->chunks);
    return 0;
}

int tr__load(struct tr_load_plan *plan, const struct tr_source *s, uint8_t *arena, bool drop,
             const struct tr_weights_options *options, struct tr_hash *ret_values,
             struct tr_err *err)
{
    struct loader l = {.source = s,
                       .options = options,
                       .arena = arena,
                       .drop = drop,
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    int r = cut(&l, plan, err);
    if (!r) {
        for (int i = 0; i < s->n_files; i++)
            (void)posix_fadvise(s->files[i].fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        tr_pool_run(options->pool, work, &l);
        if (l.err.code) {
            r = l.err.code;
            if (err)
                *err = l.err;
        }
    }
    if (!r) {
        struct tr_hash values = {0};
        for (size_t i = 0; i < l.n; i++) {
            l.chunks[i].slot->lost += l.chunks[i].lost;
            l.chunks[i].slot->present += l.chunks[i].present;
            values = tr_hash_link(values, &l.chunks[i].hash, sizeof l.chunks[i].hash);
        }
        *ret_values = values;
        if (options->progress)
            options->progress(options->progress_arg, l.total, l.total);
    }
    free(l.order);
    free(l.chunks);
    return r;
}
