#include "config/thread.h"

#include <signal.h>

int tr_thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(ret, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!r)
        pthread_setname_np(*ret, name);
    return r;
}
