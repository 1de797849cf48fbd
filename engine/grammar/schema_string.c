/* Strings: any spelling where nothing but the length matters, else each character as it is or by
 * the escape that JSON demands. */
#include <string.h>

#include "engine/grammar/schema_internal.h"

static uint32_t quote(struct tr__schema *s, uint32_t next)
{
    return tr__byte(s->b, '"', '"', 0, next);
}

/* A rule that counts characters. */
static uint32_t emit_length(struct tr__schema *s, uint32_t min, uint32_t max, uint32_t next)
{
    struct tr__nodes *b = s->b;
    uint32_t rule, outer, loop, body, end, start;

    if (min == 0 && max == TR__NO_LIMIT)
        return tr__call(b, tr__any_string(s), 0, next);
    if (b->r || min > max)
        return 0;
    rule = tr__rule_new(b);
    outer = tr__rule_enter(b, rule);
    loop = tr__hole(b);
    body = tr__emit_any_char(s, TR__NODE_CLEAN_COUNT, loop);
    end = quote(s, tr__match(b));
    tr__patch(b, loop, max ? tr__inc(b, max, body) : 0, min ? tr__min(b, min, end) : end);
    start = quote(s, loop);
    tr__rule_enter(b, outer);
    if (b->r)
        return 0;
    b->rules[rule] = (struct tr__rule){.start = start,
                                       .match = b->rules[rule].match,
                                       .min = min,
                                       .max = max,
                                       .body = TR__NONE,
                                       .vital = TR__NONE,
                                       .counted = true};
    return tr__call(b, rule, 0, next);
}

static uint32_t any_chars(struct tr__schema *s, uint32_t min, uint32_t max)
{
    struct tr__range all[] = {{0, 0xD7FF}, {0xE000, TR__LAST_CHAR}};

    return tr__expr_repeat(&s->x, tr__expr_set(&s->x, &(struct tr__set){all, 2, 2}), min, max);
}

/* Takes the patterns, for an error of which the place is known. */
static uint32_t parse(struct tr__schema *s, const struct tr__pattern *p)
{
    uint32_t e = 0;
    int before = s->b->r;

    if (before == 0)
        e = tr__regex_parse(&s->x, p->text, p->n, "");
    if (before == 0 && s->b->r && s->b->err && s->b->r != TR_ENOMEM) {
        struct tr_err inner = *s->b->err;
        int r = s->b->r;
        s->b->r = 0;
        tr__schema_fail(s, r, p->site, NULL, inner.msg);
    }
    return e;
}

void tr__pattern_language(struct tr__schema *s, const struct tr__pattern *p, struct tr__dfa *ret)
{
    tr__dfa_of(&s->x, parse(s, p), p->whole ? TR__MATCH_WHOLE : TR__MATCH_PART, s->spelling, ret);
}

/* Strings of min..max characters: as many copies of the automaton of one character. */
static void length_dfa(struct tr__schema *s, uint32_t min, uint32_t max, struct tr__dfa *ret)
{
    bool endless = max == TR__NO_LIMIT;
    uint32_t copies = endless ? min : max, inner, n;
    struct tr__dfa one = {0};

    tr__dfa_of(&s->x, any_chars(s, 1, 1), TR__MATCH_WHOLE, s->spelling, &one);
    inner =
        one.n -
        1; /* states of a copy: all but the dead one; accepting ones are the next copy's start */
    memcpy(ret->class_of, one.class_of, sizeof(one.class_of));
    if (s->b->r || !tr__dfa_begin(s->b, ret, one.n_classes)) {
        tr__dfa_done(&one);
        return;
    }
    n = (copies + 1) * inner;
    for (uint32_t i = 1; i < n && s->b->r == 0; i++)
        tr__dfa_add(s->b, ret);
    for (uint32_t k = 0; k <= copies && s->b->r == 0; k++) {
        ret->accept[1 + k * inner] = k >= min;
        for (uint32_t i = 1; i <= inner; i++) {
            for (uint32_t c = 0; c < one.n_classes; c++) {
                uint32_t to = one.to[i * one.n_classes + c], next = k < copies ? k + 1 : k;
                if (to == 0 || (k == copies && !endless))
                    continue;
                ret->to[(k * inner + i) * one.n_classes + c] =
                    one.accept[to] ? 1 + next * inner : k * inner + to;
            }
        }
    }
    tr__dfa_done(&one);
    tr__dfa_trim(s->b, ret);
}

static uint32_t words_of(struct tr__schema *s, const struct tr__shape *shape)
{
    uint32_t list = 0;
    const char *text;
    size_t n;

    for (uint32_t i = 0; i < shape->n_excluded; i++)
        if (tr_json_as_string(shape->excluded[i], &text, &n, NULL) == 0)
            tr__expr_append(&s->x, &list, tr__expr_text(&s->x, text, n));
    return list ? tr__expr_close(&s->x, TR__EXPR_ALT, list) : 0;
}

const struct tr__dfa *tr__any_language(struct tr__schema *s)
{
    struct tr__dfa *any = &s->any[s->spelling];

    if (any->n == 0)
        tr__dfa_of(&s->x, any_chars(s, 0, TR__NO_LIMIT), TR__MATCH_WHOLE, s->spelling, any);
    return any;
}

/* All but the length. */
static void language(struct tr__schema *s, const struct tr__shape *shape, struct tr__dfa *ret)
{
    uint32_t words = words_of(s, shape);
    struct tr__dfa other = {0};

    tr__dfa_copy(s->b, tr__any_language(s), ret);
    for (uint32_t i = 0; i < shape->n_patterns && s->b->r == 0; i++) {
        tr__pattern_language(s, &shape->patterns[i], &other);
        tr__dfa_meet(s->b, ret, &other, shape->patterns[i].without);
    }
    if (words) {
        tr__dfa_of(&s->x, words, TR__MATCH_WHOLE, s->spelling, &other);
        tr__dfa_meet(s->b, ret, &other, true);
    }
}

void tr__string_language(struct tr__schema *s, const struct tr__shape *shape, struct tr__dfa *ret)
{
    struct tr__dfa other = {0};

    language(s, shape, ret);
    if (shape->min_length > shape->max_length) {
        tr__dfa_done(ret);
    } else if (shape->min_length > 0 || shape->max_length != TR__NO_LIMIT) {
        length_dfa(s, shape->min_length, shape->max_length, &other);
        tr__dfa_meet(s->b, ret, &other, false);
    }
}

/* d, emptied, with the lengths of the shape: counted where that is exact, else as part of the
 * automaton. */
static uint32_t emit_language(struct tr__schema *s, const struct tr__shape *shape,
                              struct tr__dfa *d, uint32_t next)
{
    struct tr__dfa lengths = {0};
    uint32_t out = 0;

    if (shape->max_length == TR__NO_LIMIT ||
        !tr__dfa_emit_counted(s->b, d, tr__any_language(s), shape->min_length, shape->max_length,
                              next, &out)) {
        if (shape->min_length > 0 || shape->max_length != TR__NO_LIMIT) {
            length_dfa(s, shape->min_length, shape->max_length, &lengths);
            tr__dfa_meet(s->b, d, &lengths, false);
        }
        out = tr__dfa_emit(s->b, d, next);
    }
    tr__dfa_done(d);
    return out;
}

uint32_t tr__emit_string(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    const struct tr__pattern *p = &shape->patterns[0];
    bool sized = shape->min_length > 0 || shape->max_length != TR__NO_LIMIT;
    bool words = words_of(s, shape) != 0;
    struct tr__dfa d = {0};

    if (shape->min_length > shape->max_length)
        return 0;
    if (shape->n_patterns == 0 && !words)
        return emit_length(s, shape->min_length, shape->max_length, next);
    if (shape->n_patterns == 1 && !words && !sized && !p->without) {
        uint32_t e = parse(s, p);
        return quote(s, tr__emit_match(&s->x, e, p->whole ? TR__MATCH_WHOLE : TR__MATCH_PART,
                                       s->spelling, false, quote(s, next)));
    }
    language(s, shape, &d);
    return quote(s, emit_language(s, shape, &d, quote(s, next)));
}

/* ---- between tags ---- */

const char *const tr__tags[3] = {"</parameter>", "</function>", "<parameter="};

uint32_t tr__emit_bare_string(struct tr__schema *s, const struct tr__shape *shape, uint32_t next)
{
    enum tr__spelling spelling = s->spelling;
    struct tr__dfa d = {0}, tag = {0};
    uint32_t out;

    if (shape->min_length > shape->max_length)
        return 0;
    s->spelling = TR__SPELL_RAW;
    language(s, shape, &d);
    for (size_t i = 0; i < TR_ARRAY_LEN(tr__tags) && s->b->r == 0; i++) {
        uint32_t e = tr__expr_text(&s->x, tr__tags[i], strlen(tr__tags[i]));
        tr__dfa_of(&s->x, e, TR__MATCH_PART, TR__SPELL_RAW, &tag);
        tr__dfa_meet(s->b, &d, &tag, true);
    }
    out = emit_language(s, shape, &d, next);
    s->spelling = spelling;
    return out;
}
