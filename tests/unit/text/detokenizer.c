/* Bytes to whole characters, however they are cut. The expected texts are Python's:
 * bytes.decode("utf-8", "replace"). */
#include "engine/text/detokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/unicode.h"

#define R "\xEF\xBF\xBD"

static const struct {
    const char *bytes;
    size_t n;
    const char *text;     /* at a natural end */
    const char *text_cut; /* when the answer was cut; NULL = the same */
} cases[] = {
    {"A\xF0\x9F\x98\x80"
     "B\xE4\xBD\xA0"
     "C",
     10,
     "A\xF0\x9F\x98\x80"
     "B\xE4\xBD\xA0"
     "C",
     NULL},
    {"A\xFF"
     "B\xE4\xBD"
     "C\xC3",
     7, "A" R "B" R "C" R, "A" R "B" R "C"},
    {"\xF0\x9F\x98", 3, R, ""},
    {"\xF0\x9F\x41", 3, R "A", NULL},
    {"\xE0\x80\x80", 3, R R R, NULL},
    {"\xED\xA0\x80", 3, R R R, NULL},
    {"\xC0\xAF", 2, R R, NULL},
    {"\xF4\x90\x80\x80", 4, R R R R, NULL},
    {"\xF5\x80", 2, R R, NULL},
    {"\xE4\xE4\xBD\xA0", 4, R "\xE4\xBD\xA0", NULL},
    {"\xF0\x9F\xF0\x9F\x98\x80", 6, R "\xF0\x9F\x98\x80", NULL},
    {"\x80\x80", 2, R R, NULL},
    {"\xE4\xBD\xF0", 3, R R, R},
};

static void check(const struct tr_buf *out, const char *expected)
{
    assert_int_equal(out->len, strlen(expected));
    assert_memory_equal(out->data ? out->data : "", expected, out->len);
}

static void test_every_cut(void **state)
{
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        size_t n = cases[i].n;

        for (unsigned cuts = 0; cuts < 1u << (n - 1); cuts++) {
            for (int cut = 0; cut < 2; cut++) {
                struct tr_detok d = {0};
                size_t from = 0;

                tr_buf_clear(&out);
                for (size_t to = 1; to <= n; to++) {
                    if (to < n && !(cuts >> (to - 1) & 1))
                        continue;
                    tr_detok_bytes(&d, cases[i].bytes + from, to - from, &out);
                    assert_true(tr_utf8_valid(out.data ? out.data : "", out.len));
                    from = to;
                }
                tr_detok_end(&d, cut, &out);
                check(&out, cut && cases[i].text_cut ? cases[i].text_cut : cases[i].text);
            }
        }
    }
    tr_buf_done(&out);
}

static void test_replace(void **state)
{
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        tr_buf_clear(&out);
        struct tr_detok d = {0};
        tr_detok_bytes(&d, cases[i].bytes, cases[i].n, &out);
        tr_detok_end(&d, false, &out);
        check(&out, cases[i].text);
    }
    tr_buf_done(&out);
}

/* A token's place is that of the character its first byte belongs to. */
static void test_places(void **state)
{
    static const struct {
        const char *bytes;
        size_t place;
    } tokens[] = {
        {"A", 0},
        {"\xF0\x9F", 1},
        {"\x98", 1},
        {"\x80"
         "B",
         1},
        {"\xE4\xBD", 3},
        {"\xA0\xC3", 3},
        {"C", 5},
        {"", 6},
        {"\xE4", 6},
        {"\xE4\xBD", 7},
        {"!", 8},
        {"?", 9},
    };
    struct tr_detok d = {0};
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(tokens); i++) {
        size_t place = tr_detok_bytes(&d, tokens[i].bytes, strlen(tokens[i].bytes), &out);

        if (place != tokens[i].place)
            fail_msg("token %zu: place %zu, expected %zu", i, place, tokens[i].place);
    }
    check(&out, "A\xF0\x9F\x98\x80"
                "B\xE4\xBD\xA0" R "C" R R "!?");
    assert_int_equal(d.n_chars, 10);
    tr_buf_done(&out);
}

/* ids 0 to 4: special tokens; 5 + b: byte b; 272: E4 BD, in the tokenizer of the golden files. */
static void test_tokens(void **state)
{
    static const struct {
        int32_t id;
        const char *name, *as_bytes;
    } names[] = {
        {268, "hello", "bytes:\\x68\\x65\\x6c\\x6c\\x6f"},
        {272, "bytes:\\xe4\\xbd", "bytes:\\xe4\\xbd"},
        {269, "  ", "bytes:\\x20\\x20"},
        {3, "<|im_end|>", "bytes:\\x3c\\x7c\\x69\\x6d\\x5f\\x65\\x6e\\x64\\x7c\\x3e"},
    };
    struct tr_tokenizer *t = NULL;
    struct tr_buf out = {0};
    struct tr_detok d = {0};
    struct tr_err err;

    (void)state;
    assert_int_equal(tr_tokenizer_load(&t, "tests/golden/plain", 285, &err), TR_OK);
    for (size_t i = 0; i < TR_ARRAY_LEN(names); i++) {
        tr_buf_clear(&out);
        tr_detok_name(t, names[i].id, false, &out);
        check(&out, names[i].name);
        tr_buf_clear(&out);
        tr_detok_name(t, names[i].id, true, &out);
        check(&out, names[i].as_bytes);
    }
    tr_buf_clear(&out);
    tr_detok_name(t, 100000, true, &out);
    check(&out, "");

    tr_detok_token(&d, t, 268, true, &out);
    tr_detok_token(&d, t, 3, true, &out);
    assert_int_equal(tr_detok_token(&d, t, 3, false, &out), 5);
    tr_detok_token(&d, t, 100000, false, &out);
    check(&out, "hello<|im_end|>");
    tr_buf_done(&out);
    tr_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
