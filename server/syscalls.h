/* The system calls that serving makes, and no other: a list for the kernel's filter (seccomp(2),
 * by libseccomp). */
#ifndef TR_SERVER_SYSCALLS_H
#define TR_SERVER_SYSCALLS_H

#include "config/base.h"

/* From now on every thread of the process has only these; anything else fails with EPERM. 0, or a
 * negative errno if the kernel cannot do it. A build under a sanitizer, whose runtime makes calls
 * of its own, is left alone. */
TR_NODISCARD int srv_syscalls_limit(void);

#endif
