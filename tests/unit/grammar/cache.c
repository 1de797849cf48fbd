/* Equal sources share a grammar; different ones never do; the number of those kept is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/grammar/cache.h"

static struct tr_grammar *get(struct tr_grammar_cache *c, const struct tr_grammar_source *source)
{
    struct tr_grammar *g = NULL;
    struct tr_err err = {0};
    assert_int_equal(tr_grammar_cache_get(c, &g, source, NULL, &err), 0);
    return g;
}

static struct tr_grammar_source of(enum tr_grammar_kind kind, const char *text)
{
    return (struct tr_grammar_source){.kind = kind, .text = {text, strlen(text)}};
}

static void equal_and_different(void **state)
{
    (void)state;
    static const struct tr_grammar_text two[] = {{"a", 1}, {"b", 1}}, one[] = {{"ab", 2}};
    const struct tr_grammar_source sources[] = {
        of(TR_GRAMMAR_REGEX, "ab"),
        of(TR_GRAMMAR_REGEX, "a"),
        of(TR_GRAMMAR_JSON_SCHEMA, "true"),
        {.kind = TR_GRAMMAR_JSON_SCHEMA, .text = {"true", 4}, .compact = true},
        {.kind = TR_GRAMMAR_JSON_SCHEMA, .text = {"true", 4}, .indent = 2},
        {.kind = TR_GRAMMAR_CHOICE, .choices = two, .n_choices = 2},
        {.kind = TR_GRAMMAR_CHOICE, .choices = one, .n_choices = 1},
    };
    struct tr_grammar_cache *c = NULL;
    struct tr_grammar *made[TR_ARRAY_LEN(sources)];
    assert_int_equal(tr_grammar_cache_open(&c), 0);
    for (size_t i = 0; i < TR_ARRAY_LEN(sources); i++) {
        made[i] = get(c, &sources[i]);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(made[i], made[k]);
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(sources); i++) {
        struct tr_grammar *again = get(c, &sources[i]);
        assert_ptr_equal(again, made[i]);
        tr_grammar_unref(again);
        tr_grammar_unref(made[i]);
    }
    tr_grammar_cache_close(c);
}

static void bounded(void **state)
{
    (void)state;
    struct tr_grammar_cache *c = NULL;
    struct tr_grammar *made[TR_GRAMMAR_CACHE_ENTRIES + 1];
    assert_int_equal(tr_grammar_cache_open(&c), 0);
    for (int i = 0; i <= TR_GRAMMAR_CACHE_ENTRIES; i++) {
        char text[16];
        snprintf(text, sizeof text, "a{%d}", i + 1);
        struct tr_grammar_source source = of(TR_GRAMMAR_REGEX, text);
        made[i] = get(c, &source);
    }
    struct tr_grammar_source first = of(TR_GRAMMAR_REGEX, "a{1}");
    struct tr_grammar_source third = of(TR_GRAMMAR_REGEX, "a{3}");
    struct tr_grammar *kept = get(c, &third), *gone = get(c, &first);
    assert_ptr_equal(kept, made[2]);
    assert_ptr_not_equal(gone, made[0]); /* made[0] is alive: another has not its address */
    tr_grammar_cache_close(c);
    tr_grammar_unref(kept); /* references outlive the cache */
    tr_grammar_unref(gone);
    for (int i = 0; i <= TR_GRAMMAR_CACHE_ENTRIES; i++)
        tr_grammar_unref(made[i]);
}

static void errors_are_not_kept(void **state)
{
    (void)state;
    struct tr_grammar_cache *c = NULL;
    struct tr_grammar *g = NULL;
    struct tr_err err = {0};
    struct tr_grammar_source bad = of(TR_GRAMMAR_REGEX, "a(");
    assert_int_equal(tr_grammar_cache_open(&c), 0);
    for (int i = 0; i < 2; i++) {
        err = (struct tr_err){0};
        assert_int_equal(tr_grammar_cache_get(c, &g, &bad, NULL, &err), TR_EINVAL);
        assert_null(g);
        assert_true(err.msg[0]);
    }
    tr_grammar_cache_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_and_different),
        cmocka_unit_test(bounded),
        cmocka_unit_test(errors_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
