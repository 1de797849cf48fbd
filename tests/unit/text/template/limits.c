/* What a template may not contain, what a render may not cost, and how errors name their place. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/buf.h"
#include "engine/text/template/template.h"

/* Loads and renders without variables; the error is in *err. */
static int run(const char *source, size_t n, struct tr_err *err)
{
    struct tr_template *t = NULL;
    struct tr_rendered out = {0};
    struct tr_template_input in = {0};
    int r = tr_template_load(&t, source, n, err);
    if (r == 0)
        r = tr_template_render(t, &in, &out, err);
    tr_rendered_done(&out);
    tr_template_free(t);
    return r;
}

static void errors_name_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *source, *message;
    } rows[] = {
        {"a\n {% if x %}", "line 2, column 12: the template ends where 'elif' was expected"},
        {"{{ 1 + }}", "line 1, column 8: expected an expression"},
        {"\n\n{{ a | nope }}", "line 3, column 8: no filter named 'nope'"},
        {"{{ a is nope }}", "line 1, column 9: no test named 'nope'"},
        {"{{ a.nope() }}", "line 1, column 10: no method named 'nope'"},
        {"{% include 'x' %}", "line 1, column 4: unknown or misplaced tag 'include'"},
        {"{% block a %}{% endblock %}", "line 1, column 4: unknown or misplaced tag 'block'"},
        {"x {% endfor %}", "line 1, column 6: unknown or misplaced tag 'endfor'"},
        {"{% break %}", "line 1, column 4: outside of a loop"},
        {"{% for a in b recursive %}{% endfor %}", "line 1, column 15: recursive loops"},
        {"{% for a in b %}{% break %}{% else %}{% endfor %}", "line 1, column 31: else of a loop"},
        {"{% for loop in b %}{% endfor %}", "line 1, column 8: cannot assign to the loop variable"},
        {"{% set 1 = 2 %}", "line 1, column 8: cannot assign to this"},
        {"{{ 'abc }}", "line 1, column 4: string without end"},
        {"{{ (1] }}", "line 1, column 6: unexpected ']', expected ')'"},
        {"{{ a ! b }}", "line 1, column 6: unexpected char '!'"},
        {"\xc3\xa9{# x", "line 1, column 2: Missing end of comment tag"},
        {"{% raw %}", "line 1, column 1: Missing end of raw directive"},
        {"{{ f(a=1, 2) }}", "line 1, column 5: invalid syntax for function call expression"},
        {"a\nb {{ x.y }}", "line 2: 'x' is undefined"},
        {"{{ 1 + 'a' }}", "line 1: unsupported operand type(s) for +: 'int' and 'str'"},
        {"{{ [].append(1) }}", "line 1: access to the mutating method 'append' is refused"},
        {"{{ '\\ud800' }}", "line 1, column 4: escape in string is not a character"},
        {"{% macro f(a=1, b) %}{% endmacro %}", "line 1, column 18: non-default argument"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(rows); i++) {
        struct tr_err err = {0};
        assert_int_equal(run(rows[i].source, strlen(rows[i].source), &err), TR_EINVAL);
        if (!strstr(err.msg, rows[i].message))
            fail_msg("%s\nwant %s\ngot  %s", rows[i].source, rows[i].message, err.msg);
    }
}

static void the_exception_of_a_template_is_its_own_text(void **state)
{
    (void)state;
    static const char source[] = "{{ raise_exception('no ' ~ 'way') }}";
    struct tr_err err = {0};
    assert_int_equal(run(source, sizeof source - 1, &err), TR_EINVAL);
    assert_string_equal(err.msg, "no way");
    assert_string_equal(err.param, "messages");
}

static void hostile_renders_end_early(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}x{{ b }}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'a' * 1000000000 }}",
        "{{ [1] * 1000000000 }}",
        "{{ 'a' * 10000000 ~ 'a' * 10000000 }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s.replace('a', "
        "'a' * 99999) "
        "%}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor "
        "%}{{ "
        "ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor "
        "%}{{ "
        "ns.l|tojson }}",
        "{% set ns = namespace(l=[], m=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% "
        "set ns.m "
        "= [ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% "
        "endfor %}",
        "{{ '%1000000000s' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ ('%999999s' * 99) % ((1,) * 99) }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ 'a'|indent(1000000000) }}",
        "{{ range(1000000) }}",
        "{{ range(99999)|list|map('string')|join|replace('', "
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')|length }}",
        "{{ 2 ** 1000000000 }}",
        "{% filter upper %}{% for a in range(99999) %}{% for b in range(999) %}x{% endfor %}{% "
        "endfor %}{% "
        "endfilter %}",
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(rows); i++) {
        struct tr_err err = {0};
        if (run(rows[i], strlen(rows[i]), &err) != TR_EINVAL)
            fail_msg("%s\n%s", rows[i], err.msg);
    }
}

/* A source of `before`, `middle` n times, `after`. */
static int run_repeated(const char *before, const char *middle, size_t n, const char *after)
{
    struct tr_buf b = {0};
    struct tr_err err = {0};
    tr_buf_adds(&b, before);
    for (size_t i = 0; i < n; i++)
        tr_buf_adds(&b, middle);
    tr_buf_adds(&b, after);
    int r = run(b.data, b.len, &err);
    tr_buf_done(&b);
    return r;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"{{ ", "(", ""},
        {"{{ ", "[", ""},
        {"{{ ", "{1:", ""},
        {"{{ ", "-", "1 }}"},
        {"{{ ", "not ", "1 }}"},
        {"{{ a", ".b", " }}"},
        {"{{ a", "[b", " }}"},
        {"{{ a", "|abs", " }}"},
        {"{{ 1", " + 1", " }}"},
        {"{{ 1", " and 1", " }}"},
        {"{{ 1", " if 1 else 1", " }}"},
        {"", "{% if 1 %}", ""},
        {"", "{% for a in b %}", ""},
        {"{% if 1 %}", "{% elif 1 %}", "{% endif %}"},
        {"{{ f", "(1)", " }}"},
        {"{{ a", " is defined", "}}"},
        {"{% set ", "(", ""},
        {"", "{% macro f() %}", ""},
        {"{{ 1", " ~ (1", " }}"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(rows); i++)
        assert_int_equal(run_repeated(rows[i][0], rows[i][1], 20000, rows[i][2]), TR_EINVAL);
    assert_int_equal(run_repeated("{{ ", "(", 90, "1"), TR_EINVAL);
}

static void what_is_long_but_flat_works(void **state)
{
    (void)state;
    assert_int_equal(run_repeated("{{ 'a'", " ~ 'a'", 10000, " }}"), 0);
    assert_int_equal(run_repeated("{{ [1", ",1", 10000, "]|length }}"), 0);
    assert_int_equal(run_repeated("", "{% set a = 1 %}{{ a }}\n", 5000, ""), 0);
    assert_int_equal(run_repeated("{{ 1", " < 2", 1000, " }}"), 0);
    assert_int_equal(run_repeated("", "x", 300000, ""), TR_EINVAL); /* too long a source */
    assert_int_equal(run_repeated("", "\xff", 1, ""), TR_EINVAL);
}

/* Appending to one variable again and again costs memory in proportion to the result. */
static void growing_a_string_is_linear(void **state)
{
    (void)state;
    static const char source[] = "{% set ns = namespace(s='') %}{% for i in range(40000) %}"
                                 "{% set ns.s = ns.s + ('<' ~ i ~ '> twenty bytes and more') %}"
                                 "{% endfor %}{{ ns.s|length }}";
    struct tr_err err = {0};
    assert_int_equal(run(source, sizeof source - 1, &err), 0);
}

/* What a thread renders, and whether each time it came out as it should. */
struct renderer {
    const struct tr_template *t;
    const char *variables, *end;
    bool right;
};

static void *render_often(void *arg)
{
    struct renderer *r = arg;
    struct json_t *doc = NULL;
    r->right = tr_json_parse(&doc, r->variables, strlen(r->variables), NULL) == 0;
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_template_input in = {.variables = &root};
    for (int i = 0; r->right && i < 50; i++) {
        struct tr_rendered out = {0};
        r->right = tr_template_render(r->t, &in, &out, NULL) == 0 && out.n == 604 &&
                   strcmp(out.text + 600, r->end) == 0;
        tr_rendered_done(&out);
    }
    tr_json_free(doc);
    return NULL;
}

/* Appending to a long literal must not happen in the template's own memory. */
static void threads_share_a_template(void **state)
{
    (void)state;
    struct tr_buf source = {0};
    struct tr_template *t = NULL;
    tr_buf_adds(&source, "{{ '");
    for (int i = 0; i < 600; i++)
        tr_buf_addc(&source, 'a');
    tr_buf_adds(&source, "' 'b' ~ x }}");
    assert_int_equal(tr_template_load(&t, source.data, source.len, NULL), 0);
    struct renderer renderers[] = {{.t = t, .variables = "{\"x\": \"one\"}", .end = "bone"},
                                   {.t = t, .variables = "{\"x\": \"two\"}", .end = "btwo"}};
    pthread_t threads[TR_ARRAY_LEN(renderers)];
    for (size_t i = 0; i < TR_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, &renderers[i]), 0);
    for (size_t i = 0; i < TR_ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_true(renderers[i].right);
    }
    tr_template_free(t);
    tr_buf_done(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(the_exception_of_a_template_is_its_own_text),
        cmocka_unit_test(hostile_renders_end_early),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(what_is_long_but_flat_works),
        cmocka_unit_test(growing_a_string_is_linear),
        cmocka_unit_test(threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
