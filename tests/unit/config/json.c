/* JSON from hostile and from ordinary sources: what parses, what is refused, and what the
 * message says. */
#include "config/json.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/json_scan.h"

static int parse(const char *text, struct json_t **ret, struct tr_err *err)
{
    return tr_json_parse(ret, text, strlen(text), err);
}

static void test_refused_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message; /* message: what it must hold */
    } cases[] = {
        {"", "line 1"},
        {"{", "line 1, column 1"},
        {"[1,\n  fals", "line 2, column 6 (byte 10)"},
        {"{\"a\":1,}", "invalid JSON"},
        {"{\"a\":1} x", "end of file expected"},
        {"not json", "invalid token"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "duplicate"},
        {"\"\\ud83d y\"", "invalid Unicode"},
        {"\"\\ude00\"", "invalid Unicode"},
        {"{\"a\\u0000b\":1}", "NUL"},
        {"\"\xff\"", "line 1"},
        {"\"\xed\xa0\x80\"", "line 1"},
        {"\"a\nb\"", "newline"},
        {"NaN", "invalid token"},
        {"1e999", "overflow"},
        {"{123456789012345678901234567890:1}", "line 1"},
        {"[0123456789012345678901234567890]", "line 1"},
        {"\xef\xbb\xbf{}", "line 1"},
        {"01", "line 1"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct json_t *doc = NULL;
        struct tr_err err;
        assert_int_equal(parse(cases[i].text, &doc, &err), TR_EINVAL);
        assert_null(doc);
        assert_int_equal(err.code, TR_EINVAL);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("%s: message \"%s\" has no \"%s\"", cases[i].text, err.msg, cases[i].message);
    }
}

static void test_message_has_no_input(void **state)
{
    (void)state;
    struct json_t *doc;
    struct tr_err err;
    assert_int_equal(parse("{\"k\": secretword}", &doc, &err), TR_EINVAL);
    assert_null(strstr(err.msg, "secret"));
    assert_int_equal(parse("{\"secretkey\":1,\"secretkey\":1}", &doc, &err), TR_EINVAL);
    assert_null(strstr(err.msg, "secret"));
}

static void test_depth(void **state)
{
    (void)state;
    static const struct {
        int depth, result;
    } cases[] = {{1, 0},           {100, 0},          {200, 0},
                 {201, TR_EINVAL}, {2049, TR_EINVAL}, {1000000, TR_EINVAL}};
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        size_t n = (size_t)cases[i].depth;
        char *text = malloc(2 * n);
        assert_non_null(text);
        memset(text, '[', n);
        memset(text + n, ']', n);
        struct json_t *doc = NULL;
        struct tr_err err;
        assert_int_equal(tr_json_parse(&doc, text, 2 * n, &err), cases[i].result);
        if (cases[i].result < 0)
            assert_non_null(strstr(err.msg, "nested deeper"));
        tr_json_free(doc);
        free(text);
    }
    /* Brackets in strings and many siblings are no depth. */
    struct json_t *doc;
    struct tr_buf b = {0};
    tr_buf_adds(&b, "[\"\\\"");
    for (int i = 0; i < 500; i++)
        tr_buf_addc(&b, '[');
    tr_buf_addc(&b, '"');
    for (int i = 0; i < 500; i++)
        tr_buf_adds(&b, ",[]");
    tr_buf_addc(&b, ']');
    assert_int_equal(tr_json_parse(&doc, b.data, b.len, NULL), 0);
    tr_json_free(doc);
    tr_buf_done(&b);
}

static void test_strings_are_counted(void **state)
{
    (void)state;
    struct json_t *doc;
    struct tr_err err;
    const char *s;
    size_t n;
    assert_int_equal(parse("{\"s\":\"a\\u0000b\",\"e\":\"\\ud83d\\ude00\"}", &doc, &err), 0);
    struct tr_json root = tr_json_root(doc, NULL);
    assert_int_equal(tr_json_string(&root, "s", &s, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_memory_equal(s, "a\0b", 4);
    assert_int_equal(tr_json_string(&root, "s", &s, NULL, &err), TR_EINVAL);
    assert_string_equal(err.param, "s");
    assert_int_equal(tr_json_string(&root, "e", &s, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_memory_equal(s, "\xf0\x9f\x98\x80", 5);
    tr_json_free(doc);
}

static void test_integers(void **state)
{
    (void)state;
    struct json_t *doc;
    struct tr_err err;
    static const struct {
        const char *text;
        int result;
        int64_t value;
    } cases[] = {
        {"[16]", 0, 16},
        {"[16.0]", 0, 16},
        {"[1.6e1]", 0, 16},
        {"[-0]", 0, 0},
        {"[100]", 0, 100},
        {"[-5]", 0, -5},
        {"[101]", TR_EINVAL, 0},
        {"[-6]", TR_EINVAL, 0},
        {"[16.5]", TR_EINVAL, 0},
        {"[1e300]", TR_EINVAL, 0},
        {"[-1e300]", TR_EINVAL, 0},
        {"[9223372036854775807]", TR_EINVAL, 0},
        {"[\"16\"]", TR_EINVAL, 0},
        {"[true]", TR_EINVAL, 0},
        {"[null]", TR_EINVAL, 0},
        {"[[]]", TR_EINVAL, 0},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        assert_int_equal(parse(cases[i].text, &doc, &err), 0);
        struct tr_json root = tr_json_root(doc, NULL), v = tr_json_at(&root, 0);
        int64_t x = 77;
        assert_int_equal(tr_json_as_int(&v, -5, 100, &x, &err), cases[i].result);
        assert_int_equal(x, cases[i].result < 0 ? 77 : cases[i].value);
        if (cases[i].result < 0)
            assert_string_equal(err.param, "[0]");
        tr_json_free(doc);
    }
    assert_int_equal(parse("[9223372036854775807,-9223372036854775808]", &doc, &err), 0);
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_json most = tr_json_at(&root, 0), least = tr_json_at(&root, 1);
    int64_t x;
    assert_int_equal(tr_json_as_int(&most, INT64_MIN, INT64_MAX, &x, &err), 0);
    assert_true(x == INT64_MAX);
    assert_int_equal(tr_json_as_int(&least, INT64_MIN, INT64_MAX, &x, &err), 0);
    assert_true(x == INT64_MIN);
    tr_json_free(doc);
}

static void test_paths_in_messages(void **state)
{
    (void)state;
    struct json_t *doc;
    struct tr_err err;
    struct tr_json rope, list;
    double d = 3;
    int64_t n = 3;
    bool b = true;
    const char *s = NULL;
    assert_int_equal(
        parse("{\"rope_parameters\":{\"rope_theta\":\"x\"},\"m\":[{\"a\":1},{\"b\\n\\u00e9\":{}}],"
              "\"nil\":null,\"t\":2.5,\"f\":false}",
              &doc, &err),
        0);
    struct tr_json root = tr_json_root(doc, "config.json");
    assert_int_equal(tr_json_object(&root, "rope_parameters", &rope, &err), 0);
    assert_int_equal(tr_json_double(&rope, "rope_theta", 0, 10, &d, &err), TR_EFORMAT);
    assert_string_equal(err.msg,
                        "config.json: rope_parameters.rope_theta: expected number, found string");
    assert_string_equal(err.param, "rope_parameters.rope_theta");
    assert_int_equal(tr_json_int(&rope, "absent", 0, 10, &n, &err), TR_EFORMAT);
    assert_string_equal(err.msg, "config.json: rope_parameters.absent: missing (expected integer)");

    assert_int_equal(tr_json_array(&root, "m", &list, &err), 0);
    struct tr_json second = tr_json_at(&list, 1), member;
    void *iter = NULL;
    assert_true(tr_json_next(&second, &iter, &member));
    assert_int_equal(tr_json_as_string(&member, &s, NULL, &err), TR_EFORMAT);
    assert_string_equal(err.param, "m[1].b???");
    assert_false(tr_json_next(&second, &iter, &member));

    assert_int_equal(tr_json_double(&root, "t", 0, 2, &d, &err), TR_EFORMAT);
    assert_string_equal(err.msg, "config.json: t: must be from 0 to 2");
    assert_int_equal(tr_json_bool(&root, "nil", &b, &err), TR_EFORMAT);
    assert_string_equal(err.msg, "config.json: nil: expected boolean, found null");
    assert_true(d == 3 && n == 3 && b && !s);

    struct tr_json bare = tr_json_root(doc, NULL);
    assert_int_equal(tr_json_array(&bare, "t", &list, &err), TR_EINVAL);
    assert_string_equal(err.msg, "t: expected array, found number");
    assert_int_equal(tr_json_expect(&bare, TR_JSON_ARRAY, &err), TR_EINVAL);
    assert_string_equal(err.msg, "expected array, found object");
    tr_json_free(doc);
}

static void test_optional_members(void **state)
{
    (void)state;
    struct json_t *doc;
    struct tr_err err;
    assert_int_equal(
        parse("{\"nil\":null,\"i\":4,\"d\":0.5,\"b\":true,\"s\":\"x\",\"a\":[1],\"o\":{\"k\":2}}",
              &doc, &err),
        0);
    struct tr_json root = tr_json_root(doc, NULL), v;
    int64_t i = 1;
    double d = 1;
    bool b = false;
    const char *s = "preset";
    static const char *const none[] = {"nil", "absent"};
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(tr_json_opt_int(&root, none[k], 0, 9, &i, &err), 0);
        assert_int_equal(tr_json_opt_double(&root, none[k], 0, 9, &d, &err), 0);
        assert_int_equal(tr_json_opt_bool(&root, none[k], &b, &err), 0);
        assert_int_equal(tr_json_opt_string(&root, none[k], &s, NULL, &err), 0);
        assert_int_equal(tr_json_opt_array(&root, none[k], &v, &err), 0);
        assert_int_equal(tr_json_size(&v), 0);
        assert_int_equal(tr_json_opt_object(&root, none[k], &v, &err), 0);
        assert_int_equal(tr_json_type(&v), TR_JSON_ABSENT);
        assert_false(tr_json_given(&v));
        struct tr_json inner = tr_json_get(&v, "k");
        assert_int_equal(tr_json_type(&inner), TR_JSON_ABSENT);
    }
    assert_true(i == 1 && d == 1 && !b);
    assert_string_equal(s, "preset");
    assert_int_equal(tr_json_opt_int(&root, "i", 0, 9, &i, &err), 0);
    assert_int_equal(tr_json_opt_double(&root, "d", 0, 9, &d, &err), 0);
    assert_int_equal(tr_json_opt_bool(&root, "b", &b, &err), 0);
    assert_int_equal(tr_json_opt_string(&root, "s", &s, NULL, &err), 0);
    assert_true(i == 4 && d == 0.5 && b);
    assert_string_equal(s, "x");
    assert_int_equal(tr_json_opt_object(&root, "o", &v, &err), 0);
    assert_int_equal(tr_json_int(&v, "k", 0, 9, &i, &err), 0);
    assert_int_equal(i, 2);
    assert_int_equal(tr_json_opt_array(&root, "o", &v, &err), TR_EINVAL);
    assert_int_equal(tr_json_opt_int(&root, "s", 0, 9, &i, &err), TR_EINVAL);
    tr_json_free(doc);
}

static void test_members_in_file_order(void **state)
{
    (void)state;
    struct tr_buf b = {0};
    tr_buf_addc(&b, '{');
    for (int i = 0; i < 1000; i++)
        tr_buf_addf(&b, "%s\"%d\":%d", i ? "," : "", (i * 7919) % 1000, i);
    tr_buf_addc(&b, '}');
    struct json_t *doc;
    assert_int_equal(tr_json_parse(&doc, b.data, b.len, NULL), 0);
    struct tr_json root = tr_json_root(doc, NULL), v;
    assert_int_equal(tr_json_size(&root), 1000);
    void *iter = NULL;
    for (int i = 0; tr_json_next(&root, &iter, &v); i++) {
        int64_t x;
        assert_int_equal(tr_json_as_int(&v, 0, 999, &x, NULL), 0);
        assert_int_equal(x, i);
        assert_int_equal(atoi(v.key), (i * 7919) % 1000);
    }
    tr_json_free(doc);
    tr_buf_done(&b);
}

static char *write_file(const char *text)
{
    static char path[64];
    strcpy(path, "/tmp/trinityd-json-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void test_files(void **state)
{
    (void)state;
    struct json_t *doc = NULL;
    struct tr_err err;
    int64_t x;
    double d;
    /* What tokenizer_config.json of many checkpoints says for "no limit". */
    char *path = write_file("{\"model_max_length\": 1000000000000000019884624838656, \"n\": 12}");
    assert_int_equal(tr_json_read(&doc, path, 1000, &err), 0);
    struct tr_json root = tr_json_root(doc, path);
    assert_int_equal(tr_json_int(&root, "n", 0, 20, &x, &err), 0);
    assert_int_equal(x, 12);
    assert_int_equal(tr_json_double(&root, "model_max_length", 0, 1e40, &d, &err), 0);
    assert_true(d == 1e30);
    assert_int_equal(tr_json_int(&root, "model_max_length", 0, INT64_MAX, &x, &err), TR_EFORMAT);
    doc = tr_json_free(doc);
    assert_int_equal(tr_json_read(&doc, path, 20, &err), TR_EFORMAT);
    assert_non_null(strstr(err.msg, "larger than 20 bytes"));
    assert_non_null(strstr(err.msg, path));
    unlink(path);

    path = write_file("\xEF\xBB\xBF{\"n\": 3}"); /* as editors begin a file */
    assert_int_equal(tr_json_read(&doc, path, 1000, &err), 0);
    doc = tr_json_free(doc);
    unlink(path);

    path = write_file("{\n \"a\": }");
    assert_int_equal(tr_json_read(&doc, path, 1000, &err), TR_EFORMAT);
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, "line 2"));
    unlink(path);
    assert_int_equal(tr_json_read(&doc, path, 1000, &err), TR_EIO);
    assert_non_null(strstr(err.msg, "No such file"));
    assert_int_equal(tr_json_read(&doc, "/tmp", 1000, &err), TR_EIO);
    assert_null(doc);
}

static void test_quote(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", "\"\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"x\ny\x01", "\"x\\ny\\u0001\""},
        {"\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {"\xff"
         "a\xc3",
         "\"\xef\xbf\xbd"
         "a\xef\xbf\xbd\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_buf b = {0};
        tr_json_quote(&b, cases[i].in, strlen(cases[i].in));
        assert_string_equal(b.data, cases[i].out);
        tr_buf_done(&b);
    }
    struct tr_buf b = {0};
    struct json_t *doc;
    const char *s;
    size_t n;
    char all[128];
    for (int i = 0; i < 128; i++)
        all[i] = (char)i;
    tr_json_quote(&b, all, sizeof all);
    assert_int_equal(tr_json_parse(&doc, b.data, b.len, NULL), 0);
    struct tr_json root = tr_json_root(doc, NULL);
    assert_int_equal(tr_json_as_string(&root, &s, &n, NULL), 0);
    assert_int_equal(n, sizeof all);
    assert_memory_equal(s, all, n);
    tr_json_free(doc);
    tr_buf_done(&b);
}

/* Integers of any size keep their digits, and are numbers wherever a type is asked for. */
static void test_big_integers(void **state)
{
    (void)state;
    static const struct {
        const char *digits;
        bool big, word;
        uint64_t value;
    } cases[] = {{"9223372036854775807", false, true, INT64_MAX},
                 {"9223372036854775808", true, true, 1ULL << 63},
                 {"18446744073709551615", true, true, UINT64_MAX},
                 {"18446744073709551616", true, false, 0},
                 {"-9223372036854775808", false, true, 1ULL << 63},
                 {"-9223372036854775809", true, false, 0},
                 {"1234567890123456789012345678901234567890", true, false, 0}};
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct json_t *doc;
        struct tr_err err;
        char text[256];
        snprintf(text, sizeof text, "{\"a\":[%s],\"%s\":\"%s\"}", cases[i].digits, cases[i].digits,
                 cases[i].digits);
        assert_int_equal(parse(text, &doc, &err), 0);
        struct tr_json root = tr_json_root(doc, NULL), list = tr_json_get(&root, "a"),
                       v = tr_json_at(&list, 0);
        assert_int_equal(tr_json_type(&v), TR_JSON_NUMBER);
        assert_true(tr_json_is_integer(&v));
        assert_int_equal(tr_json_big(&v) != NULL, cases[i].big);
        int64_t x;
        uint64_t word = 0;
        double d;
        const char *s;
        assert_int_equal(tr_json_as_int(&v, INT64_MIN, INT64_MAX, &x, &err),
                         cases[i].big ? TR_EINVAL : 0);
        assert_int_equal(tr_json_as_word(&v, &word, &err), cases[i].word ? 0 : TR_EINVAL);
        assert_true(word == cases[i].value);
        assert_int_equal(tr_json_as_double(&v, -1e300, 1e300, &d, &err), 0);
        assert_true(d == strtod(cases[i].digits, NULL));
        assert_int_equal(tr_json_as_string(&v, &s, NULL, &err), TR_EINVAL);
        struct tr_buf out = {0};
        tr_json_write(&out, &root);
        assert_string_equal(out.data, text);
        tr_buf_done(&out);
        tr_json_free(doc);
    }
}

static void test_written_values(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":[1,-2.5,0.1,1e+300,5.0,true,false,null],\"b\":{\"\\\"\":\"x\\ny\"},"
        "\"c\":[],\"d\":{}}";
    struct json_t *doc;
    struct tr_buf out = {0};
    assert_int_equal(parse(text, &doc, NULL), 0);
    struct tr_json root = tr_json_root(doc, NULL);
    tr_json_write(&out, &root);
    assert_string_equal(out.data, text);
    tr_buf_done(&out);
    tr_json_free(doc);
}

/* What a document takes is bounded by its text: the bound refuses in time, and the count behind it is no less than
 * what the heap gives. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *head, *item, *tail;
        int n;
        bool fits;
    } cases[] = {
        {"[", "{},", "0]", 1000000, false},
        {"[", "[],", "0]", 1000000, false},
        {"[", "{},", "0]", 10000, true},
        {"[", "0,", "0]", 1000000, true},
        {"[", "12345,", "0]", 1000000, true},
        {"[", "\"\",", "0]", 2000000, false},
        {"[", "1.5,", "0]", 1000000, true},
        {"[", "{\"a\":1},", "0]", 15000, true},
        {"[", "\"some words\",", "0]", 100000, true},
        {"[", "{\"type\":\"text\",\"text\":\"x\"},", "0]", 20000, true},
        {"[", "[[[[]]]],", "0]", 7000, true},
        {"[", "null,", "0]", 1000000, true},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_buf b = {0};
        tr_buf_adds(&b, cases[i].head);
        for (int k = 0; k < cases[i].n; k++)
            tr_buf_adds(&b, cases[i].item);
        tr_buf_adds(&b, cases[i].tail);
        struct json_t *doc = NULL;
        struct tr_err err;
        struct mallinfo2 before = mallinfo2();
        int r = tr_json_parse(&doc, b.data, b.len, &err);
        struct mallinfo2 after = mallinfo2();
        assert_int_equal(r, cases[i].fits ? 0 : TR_EINVAL);
        if (r < 0)
            assert_non_null(strstr(err.msg, "too many values"));
        size_t took = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
        size_t bound = tr_json_scan(b.data, b.len, TR_JSON_MAX_DEPTH).bytes;
        if (r == 0 && took > bound + 65536)
            fail_msg("%s: %zu bytes, counted %zu", cases[i].item, took, bound);
        tr_json_free(doc);
        tr_buf_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_texts),
        cmocka_unit_test(test_message_has_no_input),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_big_integers),
        cmocka_unit_test(test_written_values),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_strings_are_counted),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_paths_in_messages),
        cmocka_unit_test(test_optional_members),
        cmocka_unit_test(test_members_in_file_order),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
