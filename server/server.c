#include "server/server.h"

#include "config/clock.h"

#define STALE_NS (60LL * 1000000000) /* an engine that has not turned for so long is stuck */

enum { LOADING_RETRY = 5 }; /* seconds, for Retry-After */

int srv_retry_after(struct srv *s)
{
    if (s->state == SRV_STATE_READY)
        return tr_engine_retry_after(s->model->engine);
    return LOADING_RETRY;
}

bool srv_engine_alive(struct srv *s)
{
    struct tr_engine_stats st;
    if (!s->model) /* between two */
        return true;
    tr_engine_stats(s->model->engine, &st);
    return tr_clock_ns() - st.heartbeat_ns < STALE_NS;
}
