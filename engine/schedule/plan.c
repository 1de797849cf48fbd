/* The rows of the next step: decode first, then prefill dealt out fairly. */
#include "engine/schedule/schedule_internal.h"

#include <string.h>

/* Prefill rows are dealt out in pieces of this size. */
enum { DEAL = 16 };

static void give(struct tr_schedule *s, struct tr_seq *seq, int rows)
{
    s->plan.n += seq->planned == 0;
    s->plan.rows += rows;
    seq->planned += rows;
    tr__charge(s, seq, rows);
}

/* Whether a sequence computes, in this very step, the page that `seq` would begin: it will be
 * adopted instead of being computed twice. */
static bool coming(const struct tr_schedule *s, const struct tr_seq *seq)
{
    int64_t begin = seq->chain.pages * s->o.shape.page_tokens;
    int64_t end = begin + s->o.shape.page_tokens;
    if (!seq->share || seq->recompute || end >= seq->n_ids)
        return false;
    TR_LIST_EACH(const struct tr_seq, r, &s->running)
        if (r->planned && r->share && r->n_ids >= end && r->chain.pages == seq->chain.pages &&
            tr_hash_equal(r->chain.global, seq->chain.global) &&
            memcmp(r->ids + begin, seq->ids + begin, (size_t)(end - begin) * sizeof *seq->ids) == 0)
            return true;
    return false;
}

/* Whether a piece of prefill goes to `a` before `b`, which is older: by rank, then the tenant
 * served least; within a tenant by priority, then by turns the oldest and the one with least left
 * to do. */
static bool goes_first(struct tr_schedule *s, const struct tr_seq *a, const struct tr_seq *b,
                       bool shortest)
{
    if (tr__rank(a) != tr__rank(b))
        return tr__rank(a) < tr__rank(b);
    const struct tenant *x = tr__tenant(s, a);
    const struct tenant *y = tr__tenant(s, b);
    if (x->served != y->served)
        return x->served < y->served;
    if (x == y && a->priority != b->priority)
        return a->priority < b->priority;
    return shortest && tr__left(a) - a->planned < tr__left(b) - b->planned;
}

/* Whose turn the next piece of prefill is; NULL: nobody wants rows. */
static struct tr_seq *next_prefill(struct tr_schedule *s, bool shortest)
{
    struct tr_seq *best = NULL;
    TR_LIST_EACH(struct tr_seq, r, &s->running)
        if (r->seated && !r->deferred && !tr__decodes(r) && tr__left(r) > r->planned &&
            (!best || goes_first(s, r, best, shortest)))
            best = r;
    return best;
}

static void deal_prefill(struct tr_schedule *s)
{
    struct tr_seq *seq;
    bool shortest = false;
    while (s->plan.rows < s->o.max_rows && (seq = next_prefill(s, shortest))) {
        if (seq->planned == 0 && coming(s, seq)) {
            seq->deferred = true;
            seq->look_at = 0;
            continue;
        }
        int n = TR_MIN(tr__left(seq) - seq->planned, s->o.max_rows - s->plan.rows);
        give(s, seq, TR_MIN(n, DEAL));
        shortest = !shortest;
    }
}

/* Guesses ride along where rows are left over. */
static void deal_drafts(struct tr_schedule *s)
{
    TR_LIST_EACH(struct tr_seq, r, &s->running) {
        r->n_drafts = r->planned ? TR_MIN(r->n_drafts, s->o.max_rows - s->plan.rows) : 0;
        if (r->n_drafts)
            give(s, r, r->n_drafts);
    }
}

/* Every sequence that decodes and has a place gets its row; the others look what they can reuse. */
static void deal_decode(struct tr_schedule *s)
{
    s->plan.n = s->plan.rows = 0;
    TR_LIST_EACH(struct tr_seq, r, &s->running) {
        r->planned = 0;
        r->deferred = false;
        if (r->seated && !tr__decodes(r))
            tr__adopt(s, r);
        if (r->seated && tr__decodes(r) && tr__left(r) > 0)
            give(s, r, 1);
    }
}

/* Further ids that are known go along, to the end of the page that the first one is in: so they
 * need no page more than it. */
static void deal_ahead(struct tr_schedule *s)
{
    TR_LIST_EACH(struct tr_seq, r, &s->running) {
        int more = TR_MIN(tr__left(r) - 1, s->o.max_rows - s->plan.rows);
        int page_left = s->o.shape.page_tokens - r->n_computed % s->o.shape.page_tokens;
        more = TR_MIN(more, page_left - 1);
        if (r->planned && more > 0)
            give(s, r, more);
    }
}

const struct tr_plan *tr_schedule_plan(struct tr_schedule *s)
{
    tr__census(s);
    tr__admit(s);
    tr__deal_places(s);
    tr__promise_more(s);
    deal_decode(s);
    deal_ahead(s);
    deal_prefill(s);
    deal_drafts(s);

    /* Oldest first: whoever has to give way is younger and not in the plan yet. */
    s->plan.n = s->plan.rows = 0;
    TR_LIST_EACH(struct tr_seq, r, &s->running) {
        if (!r->planned)
            continue;
        if (!tr__provide(s, r))
            break;
        s->plan.seqs[s->plan.n++] = r;
        s->plan.rows += r->planned;
    }
    return &s->plan;
}
