/* How fast the compute threads can read memory: what decoding is bound by. */
#ifndef TR_ENGINE_MACHINE_SWEEP_H
#define TR_ENGINE_MACHINE_SWEEP_H

#include <stddef.h>

#include "engine/machine/pool.h"

struct tr_area {
    const void *data; /* 8-byte aligned */
    size_t bytes;
};

/* Bytes a second at which all threads of the pool read these areas together, the best of some
 * rounds; takes some tens of milliseconds. 0: there is nothing to read. Not inside a run. */
double tr_sweep(struct tr_pool *pool, const struct tr_area *areas, int n_areas);

#endif
