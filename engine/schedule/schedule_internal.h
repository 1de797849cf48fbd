/* The schedule's own state, shared by its files. */
#ifndef TR_ENGINE_SCHEDULE_SCHEDULE_INTERNAL_H
#define TR_ENGINE_SCHEDULE_SCHEDULE_INTERNAL_H

#include "engine/schedule/schedule.h"

/* Tenants are told apart by slot; two that fall into one slot share its turn. */
enum { TENANT_SLOTS = 1024 };
/* A row, or a place, of a tenant of weight 1 in the tenants' common time. */
enum { ROW_TIME = 1 << 16 };

struct tenant {
    uint64_t served; /* what was computed for it, in the tenants' common time (share.c) */
    uint64_t last;   /* step in which it had a place last */
    uint64_t seen;   /* step in which it last had something to compute beside decoding, */
    uint64_t census; /* or anything at all */
    int weight;      /* its share: of its sequence that was counted last */
    int running;     /* claims of its requests on seats */
    int dealt;       /* places dealt out in the step that is being planned */
};

/* One that wants a place in the step, and its turn among its like. */
struct place {
    struct tr_seq *seq;
    uint64_t turn; /* in ROW_TIME between tenants, else counted */
    uint64_t last; /* step of the turn before */
};

struct tr_schedule {
    struct tr_schedule_options o;
    int seats;                       /* sequences of one step */
    int n_running;                   /* sequences in the running list */
    struct tr_list waiting, running; /* list heads; both ordered by age */
    uint64_t next_order;
    uint64_t step; /* that is planned, from 1 */
    uint64_t time; /* what the tenant served least of those that wait for rows was served */
    struct tenant tenants[TENANT_SLOTS];
    int weights;          /* of all tenants that have a sequence which is not paused */
    int taken;            /* claims on seats of all that runs */
    struct place *places; /* of all that may run */
    struct tr_plan plan;
    struct tr_schedule_counts counts;
    uint64_t n_added;
    uint64_t aside;         /* bytes of local pages that no sequence holds */
    uint64_t buffer_bytes;  /* of all sequences */
    int expected;           /* tokens that an answer without a known end is likely to need */
    uint64_t blocked_order; /* the sequence that did not fit last (none: UINT64_MAX), */
    uint64_t blocked_bytes; /* and what was spoken for then */
};

static inline struct tenant *tr__tenant(struct tr_schedule *s, const struct tr_seq *seq)
{
    return &s->tenants[seq->tenant % TENANT_SLOTS];
}

/* Ids that are known but not computed. */
static inline int tr__left(const struct tr_seq *seq)
{
    return seq->n_ids - seq->n_computed;
}

/* Is it past its prompt and what it may have to compute again? */
static inline bool tr__decodes(const struct tr_seq *seq)
{
    return tr__left(seq) <= 1 + seq->n_ahead;
}

static inline struct tr_group *tr__group(struct tr_seq *seq)
{
    return seq->group ? seq->group : &seq->own;
}

/* What counts against other tenants. */
static inline int tr__rank(const struct tr_seq *seq)
{
    return seq->across ? seq->priority : 0;
}

/* The order of both lists: rank, then age. */
static inline bool tr__before(const struct tr_seq *a, const struct tr_seq *b)
{
    int x = tr__rank(a);
    int y = tr__rank(b);
    return x != y ? x < y : a->order < b->order;
}

/* ---- share.c ---- */

/* Counts who runs and who waits, and brings the tenants to their common time. */
void tr__census(struct tr_schedule *s);
/* The sequence runs: it takes its seats. */
void tr__take_seat(struct tr_schedule *s, struct tr_seq *seq);
/* Whose turn it is to be admitted, and for whom there is a seat; NULL: nobody. */
struct tr_seq *tr__next_waiting(struct tr_schedule *s);
/* Gives the step's places to sequences that run: to all of them, or by turns. */
void tr__deal_places(struct tr_schedule *s);
/* n rows of the step go to the sequence. */
void tr__charge(struct tr_schedule *s, struct tr_seq *seq, int n);

/* ---- memory.c ---- */

/* Moves sequences from the waiting to the running list as far as seats and memory go. */
void tr__admit(struct tr_schedule *s);
/* Whether the running list has a place for one more, `further` of a request that runs. */
bool tr__may_run(const struct tr_schedule *s, bool further);
/* Whether `seq`, whose adopted pages are held already, fits beside what runs. */
bool tr__fits(const struct tr_schedule *s, const struct tr_seq *seq);
/* Ids that its next promise is for. */
int tr__next_room(const struct tr_schedule *s, const struct tr_seq *seq);
/* Promises more to those who used up what they were promised. */
void tr__promise_more(struct tr_schedule *s);
/* Ids and tables for the sequence's room; false, and `failed`: no memory. */
bool tr__make_buffers(struct tr_schedule *s, struct tr_seq *seq);
/* Lets them go, except for ids of an answer, which no one else has. */
void tr__drop_buffers(struct tr_schedule *s, struct tr_seq *seq);
/* Provides the pages for the planned rows, at the cost of younger sequences if need be; false: the
 * sequence itself had to give way. */
bool tr__provide(struct tr_schedule *s, struct tr_seq *seq);

/* ---- schedule.c ---- */

/* Between the lists. */
void tr__run(struct tr_schedule *s, struct tr_seq *seq);
void tr__wait(struct tr_schedule *s, struct tr_seq *seq);
void tr__leave_list(struct tr_schedule *s, struct tr_seq *seq);
/* Lets all pages go: nothing is computed. */
void tr__release_pages(struct tr_schedule *s, struct tr_seq *seq);
/* Takes pages of others for what the sequence would compute next. */
void tr__adopt(struct tr_schedule *s, struct tr_seq *seq);

#endif
