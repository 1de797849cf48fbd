/*
 * Fair shares: whose turn it is, between tenants, between requests, between samples of one request.
 *
 * Tenants share rows by a common time, as fair queues do: each is charged the rows that are
 * computed for it, divided by its weight, and the one charged least comes first. A tenant that
 * begins to wait starts at the time of the one served least, so nobody pays for what was computed
 * before; and no tenant gets further than one step's rows from that time, so that credit and debt
 * are soon forgotten.
 *
 * Seats are shared by claims. A request claims a seat for each of its samples, but never more than
 * a part of all, so that one with many samples runs beside others; a tenant with less than its
 * share of the seats, which goes by weight, is admitted though all are taken. Where more sequences
 * run than have seats, the places of each step go round: first between tenants, then between their
 * requests, then between a request's samples, to those who have waited longest.
 */
#include "engine/schedule/schedule_internal.h"

#include <stdlib.h>

/* A request claims at most this part of the seats. */
enum { CLAIM_PART = 8 };

static int claim(const struct tr_schedule *s, int n)
{
    return TR_MIN(n, TR_MAX(s->seats / CLAIM_PART, 1));
}

/* What n rows or places of the tenant are in the common time. */
static uint64_t cost(const struct tenant *t, int n)
{
    return (uint64_t)n * ROW_TIME / (uint64_t)TR_MAX(t->weight, 1);
}

/* ---- counting ---- */

/* Has the tenant rows to wait for, not only those of sequences that decode? */
static bool competes(const struct tr_seq *seq)
{
    return !seq->paused && (!seq->running || !tr__decodes(seq));
}

/* The tenant waits in this step: it starts at the common time, unless it waited before. */
static void see(struct tr_schedule *s, struct tr_seq *seq)
{
    struct tenant *t = tr__tenant(s, seq);
    if (!competes(seq) || t->seen == s->step)
        return;
    if (t->seen + 1 < s->step)
        t->served = TR_MAX(t->served, s->time);
    t->seen = s->step;
}

static void take(struct tr_schedule *s, struct tr_seq *seq)
{
    struct tr_group *g = tr__group(seq);
    int before = claim(s, g->claiming);
    g->claiming += 1 + seq->n_forks;
    int more = claim(s, g->claiming) - before;
    tr__tenant(s, seq)->running += more;
    s->taken += more;
}

static void count(struct tr_schedule *s, struct tr_seq *seq)
{
    struct tenant *t = tr__tenant(s, seq);
    struct tr_group *g = tr__group(seq);
    if (seq->paused)
        return;
    if (t->census != s->step) {
        t->census = s->step;
        t->running = t->dealt = 0;
        t->weight = TR_MAX(seq->weight, 1);
        s->weights += t->weight;
    }
    if (seq->running || seq->forked)
        take(s, seq);
    g->running += seq->running;
    g->dealt = 0;
    see(s, seq);
}

static void clear(struct tr_list *head)
{
    TR_LIST_EACH(struct tr_seq, q, head)
        tr__group(q)->running = tr__group(q)->claiming = 0;
}

/* Nobody is further from the common time than a step's rows. */
static void level(struct tr_schedule *s, const struct tr_list *head)
{
    TR_LIST_EACH(struct tr_seq, q, head) {
        struct tenant *t = tr__tenant(s, q);
        t->served = TR_MIN(t->served, s->time + cost(t, s->o.max_rows));
    }
}

static uint64_t least_served(struct tr_schedule *s, struct tr_list *head, uint64_t least)
{
    TR_LIST_EACH(struct tr_seq, q, head)
        if (competes(q))
            least = TR_MIN(least, tr__tenant(s, q)->served);
    return least;
}

void tr__census(struct tr_schedule *s)
{
    s->step++;
    s->taken = s->weights = 0;
    clear(&s->running);
    clear(&s->waiting);
    TR_LIST_EACH(struct tr_seq, q, &s->running)
        count(s, q);
    TR_LIST_EACH(struct tr_seq, q, &s->waiting)
        count(s, q);
    uint64_t least = least_served(s, &s->running, UINT64_MAX);
    least = least_served(s, &s->waiting, least);
    if (least != UINT64_MAX)
        s->time = TR_MAX(s->time, least);
    level(s, &s->running);
    level(s, &s->waiting);
}

void tr__charge(struct tr_schedule *s, struct tr_seq *seq, int n)
{
    struct tenant *t = tr__tenant(s, seq);
    t->served += cost(t, n);
    t->last = tr__group(seq)->last = seq->last = s->step;
}

/* ---- seats ---- */

void tr__take_seat(struct tr_schedule *s, struct tr_seq *seq)
{
    tr__group(seq)->running++;
    if (!seq->forked) /* else it had its claim before */
        take(s, seq);
}

/* What the sequence adds to the claims. */
static int claims_more(struct tr_schedule *s, struct tr_seq *seq)
{
    int n = tr__group(seq)->claiming;
    return seq->forked ? 0 : claim(s, n + 1 + seq->n_forks) - claim(s, n);
}

/* A free seat, or one of its tenant's share. */
static bool has_seat(struct tr_schedule *s, struct tr_seq *seq)
{
    const struct tenant *t = tr__tenant(s, seq);
    int more = claims_more(s, seq);
    int share = (int)((int64_t)s->seats * t->weight / TR_MAX(s->weights, 1));
    return s->taken + more <= s->seats || t->running == 0 || t->running + more <= share;
}

/* Of one tenant: priority, then who lost its pages, then the request with the fewest, then age. */
static bool goes_before(struct tr_seq *a, struct tr_seq *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->preempted != b->preempted)
        return a->preempted;
    return tr__group(a)->running < tr__group(b)->running;
}

/* Rank, then the tenant with the fewest seats for its weight, then the one served least, then its
 * own order. */
static bool is_next(struct tr_schedule *s, struct tr_seq *a, struct tr_seq *b)
{
    if (tr__rank(a) != tr__rank(b))
        return tr__rank(a) < tr__rank(b);
    const struct tenant *x = tr__tenant(s, a);
    const struct tenant *y = tr__tenant(s, b);
    if (x == y)
        return goes_before(a, b);
    int64_t seats = (int64_t)x->running * y->weight - (int64_t)y->running * x->weight;
    return seats ? seats < 0 : x->served < y->served;
}

/* The next of all that wait, or of those that claim no more seats than are claimed. */
static struct tr_seq *next_of(struct tr_schedule *s, bool free_only)
{
    struct tr_seq *best = NULL;
    TR_LIST_EACH(struct tr_seq, w, &s->waiting)
        if (!w->paused && (!free_only || claims_more(s, w) == 0) && (!best || is_next(s, w, best)))
            best = w;
    return best;
}

/* Nobody who needs a seat passes one that waits for more of them. */
struct tr_seq *tr__next_waiting(struct tr_schedule *s)
{
    struct tr_seq *seq = next_of(s, false);
    return !seq || has_seat(s, seq) ? seq : next_of(s, true);
}

/* ---- places in the step ---- */

static int by_number(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Earlier turns first; then whoever had one longest ago, and within that the sequence that had rows
 * longest ago; of equals the oldest. */
static int by_turn(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int r = by_number(x->turn, y->turn);
    if (r == 0)
        r = by_number(x->last, y->last);
    if (r == 0)
        r = by_number(x->seq->last, y->seq->last);
    return r ? r : by_number(x->seq->order, y->seq->order);
}

/* First a place for each tenant, then a second one (earlier for more weight), and so on; each
 * tenant's go to its requests in
 * the same way, and each request's to its samples. */
static void deal_in_turn(struct tr_schedule *s, int n)
{
    struct place *places = s->places;
    qsort(places, (size_t)n, sizeof *places, by_turn);
    for (int i = 0; i < n; i++) {
        struct tr_group *g = tr__group(places[i].seq);
        places[i].turn = (uint64_t)g->dealt++;
        places[i].last = g->last;
    }
    qsort(places, (size_t)n, sizeof *places, by_turn);
    for (int i = 0; i < n; i++) {
        struct tenant *t = tr__tenant(s, places[i].seq);
        places[i].turn = cost(t, t->dealt++);
        places[i].last = t->last;
    }
    qsort(places, (size_t)n, sizeof *places, by_turn);
}

void tr__deal_places(struct tr_schedule *s)
{
    int n = 0;
    TR_LIST_EACH(struct tr_seq, r, &s->running) {
        r->seated = false;
        if (!r->paused)
            s->places[n++] = (struct place){.seq = r};
    }
    if (n > s->seats)
        deal_in_turn(s, n);
    for (int i = 0; i < TR_MIN(n, s->seats); i++)
        s->places[i].seq->seated = true;
}
