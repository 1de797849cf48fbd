/*
 * The compute threads: phases of work, one after another, each cut into parts.
 *
 * A run is a sequence of phases; a phase is one function called for parts 0..n-1, each by some
 * thread, and is over when all have returned. The caller is thread 0, so that a run starts without
 * a hand-over. There are two ways to hand out parts: `shares`, where part i is thread i's, and
 * `tickets`, smaller parts for whoever comes. With tickets nobody waits for a thread that has lost
 * its processor, but for the one part that it may hold. A waiting thread spins for a short while,
 * then sleeps (futex); an idle daemon costs nothing.
 */
#ifndef TR_ENGINE_MACHINE_POOL_H
#define TR_ENGINE_MACHINE_POOL_H

#include <pthread.h>
#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

struct tr_pool;

/* Part i of n, on thread tid. */
struct tr_pool_part {
    int tid;
    int i, n;
};

/* One part of a phase. */
typedef void (*tr_pool_fn)(void *arg, const struct tr_pool_part *part);
/* What comes next, NULL: nothing. One thread calls it, while no other is inside a part; what it
 * writes all parts of the next phase see. */
typedef tr_pool_fn (*tr_pool_next)(void *arg, int tid);

TR_NODISCARD int tr_pool_open(struct tr_pool **ret, int n_threads, struct tr_err *err);
struct tr_pool *tr_pool_close(struct tr_pool *pool); /* NULL ok; returns NULL */
int tr_pool_threads(const struct tr_pool *pool);
/* How many threads take part in the runs that follow, the caller included (cut to 1..all of them),
 * and whether their work is handed out by tickets. At first all do, by shares. Not inside a run. */
void tr_pool_set_mode(struct tr_pool *pool, int n, bool tickets);
/* The parts of each phase of the next run. */
int tr_pool_parts(const struct tr_pool *pool);
/* Returns when the phases that `next` names are over. Only one thread may call it at a time. */
void tr_pool_run_phases(struct tr_pool *pool, tr_pool_next next, void *arg);
/* A run of one phase. */
void tr_pool_run(struct tr_pool *pool, tr_pool_fn fn, void *arg);

#endif
