/* What this process may use of the machine. */
#ifndef TR_ENGINE_MACHINE_MACHINE_H
#define TR_ENGINE_MACHINE_MACHINE_H

#include <stdint.h>

#define TR_CGROUP_ROOT "/sys/fs/cgroup"

/* Threads to use by default: the affinity mask, cut to the cgroup CPU quota (v2 cpu.max over the
 * whole ancestor chain, v1 cfs_quota), at least 1. cgroup_root: TR_CGROUP_ROOT (tests pass
 * another). */
int tr_default_threads(const char *cgroup_root);
/* Bytes that this process may still use: the least of MemAvailable and what each cgroup limit above
 * it leaves. */
uint64_t tr_memory_left(const char *cgroup_root);

#endif
