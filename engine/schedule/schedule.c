#include "engine/schedule/internal.h"

#include <stdlib.h>
#include <string.h>

/* With `verify`, every so manieth sequence computes what it could reuse. */
enum { VERIFY_EVERY = 16 };

/* So many times the seats of a step run at most, those that are paused or wait for their turn
 * included; further samples of a request that runs, up to the smaller number. */
enum { RUNNING_TIMES = 4, FURTHER_TIMES = 2 };

static void list_remove(struct tr_seq *seq)
{
    seq->prev->next = seq->next;
    seq->next->prev = seq->prev;
    seq->prev = seq->next = NULL;
}

/* Keeps the list ordered by rank and age; most come last. */
static void list_insert(struct tr_seq *head, struct tr_seq *seq)
{
    struct tr_seq *at = head->prev;
    while (at != head && tr__before(seq, at))
        at = at->prev;
    seq->prev = at;
    seq->next = at->next;
    at->next->prev = seq;
    at->next = seq;
}

int tr_schedule_open(struct tr_schedule **ret, const struct tr_schedule_options *o)
{
    struct tr_schedule *s = calloc(1, sizeof *s);
    if (!s)
        return TR_ENOMEM;
    s->o = *o;
    s->seats = TR_MIN(o->max_sequences, o->max_rows);
    s->waiting.prev = s->waiting.next = &s->waiting;
    s->running.prev = s->running.next = &s->running;
    s->plan.seqs = calloc((size_t)s->seats, sizeof(struct tr_seq *));
    s->places = calloc((size_t)RUNNING_TIMES * (size_t)s->seats, sizeof *s->places);
    if (!s->plan.seqs || !s->places)
        s = tr_schedule_close(s);
    if (s)
        *ret = s;
    return s ? 0 : TR_ENOMEM;
}

struct tr_schedule *tr_schedule_close(struct tr_schedule *s)
{
    if (s) {
        free(s->plan.seqs);
        free(s->places);
    }
    free(s);
    return NULL;
}

/* ---- the closed form ---- */

static int64_t pages_for(const struct tr_schedule_options *o, int64_t tokens)
{
    return TR_CEIL_DIV(tokens, o->shape.page_tokens);
}

/* Local pages of a sequence that computes at most `chunk` tokens a step. */
static int64_t prefill_bound(const struct tr_schedule_options *o, int64_t chunk, int max_ids)
{
    if (!o->shape.has_local)
        return 0;
    int64_t n = pages_for(o, o->shape.window - 1 + TR_MIN(chunk, o->max_rows)) + 1;
    return TR_MIN(n, pages_for(o, max_ids));
}

/* The same while it decodes. It then keeps the tail of its last full page, so that its end stays a
 * resume point: one page more than the next token's window at most. */
static int64_t decode_bound(const struct tr_schedule_options *o, int max_ids)
{
    if (!o->shape.has_local)
        return 0;
    int page = o->shape.page_tokens;
    int drafts = o->speculation ? TR_MAX_DRAFTS : 0;
    int64_t n = tr_prefix_tail(&o->shape) + (page - 1 + drafts) / page + 1;
    return TR_MIN(n, pages_for(o, max_ids));
}

static int64_t global_bound(const struct tr_schedule_options *o, int n_prompt, int max_ids,
                            int n_samples)
{
    if (!o->shape.has_global)
        return 0;
    int64_t all = pages_for(o, max_ids);
    int64_t shared = n_prompt / o->shape.page_tokens;
    return all + (n_samples - 1) * (all - shared);
}

static uint64_t cost(const struct tr_schedule_options *o, int64_t local, int64_t global)
{
    return (uint64_t)local * o->local_page_cost + (uint64_t)global * o->global_page_cost;
}

uint64_t tr_schedule_need(const struct tr_schedule_options *o, int n_prompt, int max_ids,
                          int n_samples)
{
    int64_t local = TR_MAX(prefill_bound(o, max_ids, max_ids), decode_bound(o, max_ids)) +
                    (n_samples - 1) * decode_bound(o, max_ids);
    return cost(o, local, global_bound(o, n_prompt, max_ids, n_samples));
}

/* What a sequence may still take: the global pages that it lacks, and all the local ones, since
 * those that it shares now it will replace by its own. */
static uint64_t promised(const struct tr_schedule *s, const struct tr_seq *seq)
{
    int64_t local = (1 + seq->n_forks) * decode_bound(&s->o, seq->max_ids);
    if (tr__left(seq) > 1)
        local += TR_MAX(prefill_bound(&s->o, tr__left(seq), seq->max_ids) -
                            decode_bound(&s->o, seq->max_ids),
                        0);
    int64_t global = global_bound(&s->o, seq->n_prompt, seq->max_ids, 1 + seq->n_forks);
    return cost(&s->o, local, TR_MAX(global - seq->global.n, 0));
}

/* What is held for good or promised to those that run. */
static uint64_t spoken_for(const struct tr_schedule *s)
{
    uint64_t sum = s->aside + (uint64_t)tr_global_counts(s->o.pages).used * s->o.global_page_cost;
    for (const struct tr_seq *r = s->running.next; r != &s->running; r = r->next)
        sum += promised(s, r);
    return sum;
}

void tr_schedule_set_aside(struct tr_schedule *s, int64_t delta)
{
    s->aside += (uint64_t)delta;
}

bool tr_schedule_keeps_promises(const struct tr_schedule *s)
{
    return spoken_for(s) <= s->o.budget_bytes;
}

/* Whether `seq`, whose adopted pages are held already, fits beside what runs. */
static bool fits(const struct tr_schedule *s, const struct tr_seq *seq)
{
    uint64_t sum = spoken_for(s) + promised(s, seq);
    /* Who lost its pages once comes back only for good. */
    uint64_t percent = 100 + (seq->preempted ? 0 : (uint64_t)s->o.overcommit_percent);
    return sum <= s->o.budget_bytes / 100 * percent + s->o.budget_bytes % 100 * percent / 100;
}

/* ---- sequences ---- */

int tr_seq_init(struct tr_seq *seq, const struct tr_schedule *s, const int32_t *prompt,
                int n_prompt, int max_ids)
{
    *seq = (struct tr_seq){.n_prompt = n_prompt, .n_ids = n_prompt, .max_ids = max_ids};
    int64_t local = prefill_bound(&s->o, max_ids, max_ids) + decode_bound(&s->o, max_ids) + 1;
    int64_t global = pages_for(&s->o, max_ids + TR_MAX_DRAFTS) + 1;
    seq->ids = malloc((size_t)(max_ids + TR_MAX_DRAFTS) * sizeof *seq->ids);
    if (!seq->ids || tr_local_table_init(&seq->local, (int)local) ||
        tr_global_table_init(&seq->global, (int)global)) {
        tr_seq_done(seq);
        return TR_ENOMEM;
    }
    if (prompt)
        memcpy(seq->ids, prompt, (size_t)n_prompt * sizeof *seq->ids);
    return 0;
}

void tr_seq_done(struct tr_seq *seq)
{
    free(seq->ids);
    tr_local_table_done(&seq->local);
    tr_global_table_done(&seq->global);
    *seq = (struct tr_seq){0};
}

static struct tr_prefix_use use_of(struct tr_seq *seq)
{
    return (struct tr_prefix_use){
        .chain = &seq->chain, .local = &seq->local, .global = &seq->global, .ids = seq->ids};
}

void tr_schedule_add(struct tr_schedule *s, struct tr_seq *seq, const uint64_t salt[2])
{
    seq->share = seq->share && s->o.prefix_cache;
    seq->salt[0] = salt[0];
    seq->salt[1] = salt[1];
    if (s->o.verify && ++s->n_added % VERIFY_EVERY == 0)
        seq->recompute = true;
    tr_prefix_init(&seq->chain, s->o.fingerprint, seq->salt);
    seq->order = s->next_order++;
    list_insert(&s->waiting, seq);
}

/* ---- moving between the lists ---- */

static void run(struct tr_schedule *s, struct tr_seq *seq)
{
    list_insert(&s->running, seq);
    seq->running = true;
    s->n_running++;
}

static void leave_list(struct tr_schedule *s, struct tr_seq *seq)
{
    list_remove(seq);
    s->n_running -= seq->running;
    seq->running = false;
}

static void release_pages(struct tr_schedule *s, struct tr_seq *seq)
{
    if (seq->n_preempted == 0)
        seq->n_cached = 0;
    tr_local_truncate(s->o.pages, &seq->local, 0);
    tr_global_truncate(s->o.pages, &seq->global, 0);
    tr_prefix_init(&seq->chain, s->o.fingerprint, seq->salt);
    seq->n_computed = 0;
    seq->n_drafts = 0;
}

void tr_schedule_remove(struct tr_schedule *s, struct tr_seq *seq)
{
    if (seq->share)
        tr_prefix_keep_end(&s->o.shape, &seq->local, seq->n_computed);
    leave_list(s, seq);
    release_pages(s, seq);
}

/* Whether the running list has a place for one more sequence. */
static bool may_run(const struct tr_schedule *s, bool further)
{
    return s->n_running < (further ? FURTHER_TIMES : RUNNING_TIMES) * s->seats;
}

static bool fork_pages(struct tr_schedule *s, struct tr_seq *seq, struct tr_seq *fork)
{
    return tr_local_fork(s->o.pages, &fork->local, &seq->local, seq->n_computed) &&
           tr_global_fork(s->o.pages, &fork->global, &seq->global, seq->n_computed);
}

void tr_schedule_fork(struct tr_schedule *s, struct tr_seq *seq, struct tr_seq *fork)
{
    fork->order = s->next_order++;
    seq->n_forks--;
    memcpy(fork->ids, seq->ids, (size_t)seq->n_prompt * sizeof *fork->ids);
    fork->share = seq->share;
    fork->chain = seq->chain;
    fork->salt[0] = seq->salt[0];
    fork->salt[1] = seq->salt[1];
    fork->branch = seq->branch;
    bool room = may_run(s, true);
    if (room && fork_pages(s, seq, fork)) {
        fork->n_computed = seq->n_computed;
        run(s, fork);
        return;
    }
    release_pages(s, fork);
    if (room) { /* there was no page for it, though it was promised some */
        fork->n_preempted++;
        fork->preempted = true;
        s->counts.preemptions++;
    }
    list_insert(&s->waiting, fork);
}

/* ---- prefixes ---- */

void tr__adopt(struct tr_schedule *s, struct tr_seq *seq, int64_t *ret_matched)
{
    if (!seq->share || seq->recompute)
        return;
    struct tr_prefix_use use = use_of(seq);
    int before = seq->n_computed;
    seq->n_computed = (int)tr_prefix_adopt(s->o.pages, &s->o.shape, &use, seq->n_computed,
                                           seq->n_ids - 1, ret_matched);
    if (seq->n_preempted == 0) /* what a recomputation finds may be its own: no reuse */
        seq->n_cached += seq->n_computed - before;
}

void tr_schedule_advance(struct tr_schedule *s, struct tr_seq *seq, int n)
{
    const struct tr_prefix_shape *shape = &s->o.shape;
    seq->n_computed += n;
    if (seq->share) {
        struct tr_prefix_use use = use_of(seq);
        /* A repeated prompt can resume before its last token, an extended one behind it. */
        const int64_t resume[] = {seq->n_prompt - 1, seq->n_prompt, seq->branch};
        tr_prefix_seal(s->o.pages, shape, &use, seq->n_computed, resume, TR_ARRAY_LEN(resume),
                       s->o.verify);
    }
    int64_t next = seq->n_computed;
    if (tr__left(seq) <= 1)
        next -= next % shape->page_tokens;
    tr_local_drop(s->o.pages, &seq->local, next - shape->window + 1);
}

/* ---- memory ---- */

static void preempt(struct tr_schedule *s, struct tr_seq *seq)
{
    leave_list(s, seq);
    seq->n_preempted++;
    release_pages(s, seq);
    seq->planned = 0;
    seq->seated = false;
    seq->preempted = true;
    s->counts.preemptions++;
    list_insert(&s->waiting, seq);
}

/* The youngest of those that are paused and run. */
static struct tr_seq *paused_one(struct tr_schedule *s, const struct tr_seq *but)
{
    for (struct tr_seq *r = s->running.prev; r != &s->running; r = r->prev)
        if (r->paused && r != but)
            return r;
    return NULL;
}

/* Who gives way to `seq`: paused sequences first, then the youngest; nobody older than itself. */
static struct tr_seq *victim(struct tr_schedule *s, struct tr_seq *seq)
{
    struct tr_seq *v = paused_one(s, seq);
    return v ? v : s->running.prev;
}

bool tr__provide(struct tr_schedule *s, struct tr_seq *seq)
{
    int64_t end = seq->n_computed + seq->planned;
    int64_t begin = TR_MAX(seq->n_computed - s->o.shape.window + 1, 0);
    while (!tr_local_extend(s->o.pages, &seq->local, begin, end) ||
           !tr_global_extend(s->o.pages, &seq->global, end)) {
        struct tr_seq *v = victim(s, seq);
        preempt(s, v);
        if (v == seq)
            return false;
    }
    return true;
}

/* Makes room for `seq`, whose adopted pages are held already; who is paused gives way. */
static bool make_room(struct tr_schedule *s, struct tr_seq *seq)
{
    bool further = tr__group(seq)->running > 0 && !seq->preempted;
    while (!may_run(s, further) || !fits(s, seq)) {
        struct tr_seq *v = paused_one(s, seq);
        if (!v)
            return false;
        preempt(s, v);
    }
    return true;
}

void tr__admit(struct tr_schedule *s)
{
    struct tr_seq *seq;
    s->plan.blocked = false;
    while ((seq = tr__next_waiting(s)) && tr__has_seat(s, seq)) {
        tr__adopt(s, seq, &seq->branch);
        if (!make_room(s, seq)) {
            release_pages(s, seq);
            s->plan.blocked = true;
            return;
        }
        leave_list(s, seq);
        run(s, seq);
        seq->preempted = false;
        tr__take_seat(s, seq);
    }
}

struct tr_schedule_counts tr_schedule_counts(const struct tr_schedule *s)
{
    struct tr_schedule_counts c = s->counts;
    for (const struct tr_seq *w = s->waiting.next; w != &s->waiting; w = w->next) {
        c.waiting++;
        c.prompt_left += (uint64_t)tr__left(w);
    }
    for (const struct tr_seq *r = s->running.next; r != &s->running; r = r->next) {
        c.running += !r->paused;
        c.paused += r->paused;
        c.prompt_left += (uint64_t)TR_MAX(tr__left(r) - 1, 0);
    }
    c.seats = TR_MAX(s->seats - s->taken, 0);
    return c;
}
