/*
 * Who computes what in the next step, and with which pages. Pure logic over sequences and pages: no
 * thread, no model, no clock.
 *
 * Admission is closed-form. A sequence of n tokens needs ceil(n / page) global pages and, at any
 * time, at most ceil((window - 1 + chunk) / page) + 1 local ones; it is admitted when that and what
 * was promised to the others fits the budget, so that no step can run out of pages. With
 * overcommit, more is promised than there is; a sequence that finds no page then takes those of the
 * youngest, which is recomputed later. The oldest never loses its pages, so there is always
 * progress; and a sequence that lost its pages comes back only when it fits without overcommit.
 *
 * A step has one row for each sequence that decodes, and fills up with prefill: the tenant that was
 * served least comes first, and within it the oldest and the shortest sequence take turns, so that
 * short requests pass long ones without starving them. Where more sequences run than have seats
 * (a request of many samples, streams whose readers came back), the step's places go round.
 *
 * The end of some answers is not known. They are promised what such answers need as a rule, and
 * more when that was too little: see memory.c.
 *
 * A paused sequence keeps its pages as long as nobody else needs them; then it is recomputed.
 */
#ifndef TR_ENGINE_SCHEDULE_SCHEDULE_H
#define TR_ENGINE_SCHEDULE_SCHEDULE_H

#include "engine/schedule/sequence.h"

struct tr_schedule;

struct tr_schedule_options {
    struct tr_pages *pages; /* borrowed */
    struct tr_prefix_shape shape;
    struct tr_hash fingerprint; /* root of the pages' keys */
    uint64_t budget_bytes;
    size_t local_page_cost, global_page_cost; /* bytes a page of the kind costs */
    int overcommit_percent;
    int max_rows;      /* rows of one step */
    int max_sequences; /* sequences of one step; at most max_rows count. A few times as many run */
    bool prefix_cache;
    bool verify;      /* some sequences compute what they could reuse, and compare */
    bool speculation; /* sequences may have drafts */
};

TR_NODISCARD int tr_schedule_open(struct tr_schedule **ret, const struct tr_schedule_options *o);
struct tr_schedule *tr_schedule_close(struct tr_schedule *s); /* NULL ok; returns NULL */

/* The prompt is borrowed: it must outlive the sequence. Fill in the other fixed fields yourself. */
void tr_seq_init(struct tr_seq *seq, const int32_t *prompt, int n_prompt, int max_ids);

/* Bytes of both kinds that n_samples of one prompt can need at most, by the closed form; `pages` is
 * not used. */
uint64_t tr_schedule_need(const struct tr_schedule_options *o, int n_prompt, int max_ids,
                          int n_samples);

/* The most ids, up to max_ids, that a sequence may have to fit the budget when it is alone. */
int tr_schedule_longest(const struct tr_schedule_options *o, int n_prompt, int max_ids);
/* Sequences that run at most at a time, those included that are paused or wait for their turn, and
 * what one of so many ids takes at most beside its pages. */
int tr_schedule_most_running(const struct tr_schedule_options *o);
uint64_t tr_schedule_buffer_bytes(const struct tr_schedule_options *o, int ids);

/* Tokens that an answer whose end is not known is likely to need. */
void tr_schedule_expect(struct tr_schedule *s, int tokens);

/* Puts a sequence in the waiting list. */
void tr_schedule_add(struct tr_schedule *s, struct tr_seq *seq, const uint64_t salt[2]);
/* Makes `fork`, initialised with the same prompt and size, a running copy of `seq`, whose prompt is
 * computed: pages are shared, the last one copied. Where it can't run at once it waits, and
 * computes what nobody keeps of the prompt. */
void tr_schedule_fork(struct tr_schedule *s, struct tr_seq *seq, struct tr_seq *fork);
/* Takes a sequence out, whatever it does; its pages go, or stay as prefixes; its ids
 * and tables are freed. */
void tr_schedule_remove(struct tr_schedule *s, struct tr_seq *seq);

/* Bytes of local pages that somebody outside holds (changes by delta). */
void tr_schedule_set_aside(struct tr_schedule *s, int64_t delta);
/* Whether somebody outside may hold so many bytes more, and all that was promised to running
 * sequences is still there. */
bool tr_schedule_has_room(const struct tr_schedule *s, uint64_t bytes);

struct tr_plan {
    struct tr_seq **seqs; /* [n]; each computes ids[n_computed, n_computed + planned) */
    int n, rows;
    bool blocked; /* the next in line waits for memory */
    bool failed;  /* a sequence has `failed` */
};
/* Admits, chooses rows and provides the pages. Valid until the next call into the schedule. */
const struct tr_plan *tr_schedule_plan(struct tr_schedule *s);
/* n rows of a planned sequence have been computed and are right: seals and drops pages. */
void tr_schedule_advance(struct tr_schedule *s, struct tr_seq *seq, int n);

struct tr_schedule_counts {
    int waiting, running, paused;
    int seats; /* sequences that could be admitted, if memory allows */
    uint64_t preemptions;
    uint64_t buffer_bytes; /* ids and tables of all sequences */
    uint64_t pages_looked; /* that were looked for among those of others */
    uint64_t prompt_left;  /* known tokens still to compute, of all that wait or run */
};
struct tr_schedule_counts tr_schedule_counts(const struct tr_schedule *s);

#endif
