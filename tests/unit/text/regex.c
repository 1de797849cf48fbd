/* What an expression is rewritten to. That both mean the same is tested with Hugging Face tokenizers
 * in tests/golden/test_tokenizers.py. */
#include "engine/text/regex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_rewritten(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},
        {"ab|c*?[^x-z]+(?:d)", "ab|c*?[^x-z]+(?:d)"},
        {"\\u4E00[\\u0e00-\\u0E7f]", "\\x{4E00}[\\x{0e00}-\\x{0E7f}]"},
        {"\\x41\\x{1F600}\\n\\A\\z\\G\\d", "\\x{41}\\x{1F600}\\n\\A\\z\\G\\d"},
        {"\\s[\\S]", "\\p{wspace}[\\P{wspace}]"},
        {"\\p{Nd}\\p{^L}\\P{^L}", "\\p{Nd}\\P{L}\\p{L}"},
        {"\\p{Han}[\\P{Latin}]", "\\p{sc:Han}[\\P{sc:Latin}]"},
        {"(?m:.)(?i)a", "(?s:.)(?i)a"},
        {"a{3}+", "(?:a{3})+"},
        {"x\\p{Nd}{3}+\\z", "x(?:\\p{Nd}{3})+\\z"},
        {"(a(b)){2,3}+c", "(?:(a(b)){2,3})+c"},
        {"[ab]{2}?", "(?:[ab]{2})?"},
        {"a{2,3}?b{,4}", "a{2,3}?b{0,4}"},
        {"a{x}{", "a\\{x}\\{"},
        {"a++b?+", "a++b?+"},
        {"\\h[\\h]\\v", "[0-9A-Fa-f][0-9A-Fa-f]\\x{B}"},
        {"\\\xE4\xBD\xA0", "\\\xE4\xBD\xA0"},
    };
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_err err;

        tr_buf_clear(&out);
        assert_int_equal(tr_regex_rewrite(cases[i].from, strlen(cases[i].from), &out, &err), TR_OK);
        assert_string_equal(out.data ? out.data : "", cases[i].to);
    }
    tr_buf_done(&out);
}

static void test_refused(void **state)
{
    static const char *const cases[] = {
        "[a[b]]", "[a&&b]", "[[:alpha:]]", "[]a]", "[\\W]",   "[\\H]", "\\y",   "\\u12",
        "\\x80",  "\\p{L",  "a)",          "\\",   "(?x: a)", "\xFF",  "[\\B]", "(*ACCEPT)",
    };
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_err err = {0};

        if (tr_regex_rewrite(cases[i], strlen(cases[i]), &out, &err) != TR_EFORMAT)
            fail_msg("%s is not refused", cases[i]);
        assert_int_equal(err.code, TR_EFORMAT);
    }
    tr_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rewritten),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
