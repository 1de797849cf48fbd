/* The schedule's own state, shared by its files. */
#ifndef TR_ENGINE_SCHEDULE_INTERNAL_H
#define TR_ENGINE_SCHEDULE_INTERNAL_H

#include "engine/schedule/schedule.h"

/* Tenants are told apart by slot; two that fall into one slot share its turn. */
enum { TENANT_SLOTS = 1024 };

struct tenant {
    uint64_t served; /* rows computed for it, since it became active at the others' level */
    int active;      /* its sequences in the schedule */
};

struct tr_schedule {
    struct tr_schedule_options o;
    int seats;                      /* sequences of one step */
    struct tr_seq waiting, running; /* list heads; both ordered by age */
    uint64_t next_order;
    struct tenant tenants[TENANT_SLOTS];
    uint64_t level; /* service of the tenant that was last chosen: where a new one starts */
    struct tr_plan plan;
    struct tr_schedule_counts counts;
    uint64_t n_added;
    uint64_t aside; /* bytes of local pages that no sequence holds */
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

/* Lower priority value first, then the older one. */
static inline bool tr__before(const struct tr_seq *a, const struct tr_seq *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->order < b->order;
}

/* Moves sequences from the waiting to the running list as far as seats and memory go. */
void tr__admit(struct tr_schedule *s);
/* Takes pages of others for what the sequence would compute next. */
void tr__adopt(struct tr_schedule *s, struct tr_seq *seq, int64_t *ret_matched);
/* Provides the pages for the planned rows, at the cost of younger sequences if need be; false: the
 * sequence itself had to give way. */
bool tr__provide(struct tr_schedule *s, struct tr_seq *seq);

#endif
