/* Automata into the node table, as they are or with their characters counted. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/automaton.h"

/* ---- clean states ---- */

static uint32_t target(const struct tr__dfa *d, uint32_t state, unsigned byte)
{
    return d->to[state * d->n_classes + d->class_of[byte]];
}

/* From state, a byte lo..hi and `more` continuation bytes all lead to `to`. */
static bool all_lead(const struct tr__dfa *d, uint32_t state, unsigned lo, unsigned hi, int more,
                     uint32_t to)
{
    for (unsigned byte = lo; byte <= hi; byte++) {
        uint32_t next = target(d, state, byte);
        if (next == 0 || (byte > lo && d->class_of[byte] == d->class_of[byte - 1]))
            continue;
        if (more == 0 ? next != to : !all_lead(d, next, 0x80, 0xBF, more - 1, to))
            return false;
    }
    for (unsigned byte = lo; byte <= hi; byte++)
        if (target(d, state, byte) == 0)
            return false;
    return true;
}

/* Every clean character leads from the state to itself. */
static bool is_clean(const struct tr__dfa *d, uint32_t q)
{
    uint32_t e0 = target(d, q, 0xE0), ed = target(d, q, 0xED), f0 = target(d, q, 0xF0),
             f4 = target(d, q, 0xF4);

    return all_lead(d, q, 0x20, '"' - 1, 0, q) && all_lead(d, q, '"' + 1, '\\' - 1, 0, q) &&
           all_lead(d, q, '\\' + 1, 0x7E, 0, q) && all_lead(d, q, 0xC2, 0xDF, 1, q) &&
           all_lead(d, q, 0xE1, 0xEC, 2, q) && all_lead(d, q, 0xEE, 0xEF, 2, q) &&
           all_lead(d, q, 0xF1, 0xF3, 3, q) && e0 && all_lead(d, e0, 0xA0, 0xBF, 1, q) && ed &&
           all_lead(d, ed, 0x80, 0x9F, 1, q) && f0 && all_lead(d, f0, 0x90, 0xBF, 2, q) && f4 &&
           all_lead(d, f4, 0x80, 0x8F, 2, q);
}

/* ---- as they are ---- */

static uint32_t emit_state(struct tr__nodes *b, const struct tr__dfa *d, const uint32_t *holes,
                           const uint32_t *words, uint32_t state)
{
    unsigned clean = is_clean(d, state) ? TR__NODE_CLEAN_STAR : 0;
    uint32_t out = 0;

    for (unsigned lo = 0, hi; lo < 256; lo = hi + 1) {
        uint32_t to = target(d, state, lo);
        for (hi = lo; hi < 255 && target(d, state, hi + 1) == to; hi++)
            ;
        unsigned flags = to == state ? clean : 0;
        if (to && words)
            out = tr__split(
                b, tr__name_byte(b, lo, hi, flags | TR__NODE_NAME, words[to], holes[to]), out);
        else if (to)
            out = tr__split(b, tr__byte(b, lo, hi, flags, holes[to]), out);
    }
    return out;
}

static uint32_t emit(struct tr__nodes *b, const struct tr__dfa *d, const uint32_t *words,
                     uint32_t next)
{
    uint32_t *holes, start;

    if (tr__dfa_empty(d) || next == 0 || !tr__spend(b, 64 * (int64_t)d->n))
        return 0;
    holes = calloc(d->n, sizeof(*holes));
    if (!holes)
        return tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
    for (uint32_t i = 1; i < d->n; i++)
        holes[i] = tr__hole(b);
    for (uint32_t i = 1; i < d->n && b->r == 0; i++)
        tr__patch(b, holes[i], emit_state(b, d, holes, words, i), d->accept[i] ? next : 0);
    start = holes[1];
    free(holes);
    return b->r ? 0 : start;
}

uint32_t tr__dfa_emit(struct tr__nodes *b, const struct tr__dfa *d, uint32_t next)
{
    return emit(b, d, NULL, next);
}

/* ---- names ---- */

/* The words from q on if those of all that follow are known; MANY stands for more than count. */
enum { UNKNOWN = 0xFFFFFF, MANY = 2 * TR__MAX_NAMES };

static uint32_t words_from(const struct tr__dfa *d, const uint32_t *words, uint32_t q)
{
    uint32_t n = d->accept[q];

    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t to = target(d, q, byte);
        if (to && words[to] == UNKNOWN)
            return UNKNOWN;
        n = to ? TR_MIN(n + words[to], (uint32_t)MANY) : n;
    }
    return n;
}

/* What stays unknown goes round somewhere, and has words without end. */
static void count_words(struct tr__nodes *b, const struct tr__dfa *d, uint32_t *words)
{
    bool again = true;

    for (uint32_t q = 1; q < d->n; q++)
        words[q] = UNKNOWN;
    while (again && tr__spend(b, 16 * (int64_t)d->n)) {
        again = false;
        for (uint32_t q = d->n; q-- > 1;) {
            if (words[q] == UNKNOWN && (words[q] = words_from(d, words, q)) != UNKNOWN)
                again = true;
        }
    }
    for (uint32_t q = 1; q < d->n; q++)
        if (words[q] >= MANY)
            words[q] = 0;
}

uint32_t tr__dfa_emit_names(struct tr__nodes *b, const struct tr__dfa *d, uint32_t next,
                            uint32_t *ret_names)
{
    uint32_t *words = calloc(d->n + 1u, sizeof(*words)), start = 0;

    *ret_names = 0;
    if (words) {
        count_words(b, d, words);
        *ret_names = d->n > 1 ? words[1] : 0;
        start = emit(b, d, words, next);
    } else {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
    }
    free(words);
    return start;
}

/* ---- counted ---- */

enum { FAR = 0xFFFFFF };

struct counted {
    struct tr__nodes *b;
    const struct tr__dfa *d;
    uint8_t *border; /* a state between two characters */
    uint32_t *rest;  /* characters to be begun yet until the string may end, at least */
    uint32_t *holes, *todo;
    uint32_t max;
};

/* Goes through d together with the automaton of any string, which knows where characters begin. */
static void find_borders(struct counted *c, const struct tr__dfa *any)
{
    uint32_t n = 0, *place = c->holes; /* state of `any` + 1 */

    place[1] = 2;
    c->todo[n++] = 1;
    while (n > 0 && tr__spend(c->b, 256)) {
        uint32_t q = c->todo[--n], at = place[q] - 1;
        c->border[q] = any->accept[at];
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t to = target(c->d, q, byte), next = target(any, at, byte);
            if (to == 0 || place[to])
                continue;
            place[to] = next + 1;
            c->todo[n++] = to;
        }
    }
}

static void find_rests(struct counted *c)
{
    const struct tr__dfa *d = c->d;
    bool again = true;

    for (uint32_t q = 0; q < d->n; q++)
        c->rest[q] = d->accept[q] ? 0 : FAR;
    while (again && tr__spend(c->b, (int64_t)d->n * d->n_classes / 4)) {
        again = false;
        for (uint32_t q = d->n; q-- > 1;) {
            for (uint32_t k = 0; k < d->n_classes; k++) {
                uint32_t to = d->to[q * d->n_classes + k];
                uint32_t rest = to ? c->rest[to] + c->border[q] : FAR;
                if (rest >= c->rest[q])
                    continue;
                c->rest[q] = rest;
                again = true;
            }
        }
    }
}

/* A step that leaves room for the rest; where a character begins, it is counted. */
static uint32_t emit_step(const struct counted *c, uint32_t q, unsigned lo, unsigned hi,
                          uint32_t to)
{
    uint32_t need = c->rest[to] + c->border[q], node;
    bool clean = to == q && c->rest[q] == 0 && is_clean(c->d, q);

    if (need > c->max)
        return 0;
    node = tr__byte(c->b, lo, hi, clean ? TR__NODE_CLEAN_COUNT : 0, c->holes[to]);
    if (c->border[q])
        node = tr__inc(c->b, c->max, node);
    return c->rest[to] > 0 ? tr__max(c->b, c->max - need, node) : node;
}

static void emit_states(struct counted *c, uint32_t rule)
{
    struct tr__nodes *b = c->b;
    uint32_t margin = 0;

    for (uint32_t q = 1; q < c->d->n; q++)
        c->holes[q] = tr__hole(b);
    for (uint32_t q = 1; q < c->d->n && b->r == 0; q++) {
        uint32_t out = 0;
        for (unsigned lo = 0, hi; lo < 256; lo = hi + 1) {
            uint32_t to = target(c->d, q, lo);
            for (hi = lo; hi < 255 && target(c->d, q, hi + 1) == to; hi++)
                ;
            if (to)
                out = tr__split(b, emit_step(c, q, lo, hi, to), out);
        }
        if (c->rest[q] < FAR)
            margin = TR_MAX(margin, c->rest[q] + 1);
        tr__patch(b, c->holes[q], out, c->d->accept[q] ? tr__match(b) : 0);
    }
    if (b->r)
        return;
    b->rules[rule].start = c->holes[1];
    b->rules[rule].max = c->max;
    b->rules[rule].margin = margin;
    b->rules[rule].counted = true;
}

bool tr__dfa_emit_counted(struct tr__nodes *b, const struct tr__dfa *d, const struct tr__dfa *any,
                          uint32_t min, uint32_t max, uint32_t next, uint32_t *ret)
{
    struct counted c = {.b = b, .d = d, .max = max};
    uint32_t outer, rule;
    bool done = false;

    *ret = 0;
    if (tr__dfa_empty(d) || b->r)
        return true;
    c.border = calloc(d->n, 1);
    c.rest = calloc(d->n, sizeof(*c.rest));
    c.holes = calloc(d->n, sizeof(*c.holes));
    c.todo = calloc(d->n + 1u, sizeof(*c.todo));
    if (c.border && c.rest && c.holes && c.todo) {
        find_borders(&c, any);
        find_rests(&c);
        done = min <= c.rest[1];
        if (done && c.rest[1] <= max) {
            rule = tr__rule_new(b);
            outer = tr__rule_enter(b, rule);
            emit_states(&c, rule);
            tr__rule_enter(b, outer);
            *ret = tr__call(b, rule, 0, next);
        }
    } else {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
    }
    free(c.border);
    free(c.rest);
    free(c.holes);
    free(c.todo);
    return done;
}
