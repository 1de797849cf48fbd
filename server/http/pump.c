#include "server/http/pump.h"

#include <microhttpd.h>
#include <stdlib.h>

#include "server/server.h"

enum { PUMP_TURNS = 32 };

static void on_mhd_timer(uv_timer_t *timer)
{
    (void)timer; /* only wakes the loop: the pump runs before it sleeps */
}

static void free_poll(uv_handle_t *handle)
{
    free(handle->data);
}

void srv_mhd_stop(struct srv_mhd *m)
{
    uv_close((uv_handle_t *)&m->poll, free_poll);
    MHD_stop_daemon(m->daemon);
}

/* Milliseconds until it wants to run again, UINT64_MAX = when its epoll says so. */
static uint64_t run_mhd(struct srv_mhd *m)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    for (int i = 0; i < PUMP_TURNS && ms == 0; i++) {
        MHD_run(m->daemon);
        if (MHD_get_timeout(m->daemon, &ms) != MHD_YES)
            return UINT64_MAX;
    }
    return ms;
}

void srv_pump_run(struct srv *s)
{
    uint64_t ms = UINT64_MAX;
    for (struct srv_mhd **at = &s->mhd; *at;) {
        struct srv_mhd *m = *at;
        ms = TR_MIN(ms, run_mhd(m));
        if (m == s->mhd || m->n_conns > 0) {
            at = &m->next;
        } else {
            *at = m->next;
            srv_mhd_stop(m);
        }
    }
    if (ms < UINT64_MAX)
        uv_timer_start(&s->mhd_timer, on_mhd_timer, ms, 0);
    else
        uv_timer_stop(&s->mhd_timer);
}
