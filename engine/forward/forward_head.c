/*
 * The output head over some of the rows that a pass has kept.
 *
 * A row may want few of its logits. Then only the units of columns that hold them are computed, for
 * this row alone; the rows that want everything go through the head together.
 */
#include "engine/forward/forward_internal.h"

#include <string.h>

#include "config/clock.h"

/* A row that goes along with the others costs about this part of one that goes alone. */
enum { ALONG_PART = 16 };

static void copy_row(const struct tr_rows *from, int row, const struct tr_rows *to, int at,
                     enum tr_form form)
{
    struct tr_rows x = tr_rows_at(from, row);
    struct tr_rows y = tr_rows_at(to, at);
    size_t n = (size_t)tr_rows_stride(x.k);
    if (form == TR_FORM_F32)
        memcpy(y.f32, x.f32, n * sizeof *y.f32);
    if (form == TR_FORM_BF16)
        memcpy(y.bf16, x.bf16, n * sizeof *y.bf16);
    if (form != TR_FORM_Q8)
        return;
    memcpy(y.q8, x.q8, n * sizeof *y.q8);
    memcpy(y.q8_scale, x.q8_scale, n / 32 * sizeof *y.q8_scale);
    memcpy(y.q8_sum, x.q8_sum, n / 32 * sizeof *y.q8_sum);
}

/* Adds the units of one row's ids, unless there are so many that the row had better go along with
 * the other ones of n. */
static bool add_pieces(struct tr_forward *f, const struct tr_head_part *part, int row, int n)
{
    int width = tr_matmul_unit(f->weights->head.type);
    int units = TR_CEIL_DIV(f->config->vocab_size, width);
    int most = TR_MIN(units / TR_MIN(n, ALONG_PART), units - f->n_pieces);
    int begin = f->n_pieces;
    int last = -1;
    for (int i = 0; i < part->n; i++) {
        int unit = part->ids[i] / width;
        if (unit == last)
            continue;
        if (f->n_pieces - begin == most) {
            f->n_pieces = begin;
            return false;
        }
        last = unit;
        f->pieces[f->n_pieces++] = (struct piece){.row = row, .unit = unit};
    }
    return true;
}

/* Sorts the rows: from the end of the logits those in pieces, from their beginning the others. */
static void sort_rows(struct tr_forward *f, int first, int n, const struct tr_head_part *parts)
{
    int free = n; /* rows of logits */
    f->n_pieces = f->n_whole = 0;
    for (int i = 0; i < n; i++) {
        if (parts && parts[i].ids && add_pieces(f, &parts[i], free - 1, n)) {
            f->logits_row[i] = --free;
            f->piece_row[free] = first + i;
        } else {
            f->logits_row[i] = f->n_whole++;
        }
    }
    f->whole = tr_rows_at(&f->final, first);
    if (f->n_whole == n)
        return;
    f->whole = f->h; /* of no use behind the layers */
    for (int i = 0; i < n; i++)
        if (f->logits_row[i] < f->n_whole)
            copy_row(&f->final, first + i, &f->whole, f->logits_row[i],
                     tr_wtype_form(f->weights->head.type));
}

static void run_head(void *arg, const struct tr_pool_part *part)
{
    struct tr_forward *f = arg;
    const struct worker *w = &f->workers[part->tid];
    const struct tr_matrix *head = &f->weights->head;
    tr_matmul(f->kn, head, &f->whole, f->n_whole, f->logits, f->sv, part->i, part->n, w->matmul);
    int i = (int)((int64_t)f->n_pieces * part->i / part->n);
    int end = (int)((int64_t)f->n_pieces * (part->i + 1) / part->n);
    while (i < end) {
        const struct piece *p = &f->pieces[i];
        int k = 1;
        while (i + k < end && p[k].row == p->row && p[k].unit == p->unit + k)
            k++;
        struct tr_rows x = tr_rows_at(&f->final, f->piece_row[p->row]);
        tr_matmul_units(f->kn, head, &x, 1, f->logits + (size_t)p->row * f->sv, f->sv, p->unit,
                        p->unit + k, w->matmul);
        i += k;
    }
}

void tr_forward_head(struct tr_forward *f, int first, int n, const struct tr_head_part *parts)
{
    int64_t begun = tr_clock_ns();
    sort_rows(f, first, n, parts);
    if (f->n_whole || f->n_pieces)
        tr_pool_run(f->pool, run_head, f);
    f->times.head += tr_clock_ns() - begun;
}

const float *tr_forward_logits(const struct tr_forward *f, int i)
{
    return f->logits + (size_t)f->logits_row[i] * f->sv;
}
