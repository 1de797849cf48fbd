#include "server/server.h"

#include "config/clock.h"

#define STALE_NS (60LL * 1000000000) /* an engine that has not turned for so long is stuck */

enum { LOADING_RETRY = 5 }; /* seconds, for Retry-After */

int64_t srv_now(const struct srv *s)
{
    return (int64_t)uv_now(&s->loop);
}

uint64_t srv_new_id(struct srv *s)
{
    /* splitmix64 over a secret start: each number once, no order to be seen */
    uint64_t z = s->hash_key[0] + ++s->next_id * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

int srv_retry_after(struct srv *s)
{
    if (s->state == SRV_STATE_READY)
        return tr_engine_retry_after(s->engine);
    return LOADING_RETRY;
}

bool srv_engine_alive(struct srv *s)
{
    struct tr_engine_stats st;
    tr_engine_stats(s->engine, &st);
    return tr_clock_ns() - st.heartbeat_ns < STALE_NS;
}
