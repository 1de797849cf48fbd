#include "engine/machine/pace.h"

#include "config/clock.h"

enum {
    TRIAL_NS = 60000000,        /* of each way */
    TURN_NS = 20000000,         /* of it at a time: several of the scheduler's */
    WINDOW_NS = 50000000,       /* over which lost time is looked at */
    FIRST_HOLD_NS = 1000000000, /* the first result of a trial holds for so long */
    MAX_HOLD_FACTOR = 8
};

static const double much_lost = 0.1;      /* of the time: others are at work */
static const double worth_a_change = 1.1; /* results differ by chance */

void tr_pace_init(struct tr_pace *p, struct tr_pool *pool, bool adapt)
{
    int n = tr_pool_threads(pool);
    *p = (struct tr_pace){.pool = pool, .n_ways = 1};
    p->ways[0] = (struct tr_pace_way){n, false};
    if (n > 1)
        p->ways[p->n_ways++] = (struct tr_pace_way){n, true};
    if (adapt && n > 1)
        p->ways[p->n_ways++] = (struct tr_pace_way){1, false};
    if (adapt && n > 3)
        p->ways[p->n_ways++] = (struct tr_pace_way){n / 2, true};
}

static double speed(const struct tr_pace *p, int way)
{
    return p->time[way] > 0 ? p->work[way] / (double)p->time[way] : 0.0;
}

static void begin_trial(struct tr_pace *p)
{
    for (int i = 0; i < p->n_ways; i++)
        p->work[i] = 0.0, p->time[i] = 0;
    p->is_trial = true;
    p->turn_ns = 0;
}

static int fastest(const struct tr_pace *p)
{
    int best = 0;
    for (int i = 1; i < p->n_ways; i++)
        if (speed(p, i) > speed(p, best))
            best = i;
    return best;
}

/* The way that was best before stays unless another is clearly better. */
static void end_trial(struct tr_pace *p)
{
    int best = fastest(p);
    if (speed(p, best) <= speed(p, p->best) * worth_a_change)
        best = p->best;
    const int64_t max = INT64_C(1) * MAX_HOLD_FACTOR * FIRST_HOLD_NS;
    p->hold_ns =
        best == p->best ? TR_MIN(TR_MAX(2 * p->hold_ns, FIRST_HOLD_NS), max) : FIRST_HOLD_NS;
    p->best = p->way = best;
    p->is_trial = false;
    p->held_ns = p->window_ns = p->lost_ns = 0;
}

/* A way that is far behind is given up early. */
static bool is_tried(const struct tr_pace *p, int way)
{
    return p->time[way] >= TRIAL_NS ||
           (p->time[way] >= TURN_NS && speed(p, way) < 0.5 * speed(p, fastest(p)));
}

/* Ways take turns: what the steps are may change under way, and is to be the same for all. */
static void go_on_with_trial(struct tr_pace *p, int64_t ns)
{
    p->turn_ns += ns;
    if (p->turn_ns < TURN_NS && !is_tried(p, p->way))
        return;
    p->turn_ns = 0;
    for (int i = 0; i < p->n_ways; i++) {
        p->way = (p->way + 1) % p->n_ways;
        if (!is_tried(p, p->way))
            return;
    }
    end_trial(p);
}

/* Whether it is time to try: all threads by shares lose much, or another way has been held for long
 * enough, whose losses tell nothing. */
static bool is_due(struct tr_pace *p)
{
    if (p->held_ns < p->hold_ns || p->window_ns < WINDOW_NS)
        return false;
    bool due = p->best > 0 || (double)p->lost_ns > much_lost * (double)p->window_ns;
    p->window_ns = p->lost_ns = 0;
    return due;
}

void tr_pace_take(struct tr_pace *p, double work, int64_t ns, int64_t cpu_ns)
{
    if (p->is_trial) {
        p->work[p->way] += work;
        p->time[p->way] += ns;
        go_on_with_trial(p, ns);
    } else {
        p->held_ns += ns;
        p->window_ns += ns;
        p->lost_ns += ns - cpu_ns;
        if (is_due(p))
            begin_trial(p);
    }
}

static int64_t cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void tr_pace_begin(struct tr_pace *p)
{
    if (p->n_ways == 1)
        return;
    tr_pool_set_mode(p->pool, p->ways[p->way].threads, p->ways[p->way].tickets);
    p->step_cpu_ns = cpu_time();
    p->step_ns = tr_clock_ns();
}

void tr_pace_end(struct tr_pace *p, double work)
{
    if (p->n_ways > 1)
        tr_pace_take(p, work, tr_clock_ns() - p->step_ns, cpu_time() - p->step_cpu_ns);
}
