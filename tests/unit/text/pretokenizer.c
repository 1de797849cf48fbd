/* Pieces of the family's pre-tokenizer, and what a tokenizer.json may not ask for. */
#include "engine/text/pretokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/buf.h"

static int join(void *arg, const char *piece, size_t n)
{
    struct tr_buf *out = arg;

    if (out->len > 0)
        tr_buf_addc(out, '|');
    tr_buf_add(out, piece, n);
    return 0;
}

static void check(const struct tr_pretokenizer *p, const char *text, const char *pieces)
{
    struct tr_match_space space = {0};
    struct tr_buf out = {0};

    assert_int_equal(tr_pretokenizer_run(p, &space, text, strlen(text), join, &out), TR_OK);
    assert_string_equal(out.data ? out.data : "", pieces);
    tr_buf_done(&out);
    tr_match_space_done(&space);
}

/* From the file, and by the name that GGUF files give it. */
static void test_family(void **state)
{
    struct tr_pretokenizer *p[2] = {0};
    struct json_t *doc = NULL;
    struct tr_json root, v;
    struct tr_err err;

    (void)state;
    assert_int_equal(tr_json_read(&doc, "config/demo/tokenizer.json", 1 << 20, &err), TR_OK);
    root = tr_json_root(doc, "tokenizer.json");
    v = tr_json_get(&root, "pre_tokenizer");
    assert_int_equal(tr_pretokenizer_new(&p[0], &v, &err), TR_OK);
    assert_int_equal(tr_pretokenizer_named(&p[1], "afmoe", &err), TR_OK);
    for (int i = 0; i < 2; i++) {
        check(p[i], "", "");
        check(p[i], "1234567", "1|234|567");
        check(p[i], "12345", "12|345");
        check(p[i], "a1234b567", "a|1|234|b|567");
        check(p[i], "2024-11-05", "2|024|-|11|-|05");
        check(p[i], "3.14159", "3|.|14|159");
        check(p[i], "\u0663\u0664\u0665\u0666", "\u0663|\u0664\u0665\u0666");
        check(p[i], "a  1", "a|  |1");
        check(p[i], " the (x_y)'s\n\n b", " the| (|x|_y|)'|s|\n\n| b");
        check(p[i], "\u4f60\u597dhello\uc548\ub155", "\u4f60\u597d|hello|\uc548\ub155");
        assert_true(tr_pretokenizer_byte_level(p[i]));
        assert_false(tr_pretokenizer_drops(p[i]));
        tr_pretokenizer_free(p[i]);
    }
    tr_json_free(doc);
}

static int count(void *arg, const char *piece, size_t n)
{
    size_t *pieces = arg;

    (void)piece;
    assert_int_equal(n, *pieces == 0 ? 2 : 3);
    ++*pieces;
    return 0;
}

static void test_more_digits_than_a_chunk(void **state)
{
    struct tr_match_space space = {0};
    struct tr_pretokenizer *p = NULL;
    struct tr_err err;
    size_t pieces = 0;
    char text[512];

    (void)state;
    memset(text, '9', sizeof(text));
    assert_int_equal(tr_pretokenizer_named(&p, "afmoe", &err), TR_OK);
    assert_int_equal(tr_pretokenizer_run(p, &space, text, sizeof(text), count, &pieces), TR_OK);
    assert_int_equal(pieces, 171);
    tr_pretokenizer_free(p);
    tr_match_space_done(&space);
}

static void test_other_names(void **state)
{
    struct tr_pretokenizer *p = NULL;
    struct tr_err err;

    (void)state;
    assert_int_equal(tr_pretokenizer_named(&p, "gpt-2", &err), TR_OK);
    check(p, "it's 1234  ok", "it|'s| 1234| | ok");
    tr_pretokenizer_free(p);
    assert_int_equal(tr_pretokenizer_named(&p, "default", &err), TR_OK);
    check(p, "a+1234 b", "a|+|123|4| b");
    tr_pretokenizer_free(p);
    p = NULL;
    assert_int_equal(tr_pretokenizer_named(&p, "frobnicate", &err), TR_EUNSUPPORTED);
    assert_null(p);
    assert_non_null(strstr(err.msg, "frobnicate"));
}

static void test_refused(void **state)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{\"type\":\"Metaspace\"}", "Metaspace"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]"
         "}",
         "after ByteLevel"},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}", "pattern"},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}", "&&"},
        {"{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}", "Regex"},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}", "behavior"},
        {"[]", "expected"},
        {"{}", "type"},
    };

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_pretokenizer *p = NULL;
        struct json_t *doc = NULL;
        struct tr_json root;
        struct tr_err err = {0};

        assert_int_equal(tr_json_parse(&doc, cases[i].json, strlen(cases[i].json), &err), TR_OK);
        root = tr_json_root(doc, "tokenizer.json");
        assert_int_equal(tr_pretokenizer_new(&p, &root, &err), TR_EFORMAT);
        assert_null(p);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("%s: \"%s\" has no \"%s\"", cases[i].json, err.msg, cases[i].message);
        tr_json_free(doc);
    }
}

/* An expression that explodes is stopped, not waited for. */
static void test_explosion(void **state)
{
    static const char json[] =
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|aa)+[bc]\"},\"behavior\":\"Isolated\"}";
    struct tr_match_space space = {0};
    struct tr_pretokenizer *p = NULL;
    struct tr_buf out = {0};
    struct json_t *doc = NULL;
    struct tr_json root;
    struct tr_err err;
    char text[64];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[63] = 'd';
    assert_int_equal(tr_json_parse(&doc, json, strlen(json), &err), TR_OK);
    root = tr_json_root(doc, NULL);
    assert_int_equal(tr_pretokenizer_new(&p, &root, &err), TR_OK);
    assert_int_equal(tr_pretokenizer_run(p, &space, text, sizeof(text), join, &out),
                     TR_EUNSUPPORTED);
    tr_pretokenizer_free(p);
    tr_json_free(doc);
    tr_buf_done(&out);
    tr_match_space_done(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_family),      cmocka_unit_test(test_more_digits_than_a_chunk),
        cmocka_unit_test(test_other_names), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_explosion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
