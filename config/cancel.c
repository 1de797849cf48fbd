#include "config/cancel.h"

#include <stddef.h>

static _Thread_local const atomic_bool *watched;

void tr_cancel_watch(const atomic_bool *flag)
{
    watched = flag;
}

bool tr_cancel_asked(void)
{
    return watched && atomic_load_explicit(watched, memory_order_relaxed);
}
