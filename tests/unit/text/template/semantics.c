/* The expressions and statements that reimplementations of Jinja get wrong, with jinja2's results: see
 * tests/template/make_semantics.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/template/template.h"

#define FILE_NAME "tests/template/semantics.json"

struct table {
    struct json_t *doc;
    struct tr_json root, context, cases;
    int64_t now;
};

static int open_table(void **state)
{
    struct table *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *state = t;
    assert_int_equal(tr_json_read(&t->doc, FILE_NAME, 1 << 20, NULL), 0);
    t->root = tr_json_root(t->doc, FILE_NAME);
    t->context = tr_json_get(&t->root, "context");
    t->cases = tr_json_get(&t->root, "cases");
    assert_int_equal(tr_json_int(&t->root, "now", 0, INT64_MAX, &t->now, NULL), 0);
    setenv("TZ", "UTC", 1);
    return 0;
}

static int close_table(void **state)
{
    struct table *t = *state;
    tr_json_free(t->doc);
    free(t);
    return 0;
}

static void check(const struct table *t, const struct tr_json *one)
{
    const char *source, *want = NULL;
    size_t n, n_want = 0;
    assert_int_equal(tr_json_string(one, "template", &source, &n, NULL), 0);
    assert_int_equal(tr_json_opt_string(one, "text", &want, &n_want, NULL), 0);
    struct tr_template *template = NULL;
    struct tr_template_input in = {.variables = &t->context, .now = t->now};
    struct tr_rendered out = {0};
    struct tr_err err = {0};
    int r = tr_template_load(&template, source, n, &err);
    if (r == 0)
        r = tr_template_render(template, &in, &out, &err);
    if ((r == 0) != (want != NULL))
        print_error("%s\n    %s\n", source, r ? err.msg : out.text);
    assert_int_equal(r, want ? 0 : TR_EINVAL);
    if (want) {
        assert_string_equal(out.text, want);
        assert_int_equal(out.n, n_want);
    } else {
        assert_true(strlen(err.msg) > 0);
    }
    tr_rendered_done(&out);
    tr_template_free(template);
}

static void every_line_is_as_in_jinja(void **state)
{
    const struct table *t = *state;
    size_t n = tr_json_size(&t->cases);
    assert_true(n > 500);
    for (size_t i = 0; i < n; i++) {
        struct tr_json one = tr_json_at(&t->cases, i);
        check(t, &one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_line_is_as_in_jinja)};
    return cmocka_run_group_tests(tests, open_table, close_table);
}
