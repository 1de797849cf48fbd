/* The field table's rules, on a table of the test's own. */
#include "server/call/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct params {
    bool flag;
    int64_t count, limit;
    double share;
    struct tr_json value;
};

#define AT(member) offsetof(struct params, member)

static const struct srv_field rows[] = {
    SRV_BOOL_FIELD("flag", AT(flag), true, "a flag"),
    SRV_INT_FIELD("count", AT(count), -2, 9, 3, "a number"),
    SRV_OPT_INT_FIELD("limit", AT(limit), 0, INT64_MAX, -1, "a bound"),
    SRV_ABOVE_FIELD("share", AT(share), 0, 1, 0.5, "a share"),
    SRV_VALUE_FIELD("value", AT(value), "\"type\":\"integer\",\"maximum\":@", "anything"),
    SRV_IGNORED_FIELD("note", "a note"),
    SRV_REFUSED_FIELD("magic", "magic"),
};
static const struct srv_table table = {rows, TR_ARRAY_LEN(rows)};
static const struct srv_table *const tables[] = {&table};

/* The result; on failure the field's name is in param. */
static int take(const char *text, bool strict, struct params *p, char param[96])
{
    struct json_t *doc = NULL;
    struct tr_err err = {0};
    assert_int_equal(tr_json_parse(&doc, text, strlen(text), &err), 0);
    struct tr_json root = tr_json_root(doc, NULL);
    int r = srv_fields_take(tables, 1, &root, NULL, strict, p, &err);
    strcpy(param, err.param);
    p->value = (struct tr_json){.index = tr_json_given(&p->value)};
    tr_json_free(doc);
    return r;
}

static void test_defaults(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        ("{\"flag\":null,\"count\":null,\"limit\":null,\"share\":null,\"value\":null,"
         "\"magic\":null,\"note\":null}"),
        "{\"note\":{\"x\":[1]},\"other\":5}"};
    for (size_t i = 0; i < TR_ARRAY_LEN(texts); i++) {
        struct params p;
        char param[96];
        assert_int_equal(take(texts[i], false, &p, param), 0);
        assert_true(p.flag);
        assert_int_equal(p.count, 3);
        assert_int_equal(p.limit, -1);
        assert_true(p.share > 0.49 && p.share < 0.51);
        assert_int_equal(p.value.index, 0);
    }
}

static void test_values(void **state)
{
    (void)state;
    struct params p;
    char param[96];
    assert_int_equal(take("{\"flag\":false,\"count\":-2.0,\"limit\":9223372036854775807,"
                          "\"share\":1,\"value\":[]}",
                          true, &p, param),
                     0);
    assert_false(p.flag);
    assert_int_equal(p.count, -2);
    assert_true(p.limit == INT64_MAX);
    assert_true(p.share > 0.99);
    assert_int_equal(p.value.index, 1);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *param;
        bool strict;
    } cases[] = {
        {"{\"flag\":1}", "flag", false},
        {"{\"flag\":\"true\"}", "flag", false},
        {"{\"count\":10}", "count", false},
        {"{\"count\":-3}", "count", false},
        {"{\"count\":1.5}", "count", false},
        {"{\"count\":\"1\"}", "count", false},
        {"{\"count\":true}", "count", false},
        {"{\"count\":1e300}", "count", false},
        {"{\"limit\":-1}", "limit", false},
        {"{\"share\":0}", "share", false},
        {"{\"share\":1.01}", "share", false},
        {"{\"share\":[]}", "share", false},
        {"{\"magic\":1}", "magic", false},
        {"{\"magic\":\"x\"}", "magic", false},
        {"{\"magic\":true}", "magic", false},
        {"{\"magic\":[0]}", "magic", false},
        {"{\"magic\":{\"a\":0}}", "magic", false},
        {"{\"other\":1}", "other", true},
        {"[]", "", false},
        {"5", "", false},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct params p = {0};
        char param[96];
        assert_int_equal(take(cases[i].text, cases[i].strict, &p, param), TR_EINVAL);
        assert_string_equal(param, cases[i].param);
    }
}

static void test_values_that_ask_for_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"null", "false", "0", "0.0", "\"\"", "[]", "{}"};
    for (size_t i = 0; i < TR_ARRAY_LEN(texts); i++) {
        struct params p;
        char text[64], param[96];
        snprintf(text, sizeof text, "{\"magic\":%s}", texts[i]);
        assert_int_equal(take(text, true, &p, param), 0);
    }
}

/* The schema is JSON and says what the rows say. */
static void test_schema(void **state)
{
    (void)state;
    struct tr_buf out = {0};
    struct json_t *doc = NULL;
    struct tr_err err;
    int64_t n;
    double x;
    tr_buf_addc(&out, '{');
    srv_fields_schema(&out, tables, 1, NULL, 77);
    tr_buf_addc(&out, '}');
    assert_int_equal(tr_json_parse(&doc, out.data, out.len, &err), 0);
    struct tr_json root = tr_json_root(doc, NULL), f;
    assert_int_equal(tr_json_size(&root), TR_ARRAY_LEN(rows));
    f = tr_json_get(&root, "count");
    assert_int_equal(tr_json_int(&f, "minimum", -99, 99, &n, &err), 0);
    assert_int_equal(n, -2);
    assert_int_equal(tr_json_int(&f, "default", -99, 99, &n, &err), 0);
    assert_int_equal(n, 3);
    f = tr_json_get(&root, "limit");
    f = tr_json_get(&f, "default");
    assert_false(tr_json_given(&f));
    f = tr_json_get(&root, "share");
    assert_int_equal(tr_json_double(&f, "exclusiveMinimum", -9, 9, &x, &err), 0);
    f = tr_json_get(&root, "value");
    assert_int_equal(tr_json_int(&f, "maximum", -99, 99, &n, &err), 0);
    assert_int_equal(n, 77);
    tr_json_free(doc);
    tr_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_values_that_ask_for_nothing),
        cmocka_unit_test(test_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
