/* From the text of a grammar to the grammar: one front end a kind. */
#include "engine/grammar/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/automaton.h"
#include "engine/grammar/machine_internal.h"
#include "engine/text/unicode.h"

/* ---- front ends of a few lines ---- */

static uint32_t compile_regex(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    struct tr__exprs x;
    uint32_t rule = tr__rule_new(b), start;

    tr__exprs_init(&x, b);
    tr__rule_enter(b, rule);
    start = tr__regex_parse(&x, source->text.bytes, source->text.n, NULL);
    start = tr__emit_match(&x, start, TR__MATCH_WHOLE, TR__SPELL_RAW, false, tr__match(b));
    tr__exprs_done(&x);
    if (b->r)
        return 0;
    b->rules[rule].start = start;
    return rule;
}

static int by_bytes(const void *a, const void *b)
{
    const struct tr_grammar_text *x = a, *y = b;
    int r = memcmp(x->bytes, y->bytes, TR_MIN(x->n, y->n));

    return r ? r : x->n < y->n ? -1 : x->n > y->n;
}

/* Words that share their first `depth` bytes. */
static uint32_t emit_sorted(struct tr__nodes *b, const struct tr_grammar_text *words, uint32_t n,
                            size_t depth, uint32_t next)
{
    uint32_t out = 0, i = 0;

    for (; i < n && words[i].n == depth; i++)
        out = next;
    while (i < n && tr__spend(b, 1)) {
        uint8_t byte = (uint8_t)words[i].bytes[depth];
        size_t common = words[i].n;
        uint32_t end = i + 1, to;
        for (; end < n && (uint8_t)words[end].bytes[depth] == byte; end++)
            ;
        /* Sorted: what the first and the last share, all share. */
        common = TR_MIN(common, words[end - 1].n);
        for (size_t k = depth; k < common; k++)
            if (words[i].bytes[k] != words[end - 1].bytes[k])
                common = k;
        to = emit_sorted(b, words + i, end - i, common, next);
        out = tr__split(b, out, tr__text(b, words[i].bytes + depth, common - depth, to));
        i = end;
    }
    return out;
}

uint32_t tr__emit_words(struct tr__nodes *b, struct tr_grammar_text *words, uint32_t n,
                        uint32_t next)
{
    qsort(words, n, sizeof(*words), by_bytes);
    return emit_sorted(b, words, n, 0, next);
}

static uint32_t compile_choice(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    uint32_t rule = tr__rule_new(b), n = (uint32_t)source->n_choices, start = 0;
    struct tr_grammar_text *words = malloc((n + 1) * sizeof(*words));

    if (source->n_choices < 1) {
        tr__nodes_fail(b, TR_EINVAL, NULL, "there is no choice");
    } else if (words) {
        memcpy(words, source->choices, n * sizeof(*words));
        tr__rule_enter(b, rule);
        start = tr__emit_words(b, words, n, tr__match(b));
    } else {
        tr__nodes_fail(b, TR_ENOMEM, NULL, "out of memory");
    }
    free(words);
    if (b->r)
        return 0;
    b->rules[rule].start = start;
    return rule;
}

/* Any text without the words. */
static uint32_t compile_text(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    struct tr__range all[] = {{0, 0xD7FF}, {0xE000, TR__LAST_CHAR}};
    struct tr__exprs x;
    struct tr__dfa d = {0}, word = {0};
    uint32_t rule = tr__rule_new(b), outer = tr__rule_enter(b, rule), any, start;

    tr__exprs_init(&x, b);
    any = tr__expr_repeat(&x, tr__expr_set(&x, &(struct tr__set){all, 2, 2}), 0, TR__NO_LIMIT);
    if (source->n_choices == 0) {
        start = tr__emit(&x, any, TR__SPELL_RAW, false, tr__match(b));
    } else {
        tr__dfa_of(&x, any, TR__MATCH_WHOLE, TR__SPELL_RAW, &d);
        for (int i = 0; i < source->n_choices && b->r == 0; i++) {
            const struct tr_grammar_text *t = &source->choices[i];
            tr__dfa_of(&x, tr__expr_text(&x, t->bytes, t->n), TR__MATCH_PART, TR__SPELL_RAW, &word);
            tr__dfa_meet(b, &d, &word, true);
        }
        start = tr__dfa_emit(b, &d, tr__match(b));
    }
    tr__dfa_done(&d);
    tr__exprs_done(&x);
    tr__rule_enter(b, outer);
    if (b->r)
        return 0;
    b->rules[rule].start = start;
    return rule;
}

/* ---- the whole ---- */

static uint32_t compile_source(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    if (source->text.n > 0 && !tr_utf8_valid(source->text.bytes, source->text.n))
        return tr__nodes_fail(b, TR_EINVAL, NULL, "the grammar is not UTF-8");
    switch (source->kind) {
    case TR_GRAMMAR_REGEX:
        return compile_regex(b, source);
    case TR_GRAMMAR_CHOICE:
        return compile_choice(b, source);
    case TR_GRAMMAR_JSON_OBJECT:
    case TR_GRAMMAR_JSON_SCHEMA:
    case TR_GRAMMAR_PARAMETERS:
        return tr__compile_schema(b, source);
    case TR_GRAMMAR_TEXT:
        return compile_text(b, source);
    case TR_GRAMMAR_GBNF:
    case TR_GRAMMAR_EBNF:
        return tr__compile_bnf(b, source);
    default:
        return tr__nodes_fail(b, TR_EUNSUPPORTED, NULL, "no such kind of grammar");
    }
}

uint32_t tr__compile_part(struct tr__nodes *b, const struct tr_grammar_source *source)
{
    uint32_t outer = b->rule, rule = compile_source(b, source);

    b->rule = outer;
    if (b->r && b->err && source->name) {
        struct tr_err inner = *b->err;
        tr_err_set(b->err, inner.code, NULL, "%s: %s", source->name, inner.msg);
        snprintf(b->err->param, sizeof(b->err->param), "%s%s", source->name, inner.param);
    }
    return b->r ? 0 : rule;
}

/* A rule that no other calls, around `rule`: the machine's root. */
static uint32_t wrap(struct tr__nodes *b, uint32_t rule)
{
    uint32_t root = tr__rule_new(b), start;

    tr__rule_enter(b, root);
    start = tr__call(b, rule, 0, tr__match(b));
    if (b->r == 0)
        b->rules[root].start = start;
    return root;
}

int tr_grammar_compile(struct tr_grammar **ret, const struct tr_grammar_source *source,
                       const struct tr_grammar_vocab *vocab, struct tr_err *err)
{
    struct tr__nodes b;
    uint32_t root;
    int r = tr__nodes_init(&b, err);

    if (r < 0)
        return r;
    root = compile_source(&b, source);
    if (b.r == 0)
        root = wrap(&b, root);
    r = b.r ? b.r : tr__analyse(&b, root);
    if (r == 0) {
        r = tr__grammar_new(ret, &b, root, vocab);
        if (r < 0)
            tr_err_set(err, r, NULL,
                       r == TR_EINVAL ? "nothing can satisfy the grammar"
                                      : "the grammar is too large to run");
    }
    tr__nodes_done(&b);
    return r;
}
