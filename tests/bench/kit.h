/* What the benchmarks of this folder share. */
#ifndef TR_TESTS_BENCH_KIT_H
#define TR_TESTS_BENCH_KIT_H

#include <stddef.h>

/* Bytes that are all 1, on a cache line of their own; ends the program where there is no memory. */
void *must_alloc(size_t bytes);

#endif
