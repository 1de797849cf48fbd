/*
 * The compute threads: one function run by all of them at once, with barriers inside it.
 *
 * A step of the forward pass is one tr_pool_run; phases are separated by tr_pool_barrier. The
 * caller is thread 0, so that a step starts without a hand-over. A waiting thread spins for a short
 * while, then sleeps (futex); an idle daemon costs nothing.
 */
#ifndef TR_ENGINE_MACHINE_POOL_H
#define TR_ENGINE_MACHINE_POOL_H

#include <pthread.h>
#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

struct tr_pool;

/* fn(arg, tid, n_threads) runs once per thread that takes part, tid 0 on the caller. */
typedef void (*tr_pool_fn)(void *arg, int tid, int n_threads);

TR_NODISCARD int tr_pool_open(struct tr_pool **ret, int n_threads, struct tr_err *err);
struct tr_pool *tr_pool_close(struct tr_pool *pool); /* NULL ok; returns NULL */
int tr_pool_threads(const struct tr_pool *pool);
/* How many threads take part in the runs that follow, the caller included (cut to 1..all of them),
 * and whether those that wait spin for a while before they sleep. At first all do, and spin where
 * each has a processor. Not inside a run. */
void tr_pool_set_width(struct tr_pool *pool, int n, bool spin);
/* Returns when fn has returned on every thread that takes part. Only one thread may call it at a
 * time. */
void tr_pool_run(struct tr_pool *pool, tr_pool_fn fn, void *arg);
/* Only inside fn, by every thread: nobody passes before all have come. What was written before is
 * seen after. */
void tr_pool_barrier(struct tr_pool *pool);

#endif
