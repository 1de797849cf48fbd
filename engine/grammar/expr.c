#include "engine/grammar/expr.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/unicode.h"

enum { UNROLL = 64 }; /* nodes that a repetition may be written out to, instead of a counter */

void tr__exprs_init(struct tr__exprs *x, struct tr__nodes *b)
{
    *x = (struct tr__exprs){.b = b, .n = 1};
}

void tr__exprs_done(struct tr__exprs *x)
{
    for (size_t i = 0; i < TR__CATEGORIES; i++)
        tr__set_done(&x->categories[i]);
    free(x->at);
    free(x->ranges);
    *x = (struct tr__exprs){0};
}

/* ---- building ---- */

static uint32_t add(struct tr__exprs *x, struct tr__expr e)
{
    if (!tr__spend(x->b, 1))
        return 0;
    if (x->n >= x->cap) {
        uint32_t cap = x->cap ? 2 * x->cap : 64;
        struct tr__expr *grown =
            x->n < x->b->max_nodes ? realloc(x->at, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return tr__nodes_fail(x->b, x->n < x->b->max_nodes ? TR_ENOMEM : TR_EUNSUPPORTED, NULL,
                                  "the grammar is too large");
        x->at = grown;
        x->cap = cap;
    }
    x->at[x->n] = e;
    return x->n++;
}

uint32_t tr__expr_simple(struct tr__exprs *x, enum tr__expr_kind kind)
{
    bool anchor = kind == TR__EXPR_BEGIN || kind == TR__EXPR_END;

    return add(x, (struct tr__expr){.kind = (uint8_t)kind,
                                    .anchors = anchor,
                                    .nullable = kind == TR__EXPR_EMPTY});
}

uint32_t tr__expr_set(struct tr__exprs *x, const struct tr__set *s)
{
    uint32_t at = x->n_ranges;

    if (s->n == 0)
        return tr__expr_simple(x, TR__EXPR_NEVER);
    if (at + s->n > x->ranges_cap) {
        uint32_t cap = TR_MAX(2 * x->ranges_cap, at + s->n + 64);
        struct tr__range *grown = realloc(x->ranges, cap * sizeof(*grown));
        if (!grown)
            return tr__nodes_fail(x->b, TR_ENOMEM, NULL, "out of memory");
        x->ranges = grown;
        x->ranges_cap = cap;
    }
    memcpy(x->ranges + at, s->at, s->n * sizeof(*s->at));
    x->n_ranges += s->n;
    return add(x, (struct tr__expr){.kind = TR__EXPR_SET, .a = at, .b = s->n});
}

uint32_t tr__expr_char(struct tr__exprs *x, uint32_t lo, uint32_t hi)
{
    struct tr__range r = {lo, hi};

    return tr__expr_set(x, &(struct tr__set){&r, 1, 1});
}

uint32_t tr__expr_call(struct tr__exprs *x, uint32_t rule)
{
    return add(x, (struct tr__expr){.kind = TR__EXPR_CALL, .a = rule, .nullable = true});
}

uint32_t tr__expr_repeat(struct tr__exprs *x, uint32_t of, uint32_t min, uint32_t max)
{
    if (x->b->r)
        return 0;
    return add(x, (struct tr__expr){.kind = TR__EXPR_REPEAT,
                                    .a = of,
                                    .min = min,
                                    .max = max,
                                    .anchors = x->at[of].anchors,
                                    .nullable = min == 0 || x->at[of].nullable});
}

void tr__expr_append(struct tr__exprs *x, uint32_t *list, uint32_t member)
{
    if (x->b->r)
        return;
    x->at[member].before = *list;
    *list = member;
}

uint32_t tr__expr_close(struct tr__exprs *x, enum tr__expr_kind kind, uint32_t list)
{
    struct tr__expr e = {.kind = (uint8_t)kind, .a = list, .nullable = kind == TR__EXPR_SEQ};

    if (x->b->r)
        return 0;
    if (list == 0)
        return tr__expr_simple(x, kind == TR__EXPR_SEQ ? TR__EXPR_EMPTY : TR__EXPR_NEVER);
    if (x->at[list].before == 0)
        return list;
    for (uint32_t i = list; i; i = x->at[i].before) {
        e.anchors |= x->at[i].anchors;
        if (kind == TR__EXPR_SEQ)
            e.nullable &= x->at[i].nullable;
        else
            e.nullable |= x->at[i].nullable;
    }
    return add(x, e);
}

uint32_t tr__expr_text(struct tr__exprs *x, const char *text, size_t n)
{
    uint32_t list = 0;

    for (size_t at = 0, k; at < n && x->b->r == 0; at += k) {
        uint32_t c = tr_utf8_at(text + at, &k);
        tr__expr_append(x, &list, tr__expr_char(x, c, c));
    }
    return tr__expr_close(x, TR__EXPR_SEQ, list);
}

/* ---- emitting ---- */

struct emit {
    struct tr__exprs *x;
    enum tr__spelling spelling;
    bool flat;
};

static uint32_t emit(const struct emit *m, uint32_t e, unsigned flags, uint32_t next);

static bool is_clean(const struct tr__exprs *x, uint32_t e)
{
    const struct tr__expr *s = &x->at[e];

    return s->kind == TR__EXPR_SET && tr__ranges_clean(x->ranges + s->a, s->b);
}

/* Nodes of e, roughly, as far as limit. */
static uint32_t size_of(const struct tr__exprs *x, uint32_t e, uint32_t limit)
{
    const struct tr__expr *s = &x->at[e];
    uint32_t n = 1;

    if (s->kind == TR__EXPR_SET)
        return s->b;
    if (s->kind == TR__EXPR_REPEAT) {
        n = size_of(x, s->a, limit);
        return s->max == TR__NO_LIMIT || n > limit ? n + 1
                                                   : TR_MIN(n * TR_MIN(s->max, limit), limit + 1);
    }
    if (s->kind == TR__EXPR_SEQ || s->kind == TR__EXPR_ALT)
        for (uint32_t i = s->a; i && n <= limit; i = x->at[i].before)
            n += size_of(x, i, limit);
    return n;
}

static uint32_t emit_star(const struct emit *m, uint32_t of, bool at_least_one, uint32_t next)
{
    struct tr__nodes *b = m->x->b;
    uint32_t hole = tr__hole(b);
    uint32_t body = emit(m, of, is_clean(m->x, of) ? TR__NODE_CLEAN_STAR : 0, hole);

    tr__patch(b, hole, body, next);
    return at_least_one ? body : hole;
}

static uint32_t emit_unrolled(const struct emit *m, uint32_t of, uint32_t min, uint32_t max,
                              uint32_t next)
{
    uint32_t end = next;

    if (max == TR__NO_LIMIT)
        next = emit_star(m, of, false, next);
    for (uint32_t i = min; max != TR__NO_LIMIT && i < max && m->x->b->r == 0; i++)
        next = tr__split(m->x->b, emit(m, of, 0, next), end);
    for (uint32_t i = 0; i < min && m->x->b->r == 0; i++)
        next = emit(m, of, 0, next);
    return next;
}

/* A rule of its own, whose counter counts. */
static uint32_t emit_counted(const struct emit *m, uint32_t of, uint32_t min, uint32_t max,
                             uint32_t next)
{
    struct tr__nodes *b = m->x->b;
    uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule), loop = tr__hole(b), body;

    if (b->r)
        return 0;
    if (m->x->at[of].nullable) {
        uint32_t inner = tr__rule_new(b);
        tr__rule_enter(b, inner);
        uint32_t start = emit(m, of, 0, tr__match(b));
        tr__rule_enter(b, rule);
        if (b->r)
            return 0;
        b->rules[inner].start = start;
        b->rules[rule].body = inner;
        body = tr__call(b, inner, TR__NODE_NONEMPTY, loop);
    } else {
        body = emit(m, of, is_clean(m->x, of) ? TR__NODE_CLEAN_COUNT : 0, loop);
    }
    tr__patch(b, loop, tr__inc(b, max, body), min ? tr__min(b, min, tr__match(b)) : tr__match(b));
    if (b->r)
        return 0;
    b->rules[rule].start = loop;
    b->rules[rule].min = min;
    b->rules[rule].max = max;
    b->rules[rule].counted = true;
    tr__rule_enter(b, outer);
    return tr__call(b, rule, 0, next);
}

static uint32_t emit_repeat(const struct emit *m, const struct tr__expr *e, uint32_t next)
{
    struct tr__nodes *b = m->x->b;
    uint32_t of = e->a, min = e->min, max = e->max;
    uint32_t copies = max == TR__NO_LIMIT ? min + 1 : max;

    if (max == 0)
        return next;
    if (max == TR__NO_LIMIT && min <= 1)
        return emit_star(m, of, min == 1, next);
    if (max == 1)
        return min == 1 ? emit(m, of, 0, next) : tr__split(b, emit(m, of, 0, next), next);
    if (m->flat || (copies <= UNROLL && size_of(m->x, of, UNROLL) * copies <= UNROLL &&
                    !(is_clean(m->x, of) && copies > 2)))
        return emit_unrolled(m, of, min, max, next);
    return emit_counted(m, of, min, max, next);
}

static uint32_t emit(const struct emit *m, uint32_t e, unsigned flags, uint32_t next)
{
    struct tr__exprs *x = m->x;
    uint32_t out = 0;

    if (!tr__spend(x->b, 1) || next == 0)
        return 0;
    struct tr__expr s = x->at[e];
    switch (s.kind) {
    case TR__EXPR_EMPTY:
        return next;
    case TR__EXPR_SET:
        return tr__emit_ranges(x->b, x->ranges + s.a, s.b, m->spelling, flags, next);
    case TR__EXPR_SEQ:
        for (uint32_t i = s.a; i && next; i = x->at[i].before)
            next = emit(m, i, 0, next);
        return next;
    case TR__EXPR_ALT:
        for (uint32_t i = s.a; i && x->b->r == 0; i = x->at[i].before)
            out = tr__split(x->b, emit(m, i, 0, next), out);
        return out;
    case TR__EXPR_REPEAT:
        return emit_repeat(m, &s, next);
    case TR__EXPR_CALL:
        return tr__call(x->b, s.a, 0, next);
    default:
        return 0;
    }
}

uint32_t tr__emit(struct tr__exprs *x, uint32_t e, enum tr__spelling spelling, bool flat,
                  uint32_t next)
{
    return emit(&(struct emit){x, spelling, flat}, e, 0, next);
}

/* ---- anchors ---- */

/* The text is thought of as begun by one mark and ended by another, which the anchors take. So
 * there are three places to be: before the first mark, between them, behind the second; the node
 * to go on with is known for each. */
enum { BEFORE, INSIDE, BEHIND, PLACES };

static void emit_anchored(const struct emit *m, uint32_t e, const uint32_t *next, uint32_t *out)
{
    struct tr__exprs *x = m->x;
    struct tr__nodes *b = x->b;

    memset(out, 0, PLACES * sizeof(*out));
    if (!tr__spend(b, 1))
        return;
    struct tr__expr s = x->at[e];
    if (!s.anchors) {
        out[INSIDE] = emit(m, e, 0, next[INSIDE]);
        out[BEFORE] = s.nullable ? next[BEFORE] : 0;
        out[BEHIND] = s.nullable ? next[BEHIND] : 0;
        return;
    }
    if (s.kind == TR__EXPR_BEGIN)
        out[BEFORE] = next[INSIDE];
    if (s.kind == TR__EXPR_END)
        out[INSIDE] = next[BEHIND];
    if (s.kind == TR__EXPR_SEQ) {
        memcpy(out, next, PLACES * sizeof(*out));
        for (uint32_t i = s.a; i; i = x->at[i].before) {
            uint32_t after[PLACES];
            memcpy(after, out, sizeof(after));
            emit_anchored(m, i, after, out);
        }
    }
    for (uint32_t i = s.kind == TR__EXPR_ALT ? s.a : 0; i; i = x->at[i].before) {
        uint32_t one[PLACES];
        emit_anchored(m, i, next, one);
        for (int k = 0; k < PLACES; k++)
            out[k] = tr__split(b, one[k], out[k]);
    }
    if (s.kind == TR__EXPR_REPEAT) {
        if (s.max > 1)
            tr__nodes_fail(b, TR_EUNSUPPORTED, NULL,
                           "an anchor inside a repetition is not supported");
        emit_anchored(m, s.a, next, out);
        for (int k = 0; k < PLACES && s.min == 0; k++)
            out[k] = tr__split(b, out[k], next[k]);
    }
}

static uint32_t any_then(const struct emit *m, uint32_t next)
{
    struct tr__range all[] = {{0, 0xD7FF}, {0xE000, TR__LAST_CHAR}};
    uint32_t any = tr__expr_set(m->x, &(struct tr__set){all, 2, 2});

    return emit(m, tr__expr_repeat(m->x, any, 0, TR__NO_LIMIT), 0, next);
}

uint32_t tr__emit_match(struct tr__exprs *x, uint32_t e, enum tr__match_kind kind,
                        enum tr__spelling spelling, bool flat, uint32_t next)
{
    struct emit m = {x, spelling, flat};
    uint32_t ends[PLACES] = {0, next, next}, out[PLACES];

    if (x->b->r)
        return 0;
    if (kind == TR__MATCH_PART)
        ends[INSIDE] = any_then(&m, next);
    emit_anchored(&m, e, ends, out);
    if (kind == TR__MATCH_PART)
        out[INSIDE] = any_then(&m, out[INSIDE]);
    return tr__split(x->b, out[BEFORE], out[INSIDE]);
}
