/* Starting threads. */
#ifndef TR_CONFIG_THREAD_H
#define TR_CONFIG_THREAD_H

#include <pthread.h>

#include "config/base.h"

/* pthread_create for any thread that computes or waits: it has a name (at most 15 characters) and
 * every signal blocked, as signals belong to the main thread. 0 or an errno. */
TR_NODISCARD int tr_thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg);

#endif
