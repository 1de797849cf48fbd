/*
 * Who may have how much memory: the closed form, promises, buffers, and who gives way.
 *
 * Every sequence that runs was promised the pages for `room` ids. Where its end is known, that is
 * all that it can ever have. Where it is not (nobody set a length), it is what such answers have
 * been seen to need; a sequence that needs more is promised more, at the cost of younger ones of
 * its kind if need be, and whoever lost its pages is computed again. The oldest one loses nothing,
 * and alone it fits: so there is always progress.
 *
 * A sequence that waits holds nothing but its owner's prompt; ids and tables of pages are made when
 * it is admitted, for its room.
 */
#include "engine/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* So many times the seats of a step run at most, those that are paused or wait for their turn
 * included; further samples of a request that runs, up to the smaller number. */
enum { RUNNING_TIMES = 4, FURTHER_TIMES = 2 };

/* Who waits for memory that nobody has given back looks again every so many steps. */
enum { LOOK_AGAIN = 16 };

/* More room is for so many tokens at least. */
enum { MORE_ROOM = 64 };

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

int tr_schedule_longest(const struct tr_schedule_options *o, int n_prompt, int max_ids)
{
    int most = max_ids;
    int least = 0; /* that many fit */
    while (least < most) {
        int n = least + (most - least + 1) / 2;
        if (tr_schedule_need(o, TR_MIN(n_prompt, n), n, 1) <= o->budget_bytes)
            least = n;
        else
            most = n - 1;
    }
    return least;
}

/* What a sequence may still take of what its room promises it: the global pages that it lacks, and
 * all the local ones, since those that it shares now it will replace by its own. */
static uint64_t promised(const struct tr_schedule *s, const struct tr_seq *seq)
{
    int n = 1 + (seq->open_ended ? 0 : seq->n_forks);
    int64_t local = n * decode_bound(&s->o, seq->room);
    if (!tr__decodes(seq))
        local += TR_MAX(
            prefill_bound(&s->o, tr__left(seq), seq->room) - decode_bound(&s->o, seq->room), 0);
    int64_t global = global_bound(&s->o, seq->n_prompt, seq->room, n);
    return cost(&s->o, local, TR_MAX(global - seq->global.table.n, 0));
}

/* What is held for good or promised to those that run. */
static uint64_t spoken_for(const struct tr_schedule *s)
{
    uint64_t sum = s->aside + (uint64_t)tr_global_counts(s->o.pages).used * s->o.global_page_cost;
    TR_LIST_EACH(const struct tr_seq, r, &s->running)
        sum += promised(s, r);
    return sum;
}

void tr_schedule_set_aside(struct tr_schedule *s, int64_t delta)
{
    s->aside += (uint64_t)delta;
}

bool tr_schedule_has_room(const struct tr_schedule *s, uint64_t bytes)
{
    return spoken_for(s) + bytes <= s->o.budget_bytes;
}

static bool within(const struct tr_schedule *s, uint64_t bytes, int percent)
{
    uint64_t budget = s->o.budget_bytes;
    return bytes <= budget / 100 * (uint64_t)percent + budget % 100 * (uint64_t)percent / 100;
}

/* Who lost its pages once comes back only for good. */
bool tr__fits(const struct tr_schedule *s, const struct tr_seq *seq)
{
    int percent = 100 + (seq->preempted ? 0 : s->o.overcommit_percent);
    return within(s, spoken_for(s) + promised(s, seq), percent);
}

void tr_schedule_expect(struct tr_schedule *s, int tokens)
{
    s->expected = tokens;
}

int tr__next_room(const struct tr_schedule *s, const struct tr_seq *seq)
{
    if (!seq->open_ended)
        return seq->max_ids;
    int page = s->o.shape.page_tokens;
    int answer = seq->n_ids - seq->n_prompt;
    int64_t room = seq->n_ids + TR_MAX(MORE_ROOM, answer / 2);
    room = TR_MAX(room, (int64_t)seq->n_prompt + s->expected);
    return (int)TR_MIN(TR_ROUND_UP(room, page), (int64_t)seq->max_ids);
}

/* ---- buffers ---- */

/* Pages that a local table has to hold. */
static int64_t local_cap(const struct tr_schedule_options *o, int max_ids)
{
    return prefill_bound(o, max_ids, max_ids) + decode_bound(o, max_ids) + 1;
}

static int64_t global_cap(const struct tr_schedule_options *o, int ids)
{
    return pages_for(o, ids + TR_MAX_DRAFTS) + 1;
}

static uint64_t bytes_of(int64_t ids, int64_t pages)
{
    return (uint64_t)ids * sizeof(int32_t) + (uint64_t)pages * 2 * sizeof(void *);
}

uint64_t tr_schedule_buffer_bytes(const struct tr_schedule_options *o, int ids)
{
    return bytes_of(ids + TR_MAX_DRAFTS, local_cap(o, ids) + global_cap(o, ids));
}

int tr_schedule_most_running(const struct tr_schedule_options *o)
{
    return RUNNING_TIMES * TR_MIN(o->max_sequences, o->max_rows);
}

static void count_buffers(struct tr_schedule *s, struct tr_seq *seq)
{
    s->buffer_bytes -= seq->buffer_bytes;
    seq->buffer_bytes =
        bytes_of(seq->cap_ids, (int64_t)seq->local.table.cap + (int64_t)seq->global.table.cap);
    s->buffer_bytes += seq->buffer_bytes;
}

static bool make_ids(struct tr_seq *seq)
{
    int cap = seq->room + TR_MAX_DRAFTS;
    if (seq->cap_ids >= cap)
        return true;
    int32_t *ids = realloc(seq->ids, (size_t)cap * sizeof *ids);
    if (!ids)
        return false;
    if (!seq->ids)
        memcpy(ids, seq->prompt, (size_t)seq->n_prompt * sizeof *ids);
    seq->ids = ids;
    seq->cap_ids = cap;
    return true;
}

bool tr__make_buffers(struct tr_schedule *s, struct tr_seq *seq)
{
    bool made = make_ids(seq) &&
                tr_local_table_reserve(&seq->local, (int)local_cap(&s->o, seq->max_ids)) == 0 &&
                tr_global_table_reserve(&seq->global, (int)global_cap(&s->o, seq->room)) == 0;
    count_buffers(s, seq);
    seq->failed = !made;
    s->plan.failed |= !made;
    return made;
}

void tr__drop_buffers(struct tr_schedule *s, struct tr_seq *seq)
{
    tr_local_table_done(&seq->local);
    tr_global_table_done(&seq->global);
    if (seq->n_ids == seq->n_prompt || !seq->link.next) {
        free(seq->ids);
        seq->ids = NULL;
        seq->cap_ids = 0;
    }
    count_buffers(s, seq);
}

/* ---- giving way ---- */

static void preempt(struct tr_schedule *s, struct tr_seq *seq)
{
    tr__leave_list(s, seq);
    seq->n_preempted++;
    tr__release_pages(s, seq);
    seq->planned = 0;
    seq->seated = false;
    seq->preempted = true;
    s->counts.preemptions++;
    tr__wait(s, seq);
    tr__drop_buffers(s, seq);
}

/* The youngest of those that are paused and run. */
static struct tr_seq *paused_one(struct tr_schedule *s, const struct tr_seq *but)
{
    for (struct tr_list *at = s->running.prev; at != &s->running; at = at->prev) {
        struct tr_seq *r = TR_LIST_AT(struct tr_seq, at);
        if (r->paused && r != but)
            return r;
    }
    return NULL;
}

/* Who gives way to `seq`: paused sequences first, then the youngest; nobody older than itself. */
static struct tr_seq *victim(struct tr_schedule *s, struct tr_seq *seq)
{
    struct tr_seq *v = paused_one(s, seq);
    return v ? v : TR_LIST_AT(struct tr_seq, s->running.prev);
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

bool tr__may_run(const struct tr_schedule *s, bool further)
{
    return s->n_running < (further ? FURTHER_TIMES : RUNNING_TIMES) * s->seats;
}

/* Makes room for `seq`, whose adopted pages are held already; who is paused gives way. */
static bool make_room(struct tr_schedule *s, struct tr_seq *seq)
{
    bool further = seq->forked && !seq->preempted;
    while (!tr__may_run(s, further) || !tr__fits(s, seq)) {
        struct tr_seq *v = paused_one(s, seq);
        if (!v)
            return false;
        preempt(s, v);
    }
    return true;
}

/* Whether the sequence could not be admitted before, and nothing has become free since. */
static bool still_blocked(struct tr_schedule *s, const struct tr_seq *seq)
{
    return s->blocked_order == seq->order && spoken_for(s) >= s->blocked_bytes &&
           s->step % LOOK_AGAIN && !paused_one(s, seq);
}

static bool admit(struct tr_schedule *s, struct tr_seq *seq)
{
    if (still_blocked(s, seq))
        return false;
    uint64_t bytes = spoken_for(s);
    seq->room = tr__next_room(s, seq);
    if (!tr__make_buffers(s, seq))
        return false;
    tr__adopt(s, seq);
    if (make_room(s, seq)) {
        tr__leave_list(s, seq);
        tr__run(s, seq);
        seq->preempted = false;
        tr__take_seat(s, seq);
        return true;
    }
    tr__release_pages(s, seq);
    tr__drop_buffers(s, seq);
    s->blocked_order = seq->order;
    s->blocked_bytes = bytes;
    return false;
}

void tr__admit(struct tr_schedule *s)
{
    struct tr_seq *seq;
    s->plan.blocked = s->plan.failed = false;
    while (!s->plan.blocked && (seq = tr__next_waiting(s)))
        s->plan.blocked = !admit(s, seq);
}

/* Who gives way to a sequence that needs more than it was promised: who is paused, then the
 * youngest of those whose end is not known; at last the sequence itself. */
static struct tr_seq *yielding(struct tr_schedule *s, struct tr_seq *seq)
{
    struct tr_seq *v = paused_one(s, seq);
    for (struct tr_list *at = s->running.prev; !v; at = at->prev) {
        struct tr_seq *r = TR_LIST_AT(struct tr_seq, at);
        if (r->open_ended || r == seq)
            v = r;
    }
    return v;
}

static bool promise_more(struct tr_schedule *s, struct tr_seq *seq)
{
    int before = seq->room;
    seq->room = tr__next_room(s, seq);
    while (!within(s, spoken_for(s), 100 + s->o.overcommit_percent)) {
        struct tr_seq *v = yielding(s, seq);
        preempt(s, v);
        if (v == seq)
            return false;
    }
    if (!tr__make_buffers(s, seq)) {
        seq->room = before;
        seq->seated = false;
    }
    return true;
}

void tr__promise_more(struct tr_schedule *s)
{
    for (struct tr_list *at = s->running.next; at != &s->running;) {
        struct tr_seq *r = TR_LIST_AT(struct tr_seq, at);
        bool full = r->open_ended && r->seated && r->n_ids >= r->room && r->room < r->max_ids;
        bool kept = !full || promise_more(s, r);
        at = kept ? at->next : s->running.next; /* those behind it may be gone, too */
    }
}
