#include "engine/sample/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernels/math.h"
#include "engine/sample/choice.h"
#include "engine/sample/select.h"

enum {
    RUN = 64,     /* logits that share a maximum, and a word of an id set */
    BLOCK = 1024, /* logits that share a sum */
};
/* Below this the next best token has no chance that a double could show: argmax. */
#define MIN_TEMPERATURE 1e-6F
#define MIN_LOGPROB     (-9999.0F)

struct tr_sampler {
    const struct tr_kernels *kernels;
    int vocab;
    const uint64_t *valid; /* borrowed */
    int n_runs, n_blocks;
    float *run_max;    /* [n_runs] of the row scanned last, without invalid ids */
    double *block_sum; /* [n_blocks] of e^((x - max) / temperature) */
    float *row;        /* [vocab] the changed logits */
    /* Candidates, ids ascending. */
    int n;
    int32_t *ids;   /* [vocab] */
    float *y;       /* [vocab] logit; then (logit - max) / temperature */
    float *w;       /* [vocab] e^y */
    uint32_t *keys; /* [vocab] */
    int *scratch;   /* [vocab] */
    float block[BLOCK];
    struct tr_top top[TR_MAX_LOGPROBS];
};

/* A row that was scanned: what the filters need to know of it. */
struct row {
    const float *x;    /* [vocab] */
    float max;         /* of the valid ids */
    float temperature; /* >= MIN_TEMPERATURE */
};

int tr_sampler_open(struct tr_sampler **ret, const struct tr_kernels *kernels, int vocab,
                    const uint64_t *valid)
{
    struct tr_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return TR_ENOMEM;
    size_t n = (size_t)vocab;
    s->kernels = kernels;
    s->vocab = vocab;
    s->valid = valid;
    s->n_runs = TR_CEIL_DIV(vocab, RUN);
    s->n_blocks = TR_CEIL_DIV(vocab, BLOCK);
    s->run_max = calloc((size_t)s->n_runs, sizeof *s->run_max);
    s->block_sum = calloc((size_t)s->n_blocks, sizeof *s->block_sum);
    s->row = calloc(n, sizeof *s->row);
    s->ids = calloc(n, sizeof *s->ids);
    s->y = calloc(n, sizeof *s->y);
    s->w = calloc(n, sizeof *s->w);
    s->keys = calloc(n, sizeof *s->keys);
    s->scratch = calloc(n, sizeof *s->scratch);
    if (!s->run_max || !s->block_sum || !s->row || !s->ids || !s->y || !s->w || !s->keys ||
        !s->scratch) {
        tr_sampler_close(s);
        return TR_ENOMEM;
    }
    *ret = s;
    return 0;
}

struct tr_sampler *tr_sampler_close(struct tr_sampler *s)
{
    if (s) {
        free(s->run_max);
        free(s->block_sum);
        free(s->row);
        free(s->ids);
        free(s->y);
        free(s->w);
        free(s->keys);
        free(s->scratch);
        free(s);
    }
    return NULL;
}

/* ---- passes over the row ---- */

/* Maximum of a whole run; *nan is set if there is a NaN. Sixteen lanes, so that it vectorises. */
static float run_max(const float *x, int *nan)
{
    float m[16];
    int bad[16];
    for (int j = 0; j < 16; j++) {
        m[j] = x[j];
        bad[j] = x[j] != x[j];
    }
    for (int i = 16; i < RUN; i += 16)
        for (int j = 0; j < 16; j++) {
            float v = x[i + j];
            m[j] = v > m[j] ? v : m[j];
            bad[j] |= v != v;
        }
    for (int j = 1; j < 16; j++) {
        m[0] = m[j] > m[0] ? m[j] : m[0];
        bad[0] |= bad[j];
    }
    *nan |= bad[0];
    return m[0];
}

/* The same for a run in which some ids are not valid. */
static float masked_run_max(const float *x, int n, uint64_t valid, int *nan)
{
    float m = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (!(valid >> i & 1))
            continue;
        m = x[i] > m ? x[i] : m;
        *nan |= x[i] != x[i];
    }
    return m;
}

/* Fills run_max; runs of which the mask (NULL: all) has no id are not read. TR_EINTERNAL if a valid
 * logit is NaN or +inf, TR_EINVAL if none is above -inf. */
static int scan(struct tr_sampler *s, const float *x, const uint64_t *mask, float *ret_max)
{
    float max = -INFINITY;
    int nan = 0;
    for (int r = 0; r < s->n_runs; r++) {
        if (mask && mask[r] == 0) {
            s->run_max[r] = -INFINITY;
            continue;
        }
        int n = TR_MIN(RUN, s->vocab - r * RUN);
        uint64_t valid = s->valid[r];
        float m = n == RUN && valid == UINT64_MAX ? run_max(x + r * RUN, &nan)
                                                  : masked_run_max(x + r * RUN, n, valid, &nan);
        s->run_max[r] = m;
        max = m > max ? m : max;
    }
    if (nan || max == INFINITY)
        return TR_EINTERNAL;
    if (max == -INFINITY)
        return TR_EINVAL;
    *ret_max = max;
    return 0;
}

static int32_t argmax(const struct tr_sampler *s, const struct row *row)
{
    int r = 0;
    while (s->run_max[r] != row->max)
        r++;
    int32_t id = r * RUN;
    while (row->x[id] != row->max || !tr_idset_has(s->valid, id))
        id++;
    return id;
}

/* What the runs of a block tell of it. */
struct block_kind {
    bool dead;  /* every id is -inf or not valid: its weights are 0 */
    bool whole; /* no run is dead, every id is valid: it can be read as it is */
};

static struct block_kind kind_of(const struct tr_sampler *s, int first, int n)
{
    struct block_kind kind = {.dead = true, .whole = n == BLOCK};
    for (int r = first / RUN; r < TR_CEIL_DIV(first + n, RUN); r++) {
        bool dead = s->run_max[r] == -INFINITY;
        kind.dead &= dead;
        kind.whole &= !dead && s->valid[r] == UINT64_MAX;
    }
    return kind;
}

/* The exponents (x - max) / temperature of a block, -inf where the run is dead or the id not valid:
 * s->block. */
static void scale_block(struct tr_sampler *s, const struct row *row, int first, int n)
{
    for (int at = 0; at < n; at += RUN) {
        int r = (first + at) / RUN;
        bool dead = s->run_max[r] == -INFINITY;
        for (int i = at; i < TR_MIN(at + RUN, n); i++)
            s->block[i] = dead ? -INFINITY : (row->x[first + i] - row->max) / row->temperature;
        if (s->valid[r] == UINT64_MAX)
            continue;
        for (int i = at; i < TR_MIN(at + RUN, n); i++)
            if (!tr_idset_has(s->valid, first + i))
                s->block[i] = -INFINITY;
    }
}

/* Fills block_sum; returns the sum over the vocabulary, blocks in order. */
static double sum_row(struct tr_sampler *s, const struct row *row)
{
    double total = 0.0;
    for (int b = 0; b < s->n_blocks; b++) {
        int first = b * BLOCK;
        int n = TR_MIN(BLOCK, s->vocab - first);
        struct block_kind kind = kind_of(s, first, n);
        if (kind.dead) {
            s->block_sum[b] = 0.0;
        } else if (row->temperature == 1.0F && kind.whole) {
            s->block_sum[b] = s->kernels->sum_exp(row->x + first, n, row->max);
        } else {
            scale_block(s, row, first, n);
            s->block_sum[b] = s->kernels->sum_exp(s->block, n, 0.0F);
        }
        total += s->block_sum[b];
    }
    return total;
}

/* Makes the valid ids with a logit of at least `floor` the candidates; y = logit. */
static void gather(struct tr_sampler *s, const float *x, float floor)
{
    floor = floor > -FLT_MAX ? floor : -FLT_MAX; /* -inf is never a candidate */
    s->n = 0;
    for (int r = 0; r < s->n_runs; r++) {
        if (!(s->run_max[r] >= floor))
            continue;
        int32_t end = TR_MIN((r + 1) * RUN, s->vocab);
        for (int32_t id = r * RUN; id < end; id++)
            if (x[id] >= floor && tr_idset_has(s->valid, id)) {
                s->ids[s->n] = id;
                s->y[s->n++] = x[id];
            }
    }
}

/* A logit that at least k valid ids reach: the k-th largest maximum of a run. -inf if there are
 * fewer runs. */
static float floor_of_best(struct tr_sampler *s, int k)
{
    if (k >= s->n_runs)
        return -INFINITY;
    for (int r = 0; r < s->n_runs; r++)
        s->keys[r] = tr_key_descending(s->run_max[r]);
    return s->run_max[tr_select(s->keys, NULL, s->n_runs, k, s->scratch).index];
}

/* ---- candidates ---- */

/* e^y for y <= 0, 2 ulp, 1 at 0. As tr_expf, but nothing is fused: this file is compiled for every
 * x86, where each fma would be a call. */
static float weight_of(float y)
{
    const float shift = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    if (y < -87.0F)
        return 0.0F;
    float t = y * 1.44269504F + shift;
    float n = t - shift;
    float r = (y - n * 0.693145752F) - n * 1.42860677e-6F;
    float p = 1.38888889e-3F;
    p = p * r + 8.33333333e-3F;
    p = p * r + 4.16666667e-2F;
    p = p * r + 1.66666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    return p * tr_bits_f32((tr_f32_bits(t) + 127U) << 23); /* the low bits of t hold n */
}

/* y: logit to exponent; w. Returns the sum of w in order. */
static double weigh(struct tr_sampler *s, const struct row *row)
{
    double sum = 0.0;
    for (int i = 0; i < s->n; i++) {
        s->y[i] = (s->y[i] - row->max) / row->temperature;
        s->w[i] = weight_of(s->y[i]);
        sum += (double)s->w[i];
    }
    return sum;
}

static double sum_weights(const struct tr_sampler *s)
{
    double sum = 0.0;
    for (int i = 0; i < s->n; i++)
        sum += (double)s->w[i];
    return sum;
}

/* Drops the candidates behind the cut of s->keys; the order stays. */
static void cut(struct tr_sampler *s, const float *weights, double target)
{
    struct tr_cut c = tr_select(s->keys, weights, s->n, target, s->scratch);
    int kept = 0;
    for (int i = 0; i < s->n; i++)
        if (tr_cut_keeps(c, s->keys[i], i)) {
            s->ids[kept] = s->ids[i];
            s->y[kept] = s->y[i];
            s->w[kept++] = s->w[i];
        }
    s->n = kept;
}

static void keys_best_first(struct tr_sampler *s)
{
    for (int i = 0; i < s->n; i++)
        s->keys[i] = tr_key_descending(s->y[i]);
}

/* Nearest to the expected information first: |-log p - H| = |sum(p y) - y|. */
static void keys_typical_first(struct tr_sampler *s, double total)
{
    double mean = 0.0;
    for (int i = 0; i < s->n; i++)
        if (s->w[i] > 0.0F)
            mean += (double)s->w[i] * (double)s->y[i];
    mean /= total;
    for (int i = 0; i < s->n; i++)
        s->keys[i] = tr_f32_bits(fabsf((float)(mean - (double)s->y[i])));
}

static void drop_below(struct tr_sampler *s, float min_p)
{
    float best = 0.0F;
    for (int i = 0; i < s->n; i++)
        best = s->w[i] > best ? s->w[i] : best;
    int kept = 0;
    for (int i = 0; i < s->n; i++)
        if (s->w[i] >= min_p * best) {
            s->ids[kept] = s->ids[i];
            s->w[kept++] = s->w[i];
        }
    s->n = kept;
}

/* Gathers what top_p could keep, going down from the best until enough of the mass is there. */
static double gather_mass(struct tr_sampler *s, const struct row *row, float top_p)
{
    double total = sum_row(s, row);
    for (int reach = 4; reach <= 16; reach *= 4) {
        gather(s, row->x, row->max - (float)reach * row->temperature);
        if (weigh(s, row) >= (double)top_p * total)
            return total;
    }
    gather(s, row->x, -INFINITY);
    return weigh(s, row);
}

/* Collects candidates for the filters that are on, and applies these. */
static void filter(struct tr_sampler *s, const struct row *row, const struct tr_sampling *p)
{
    double total;
    if (p->top_k || p->typical_p < 1.0F || p->top_p >= 1.0F) {
        float floor = -INFINITY;
        if (p->top_k)
            floor = floor_of_best(s, p->top_k);
        else if (p->typical_p >= 1.0F) /* min_p alone; a little lower than it, for the rounding */
            floor = row->max + row->temperature * ((float)tr_log((double)p->min_p) - 1e-3F);
        gather(s, row->x, floor);
        total = weigh(s, row);
    } else {
        total = gather_mass(s, row, p->top_p);
    }
    if (p->top_k && p->top_k < s->n) {
        keys_best_first(s);
        cut(s, NULL, p->top_k);
        total = sum_weights(s);
    }
    if (p->typical_p < 1.0F) {
        keys_typical_first(s, total);
        cut(s, s->w, (double)p->typical_p * total);
        total = sum_weights(s);
    }
    if (p->top_p < 1.0F) {
        keys_best_first(s);
        cut(s, s->w, (double)p->top_p * total);
    }
    if (p->min_p > 0.0F)
        drop_below(s, p->min_p);
}

/* ---- the draw ---- */

/* The first index at which the running sum exceeds the target; the last one with weight if none
 * does. */
static int walk(const float *w, int n, double target)
{
    double sum = 0.0;
    int last = 0;
    for (int i = 0; i < n; i++) {
        if (!(w[i] > 0.0F))
            continue;
        sum += (double)w[i];
        last = i;
        if (sum > target)
            break;
    }
    return last;
}

/* From the whole vocabulary: to the block by the block sums, then inside it. */
static int32_t draw_unfiltered(struct tr_sampler *s, const struct row *row, double u)
{
    double target = u * sum_row(s, row);
    int block = 0;
    for (int b = 0; b < s->n_blocks; b++) {
        if (!(s->block_sum[b] > 0.0))
            continue;
        block = b;
        if (target < s->block_sum[b])
            break;
        target -= s->block_sum[b];
    }
    int first = block * BLOCK;
    int n = TR_MIN(BLOCK, s->vocab - first);
    scale_block(s, row, first, n);
    for (int i = 0; i < n; i++)
        s->block[i] = weight_of(s->block[i]);
    return first + walk(s->block, n, target);
}

static int32_t draw(struct tr_sampler *s, const struct row *row, const struct tr_sampling *p,
                    double u)
{
    if (p->top_k == 0 && p->typical_p >= 1.0F && p->top_p >= 1.0F && p->min_p <= 0.0F)
        return draw_unfiltered(s, row, u);
    filter(s, row, p);
    return s->ids[walk(s->w, s->n, u * sum_weights(s))];
}

/* ---- logprobs ---- */

/* Log of the sum of e^x over the valid ids of a raw row. */
static double log_sum(struct tr_sampler *s, const struct row *raw)
{
    return (double)raw->max + tr_log(sum_row(s, raw));
}

static float logprob_of(float x, double log_total)
{
    float lp = (float)((double)x - log_total);
    return lp > MIN_LOGPROB ? lp : MIN_LOGPROB;
}

/* The k best of a raw row: s->top. Returns their number. */
static int list_best(struct tr_sampler *s, const struct row *raw, int k, double log_total)
{
    if (k <= 0)
        return 0;
    gather(s, raw->x, floor_of_best(s, k));
    keys_best_first(s);
    if (s->n > k)
        cut(s, NULL, k);
    for (int i = 0; i < s->n; i++) { /* insertion: few, and often nearly in order */
        int j = i;
        float x = s->y[i];
        for (; j > 0 && s->w[j - 1] < x; j--) {
            s->w[j] = s->w[j - 1];
            s->top[j] = s->top[j - 1];
        }
        s->w[j] = x;
        s->top[j] = (struct tr_top){.id = s->ids[i], .logprob = logprob_of(x, log_total)};
    }
    return s->n;
}

/* ---- public ---- */

/* s->row: what is left of the logits. Runs without an allowed id stay what they were. */
static void change(struct tr_sampler *s, const struct tr_choice *c, const float *logits,
                   const uint64_t *mask)
{
    for (int32_t first = 0; mask && first < s->vocab; first += RUN) {
        uint64_t word = mask[first / RUN];
        int32_t n = TR_MIN(RUN, s->vocab - first);
        if (word == UINT64_MAX)
            memcpy(s->row + first, logits + first, (size_t)n * sizeof *s->row);
        for (int32_t i = 0; word && ~word && i < n; i++)
            s->row[first + i] = word >> i & 1 ? logits[first + i] : -INFINITY;
    }
    if (!mask)
        memcpy(s->row, logits, (size_t)s->vocab * sizeof *s->row);
    tr_choice_apply(c, s->row);
}

int tr_sample(struct tr_sampler *s, const struct tr_choice *c, const float *logits,
              const uint64_t *mask, struct tr_sample *ret)
{
    const struct tr_sampling *p = &c->job->sampling;
    bool changed = mask || tr_choice_changes(c);
    bool want_logprobs = p->n_logprobs >= 0;
    struct tr_sample sample = {.top = s->top};
    struct row row = {.x = logits, .temperature = 1.0F};
    double log_total = 0.0;
    if (want_logprobs || !changed) {
        int r = scan(s, logits, NULL, &row.max);
        if (r < 0)
            return r;
    }
    if (want_logprobs) {
        log_total = log_sum(s, &row);
        sample.n_top = list_best(s, &row, p->n_logprobs, log_total);
    }
    if (changed) {
        change(s, c, logits, mask);
        row.x = s->row;
        int r = scan(s, s->row, mask, &row.max);
        if (r < 0)
            return r;
    }
    row.temperature = p->temperature;
    if (p->temperature < MIN_TEMPERATURE || p->top_k == 1 ||
        (p->top_p <= 0.0F && p->typical_p >= 1.0F))
        sample.id = argmax(s, &row);
    else
        sample.id = draw(s, &row, p, tr_uniform(p->seed, c->choice, c->position));
    if (want_logprobs)
        sample.logprob = logprob_of(logits[sample.id], log_total);
    *ret = sample;
    return 0;
}

int tr_sample_score(struct tr_sampler *s, const float *logits, int32_t id, int n_top,
                    struct tr_sample *ret)
{
    struct row row = {.x = logits, .temperature = 1.0F};
    int r = scan(s, logits, NULL, &row.max);
    if (r < 0)
        return r;
    double log_total = log_sum(s, &row);
    *ret = (struct tr_sample){
        .id = id,
        .logprob = logprob_of(logits[id], log_total),
        .n_top = list_best(s, &row, n_top, log_total),
        .top = s->top,
    };
    return 0;
}
