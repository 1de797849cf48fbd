/*
 * Work that may be called off: whoever starts work on a thread names a flag, and long loops look
 * at it.
 *
 * A thread without a flag works to the end.
 */
#ifndef TR_CONFIG_CANCEL_H
#define TR_CONFIG_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

/* From now on this thread's work ends when *flag turns true; NULL: never. Borrowed. */
void tr_cancel_watch(const atomic_bool *flag);
/* Whether it should end: TR_ECANCELED is the error then. A few instructions. */
bool tr_cancel_asked(void);

#endif
