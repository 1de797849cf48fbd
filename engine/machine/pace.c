#include "engine/machine/pace.h"

#include <sys/resource.h>

#include "config/clock.h"

enum {
    TRIAL_NS = 60000000,       /* of each way: several turns of the scheduler */
    WINDOW_NS = 50000000,      /* over which switches are counted */
    BUSY_PER_SECOND = 40,      /* switches that show others at work */
    QUIET_PER_SECOND = 5,      /* and none */
    FIRST_HOLD_NS = 1000000000 /* the first result of a trial holds for so long */
};

static const int64_t max_hold_ns = INT64_C(16) * FIRST_HOLD_NS;
static const double worth_a_change = 1.1; /* results differ by chance */

void tr_pace_init(struct tr_pace *p, struct tr_pool *pool, bool adapt)
{
    int n = tr_pool_threads(pool);
    *p = (struct tr_pace){.pool = pool, .n_ways = 1, .trial = -1, .hold_ns = 0};
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

/* The next way to try behind `way`: all but the one in use, whose speed is known. */
static int next_trial(const struct tr_pace *p, int way)
{
    way++;
    return way == p->best ? way + 1 : way;
}

static void begin_trial(struct tr_pace *p)
{
    for (int i = 0; i < p->n_ways; i++)
        if (i != p->best)
            p->work[i] = 0.0, p->time[i] = 0;
    p->trial = p->way = next_trial(p, -1);
}

/* The way that was best before stays unless another is clearly better. */
static void end_trial(struct tr_pace *p)
{
    int best = p->best;
    for (int i = 0; i < p->n_ways; i++)
        if (speed(p, i) > speed(p, best) * (best == p->best ? worth_a_change : 1.0))
            best = i;
    p->hold_ns = best == p->best ? TR_MIN(TR_MAX(2 * p->hold_ns, FIRST_HOLD_NS), max_hold_ns)
                                 : FIRST_HOLD_NS;
    p->best = p->way = best;
    p->trial = -1;
    p->held_ns = 0;
    p->work[best] = 0.0;
    p->time[best] = 0;
}

/* Whether it is time to try again: others are at work, or no longer. */
static bool is_due(struct tr_pace *p, int64_t switches)
{
    if (p->window_ns < WINDOW_NS)
        return false;
    double rate = (double)(switches - p->switches) * 1e9 / (double)p->window_ns;
    p->switches = switches;
    p->window_ns = 0;
    if (p->best == 0)
        return rate > BUSY_PER_SECOND && p->held_ns >= p->hold_ns;
    return p->held_ns >= (rate < QUIET_PER_SECOND ? p->hold_ns / 4 : p->hold_ns);
}

/* A way that is far behind is given up early. */
static bool is_tried(const struct tr_pace *p)
{
    int64_t ns = p->time[p->trial];
    return ns >= TRIAL_NS || (ns >= TRIAL_NS / 4 && speed(p, p->trial) < 0.5 * speed(p, p->best));
}

void tr_pace_take(struct tr_pace *p, double work, int64_t ns, int64_t switches)
{
    p->window_ns += ns;
    p->work[p->way] += work;
    p->time[p->way] += ns;
    if (p->trial < 0) {
        p->held_ns += ns;
        if (is_due(p, switches))
            begin_trial(p);
    } else if (is_tried(p)) {
        p->trial = p->way = next_trial(p, p->trial);
        if (p->trial >= p->n_ways)
            end_trial(p);
    }
}

void tr_pace_begin(struct tr_pace *p)
{
    if (p->n_ways == 1)
        return;
    tr_pool_set_mode(p->pool, p->ways[p->way].threads, p->ways[p->way].tickets);
    p->step_ns = tr_clock_ns();
}

void tr_pace_end(struct tr_pace *p, double work)
{
    if (p->n_ways == 1)
        return;
    struct rusage usage;
    int64_t switches = p->switches;
    int64_t ns = tr_clock_ns() - p->step_ns;
    if (p->window_ns + ns >= WINDOW_NS && getrusage(RUSAGE_SELF, &usage) == 0)
        switches = usage.ru_nivcsw;
    tr_pace_take(p, work, ns, switches);
}
