/*
 * How many threads a step is worth on a machine that others use, too.
 *
 * A thread that has lost its processor holds the others at the end of every phase, so that beside
 * busy processes two threads can be a fraction of one. Bits depend neither on the number of threads
 * nor on how work is handed out: both may change from step to step. While nothing takes processors
 * away, all threads compute, each its share of every phase, and who waits for another spins, so
 * that the thread that runs the step loses no time. Once it loses much, the ways to run a step are
 * tried on steps of about the same number of rows, in turns, for some tens of milliseconds each,
 * and the one that does the most work a second is kept for a while: longer, the longer it has
 * stayed the best. What else this process does counts as another process: a processor is lost all
 * the same.
 */
#ifndef TR_ENGINE_MACHINE_PACE_H
#define TR_ENGINE_MACHINE_PACE_H

#include "engine/machine/pool.h"

enum { TR_PACE_WAYS = 4 };

struct tr_pace_way {
    int threads;
    bool tickets;
};

struct tr_pace {
    struct tr_pool *pool;
    struct tr_pace_way ways[TR_PACE_WAYS]; /* the first: all threads, by shares */
    int n_ways;                            /* 1: nothing to choose */
    int way;                               /* of the step */
    int best;                              /* of the last trial */
    bool is_trial;
    int kind;                   /* of the steps under trial: log2 of their rows */
    int turn;                   /* the way under trial, */
    int64_t turn_ns;            /* for so long in this turn */
    int64_t stray_ns;           /* of other steps in this trial */
    double work[TR_PACE_WAYS];  /* done in the trial */
    int64_t time[TR_PACE_WAYS]; /* nanoseconds that it took */
    int64_t step_ns;            /* CLOCK_MONOTONIC at which the step began */
    bool is_seen;               /* its time on a processor is measured, */
    int64_t step_cpu_ns;        /* from this CLOCK_THREAD_CPUTIME_ID on */
    int64_t unseen_ns;          /* step time since the last one that was seen */
    int64_t seen_ns, lost_ns;   /* of late, and of it off the processor */
    int64_t held_ns, hold_ns;   /* step time since the last trial, and until the next */
};

/* For a pool that stays open; adapt false: all its threads, always, and only how work is handed out
 * changes. */
void tr_pace_init(struct tr_pace *p, struct tr_pool *pool, bool adapt);
/* Around a step of so many rows, in one thread; work: in units of any size that grow with what the
 * step computes and reads. */
void tr_pace_begin(struct tr_pace *p, int rows);
void tr_pace_end(struct tr_pace *p, int rows, double work);
/* The same without clocks. The way of the next step; then, ns the step took, cpu_ns of them on a
 * processor, -1: not measured. */
int tr_pace_way(struct tr_pace *p, int rows);
void tr_pace_take(struct tr_pace *p, int rows, double work, int64_t ns, int64_t cpu_ns);

#endif
