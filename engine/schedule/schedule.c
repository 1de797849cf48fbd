#include "engine/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* With `verify`, every so manieth sequence computes what it could reuse. */
enum { VERIFY_EVERY = 16 };

/* The part of what was found useless to look at for which a sequence goes on without looking. */
enum { LOOK_PART = 8 };

/* Keeps the list ordered by rank and age; most come last. */
static void insert(struct tr_list *head, struct tr_seq *seq)
{
    struct tr_list *at = head->prev;
    while (at != head && tr__before(seq, TR_LIST_AT(struct tr_seq, at)))
        at = at->prev;
    tr_list_insert(at, &seq->link);
}

int tr_schedule_open(struct tr_schedule **ret, const struct tr_schedule_options *o)
{
    struct tr_schedule *s = calloc(1, sizeof *s);
    if (!s)
        return TR_ENOMEM;
    s->o = *o;
    s->seats = TR_MIN(o->max_sequences, o->max_rows);
    s->blocked_order = UINT64_MAX;
    tr_list_init(&s->waiting);
    tr_list_init(&s->running);
    s->plan.seqs = calloc((size_t)s->seats, sizeof(struct tr_seq *));
    s->places = calloc((size_t)tr_schedule_most_running(o), sizeof *s->places);
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

/* ---- sequences ---- */

void tr_seq_init(struct tr_seq *seq, const int32_t *prompt, int n_prompt, int max_ids)
{
    *seq = (struct tr_seq){
        .prompt = prompt, .n_prompt = n_prompt, .n_ids = n_prompt, .max_ids = max_ids};
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
    tr__wait(s, seq);
}

/* ---- moving between the lists ---- */

void tr__run(struct tr_schedule *s, struct tr_seq *seq)
{
    insert(&s->running, seq);
    seq->running = true;
    s->n_running++;
}

void tr__wait(struct tr_schedule *s, struct tr_seq *seq)
{
    insert(&s->waiting, seq);
}

void tr__leave_list(struct tr_schedule *s, struct tr_seq *seq)
{
    tr_list_remove(&seq->link);
    s->n_running -= seq->running;
    seq->running = false;
}

void tr__release_pages(struct tr_schedule *s, struct tr_seq *seq)
{
    if (seq->n_preempted == 0)
        seq->n_cached = 0;
    tr_local_truncate(&seq->local, 0);
    tr_global_truncate(&seq->global, 0);
    tr_prefix_init(&seq->chain, s->o.fingerprint, seq->salt);
    seq->n_computed = 0;
    seq->n_ahead = seq->n_drafts = 0;
    seq->look_at = 0;
}

void tr_schedule_remove(struct tr_schedule *s, struct tr_seq *seq)
{
    if (seq->share)
        tr_prefix_keep_end(&s->o.shape, &seq->local, seq->n_computed);
    tr__leave_list(s, seq);
    tr__release_pages(s, seq);
    tr__drop_buffers(s, seq);
}

static bool fork_pages(struct tr_schedule *s, struct tr_seq *seq, struct tr_seq *fork)
{
    return tr_local_fork(s->o.pages, &fork->local, &seq->local, seq->n_computed) &&
           tr_global_fork(s->o.pages, &fork->global, &seq->global, seq->n_computed);
}

/* Whether the fork runs; if not, `*ret_lacked` tells whether it was for lack of pages. */
static bool fork_runs(struct tr_schedule *s, struct tr_seq *seq, struct tr_seq *fork,
                      bool *ret_lacked)
{
    *ret_lacked = false;
    if (!tr__may_run(s, true) || !tr__make_buffers(s, fork))
        return false;
    fork->chain = seq->chain;
    bool forked = fork_pages(s, seq, fork);
    *ret_lacked = !forked && !fork->open_ended;
    return forked && (!fork->open_ended || tr__fits(s, fork));
}

void tr_schedule_fork(struct tr_schedule *s, struct tr_seq *seq, struct tr_seq *fork)
{
    bool lacked;
    fork->order = s->next_order++;
    seq->n_forks--;
    fork->forked = true;
    fork->share = seq->share;
    fork->salt[0] = seq->salt[0];
    fork->salt[1] = seq->salt[1];
    fork->branch = seq->branch;
    fork->room = tr__next_room(s, fork);
    if (fork_runs(s, seq, fork, &lacked)) {
        fork->n_computed = seq->n_computed;
        tr__run(s, fork);
        return;
    }
    tr__release_pages(s, fork);
    tr__drop_buffers(s, fork);
    if (lacked) { /* though it was promised some */
        fork->n_preempted++;
        fork->preempted = true;
        s->counts.preemptions++;
    }
    tr__wait(s, fork);
}

/* ---- prefixes ---- */

void tr__adopt(struct tr_schedule *s, struct tr_seq *seq)
{
    if (!seq->share || seq->recompute || seq->chain.pages < seq->look_at)
        return;
    struct tr_prefix_use use = use_of(seq);
    int before = seq->n_computed;
    int64_t first = seq->chain.pages;
    struct tr_prefix_match match;
    seq->n_computed = (int)tr_prefix_adopt(s->o.pages, &s->o.shape, &use, seq->n_computed,
                                           seq->n_ids - 1, &match);
    int64_t matched = match.tokens / s->o.shape.page_tokens;
    s->counts.pages_looked += (uint64_t)(matched - first + 1);
    if (!seq->running) {
        seq->branch = match.tokens;
        seq->evicted = match.evicted;
    }
    /* What was looked through in vain is looked at again when a part of it is computed: all looks
     * together are linear in the prompt. */
    if (seq->n_computed == before)
        seq->look_at = first + (matched - first) / LOOK_PART;
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
    seq->n_ahead = TR_MAX(TR_MIN(seq->n_ahead, tr__left(seq) - 1), 0);
    if (tr__decodes(seq))
        next -= next % shape->page_tokens;
    tr_local_drop(s->o.pages, &seq->local, next - shape->window + 1);
}

/* ---- counting ---- */

struct tr_schedule_counts tr_schedule_counts(const struct tr_schedule *s)
{
    struct tr_schedule_counts c = s->counts;
    TR_LIST_EACH(const struct tr_seq, w, &s->waiting) {
        if (w->forked && !w->preempted) /* its request runs, its prompt was computed */
            continue;
        c.waiting++;
        c.prompt_left += (uint64_t)tr__left(w);
    }
    TR_LIST_EACH(const struct tr_seq, r, &s->running) {
        c.running += !r->paused;
        c.paused += r->paused;
        c.prompt_left += (uint64_t)TR_MAX(tr__left(r) - 1, 0);
    }
    c.seats = TR_MAX(s->seats - s->taken, 0);
    c.buffer_bytes = s->buffer_bytes;
    return c;
}
