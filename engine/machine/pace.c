#include "engine/machine/pace.h"

#include "config/clock.h"

enum {
    TRIAL_NS = 60000000,        /* of each way */
    TURN_NS = 20000000,         /* of it at a time: several of the scheduler's */
    STRAY_NS = 500000000,       /* of other steps, after which a trial ends without a result */
    WINDOW_NS = 50000000,       /* of steps that were looked at for lost time: */
    LOOK_NS = 1000000,          /* one in so many nanoseconds, since the clock is a system call */
    FIRST_HOLD_NS = 1000000000, /* the first result of a trial holds for so long */
    MAX_HOLD_FACTOR = 8
};

static const double much_lost = 0.15;     /* of the time: others are at work */
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

static void begin_trial(struct tr_pace *p, int kind)
{
    for (int i = 0; i < p->n_ways; i++)
        p->work[i] = 0.0, p->time[i] = 0;
    p->kind = kind;
    p->turn = p->way;
    p->turn_ns = p->stray_ns = 0;
    p->is_trial = true;
}

static int fastest(const struct tr_pace *p)
{
    int best = 0;
    for (int i = 1; i < p->n_ways; i++)
        if (speed(p, i) > speed(p, best))
            best = i;
    return best;
}

static void end_trial(struct tr_pace *p, int best)
{
    const int64_t max = INT64_C(1) * MAX_HOLD_FACTOR * FIRST_HOLD_NS;
    p->hold_ns =
        best == p->best ? TR_MIN(TR_MAX(2 * p->hold_ns, FIRST_HOLD_NS), max) : FIRST_HOLD_NS;
    p->best = p->way = best;
    p->is_trial = false;
    p->held_ns = p->seen_ns = p->lost_ns = 0;
}

/* The first way, and then the one that was best before, unless another is clearly better. */
static int result(const struct tr_pace *p)
{
    int best = fastest(p);
    double enough = speed(p, best) / worth_a_change;
    if (speed(p, 0) >= enough)
        return 0;
    return speed(p, p->best) >= enough ? p->best : best;
}

/* A way that is far behind is given up early. */
static bool is_tried(const struct tr_pace *p, int way)
{
    return p->time[way] >= TRIAL_NS ||
           (p->time[way] >= TURN_NS && speed(p, way) < 0.5 * speed(p, fastest(p)));
}

/* Behind a step of the trial: ways take turns, since a machine changes from one moment to the
 * next. */
static void pass_turn(struct tr_pace *p)
{
    if (p->turn_ns < TURN_NS && !is_tried(p, p->turn))
        return;
    p->turn_ns = 0;
    for (int i = 0; i < p->n_ways; i++) {
        p->turn = (p->turn + 1) % p->n_ways;
        if (!is_tried(p, p->turn))
            return;
    }
    end_trial(p, result(p));
}

/* Whether it is time to try: all threads by shares lose much, or another way, whose losses tell
 * nothing, has been held for long enough. */
static bool is_due(struct tr_pace *p)
{
    if (p->held_ns < p->hold_ns)
        return false;
    if (p->best > 0)
        return true;
    if (p->seen_ns < WINDOW_NS)
        return false;
    bool due = (double)p->lost_ns > much_lost * (double)p->seen_ns;
    p->seen_ns = p->lost_ns = 0;
    return due;
}

/* Steps of one kind only compete with each other. */
static int kind_of(int rows)
{
    int kind = 0;
    while (rows >>= 1)
        kind++;
    return kind;
}

int tr_pace_way(struct tr_pace *p, int rows)
{
    p->way = p->is_trial && kind_of(rows) == p->kind ? p->turn : p->best;
    return p->way;
}

void tr_pace_take(struct tr_pace *p, int rows, double work, int64_t ns, int64_t cpu_ns)
{
    int kind = kind_of(rows);
    if (!p->is_trial) {
        p->held_ns += ns;
        p->unseen_ns += ns;
        if (cpu_ns >= 0) {
            p->seen_ns += ns;
            p->lost_ns += ns - cpu_ns;
            p->unseen_ns = 0;
        }
        if (is_due(p))
            begin_trial(p, kind);
    } else if (kind == p->kind) {
        p->work[p->turn] += work;
        p->time[p->turn] += ns;
        p->turn_ns += ns;
        pass_turn(p);
    } else {
        p->stray_ns += ns;
        if (p->stray_ns >= STRAY_NS)
            end_trial(p, p->best);
    }
}

static int64_t cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void tr_pace_begin(struct tr_pace *p, int rows)
{
    if (p->n_ways == 1)
        return;
    const struct tr_pace_way *way = &p->ways[tr_pace_way(p, rows)];
    tr_pool_set_mode(p->pool, way->threads, way->tickets);
    p->is_seen = !p->is_trial && p->best == 0 && p->unseen_ns >= LOOK_NS;
    p->step_cpu_ns = p->is_seen ? cpu_time() : 0;
    p->step_ns = tr_clock_ns();
}

void tr_pace_end(struct tr_pace *p, int rows, double work)
{
    if (p->n_ways == 1)
        return;
    int64_t ns = tr_clock_ns() - p->step_ns;
    tr_pace_take(p, rows, work, ns, p->is_seen ? cpu_time() - p->step_cpu_ns : -1);
}
