/*
 * How many threads a step is worth on a machine that others use, too.
 *
 * A thread that has lost its processor holds the others at the end of every phase, so that beside
 * busy processes two threads can be a fraction of one. Bits depend neither on the number of threads
 * nor on how work is handed out: both may change from step to step. While nothing takes processors
 * away, all threads compute, each its share of every phase.
 * Once the process is switched out against its will, the ways to run a step are tried in turn, each
 * for some tens of milliseconds, and the one that does the most work a second is kept for a while:
 * longer, the longer it has stayed the best.
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
    int way;                               /* of the next step */
    int best;                              /* of the last trial */
    int trial;                             /* the way under trial; -1: none */
    double work[TR_PACE_WAYS];             /* done in the trial; of the best: since the last one */
    int64_t time[TR_PACE_WAYS];            /* nanoseconds that it took */
    int64_t step_ns;                       /* CLOCK_MONOTONIC at which the step began */
    int64_t window_ns;                     /* step time since the switches were last read */
    int64_t held_ns, hold_ns;              /* step time since the last trial, and until the next */
    int64_t switches;                      /* involuntary ones of the process, when last read */
};

/* For a pool that stays open; adapt false: all its threads, always, and only how work is handed out
 * changes. */
void tr_pace_init(struct tr_pace *p, struct tr_pool *pool, bool adapt);
/* Around a step; work: in units of any size that grow with what the step computes and reads. */
void tr_pace_begin(struct tr_pace *p);
void tr_pace_end(struct tr_pace *p, double work);
/* The same without clock and system: ns the step took, switches the process's count so far. */
void tr_pace_take(struct tr_pace *p, double work, int64_t ns, int64_t switches);

#endif
