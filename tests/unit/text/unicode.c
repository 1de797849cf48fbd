/* UTF-8 by the table of well-formed sequences, and classes of characters. */
#include "engine/text/unicode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every code point there and back; nothing else is valid. */
static void test_every_character(void **state)
{
    struct tr_buf b = {0};

    (void)state;
    for (uint32_t c = 1; c < 0x110000; c++) {
        uint32_t back = 0;
        size_t n;

        if (c >= 0xD800 && c < 0xE000)
            continue;
        tr_buf_clear(&b);
        tr_utf8_put(&b, c);
        assert_int_equal(tr_utf8_scan(b.data, b.len, &back), b.len);
        assert_int_equal(back, c);
        assert_int_equal(tr_utf8_at(b.data, &n), c);
        assert_int_equal(n, b.len);
        for (size_t k = 1; k < b.len; k++)
            assert_int_equal(tr_utf8_scan(b.data, k, NULL), 0);
        tr_buf_addc(&b, '!');
        assert_int_equal(tr_utf8_before(b.data, n), 0);
        assert_true(tr_utf8_valid(b.data, b.len));
    }
    tr_buf_done(&b);
}

static void test_invalid(void **state)
{
    static const struct {
        const char *bytes;
        int result;
    } cases[] = {
        {"\x80", -1},         {"\xC0\x80", -1},      {"\xC1\xBF", -1}, {"\xE0\x9F\x80", -1},
        {"\xED\xA0\x80", -1}, {"\xF0\x8F\xBF", -1},  {"\xF5", -1},     {"\xF4\x90", -1},
        {"\xE4\xBD!", -2},    {"\xF0\x9F\x98!", -3}, {"\xC3!", -1},    {"\xFF", -1},
    };
    char padded[32];

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        size_t n = strlen(cases[i].bytes);

        assert_int_equal(tr_utf8_scan(cases[i].bytes, n, NULL), cases[i].result);
        for (size_t at = 0; at < 20; at++) {
            memset(padded, 'x', sizeof(padded));
            memcpy(padded + at, cases[i].bytes, n);
            assert_false(tr_utf8_valid(padded, 24));
        }
    }
    assert_true(tr_utf8_valid("", 0));
    assert_true(tr_utf8_valid("a\0b", 3));
}

static void test_classes(void **state)
{
    static const struct {
        uint32_t c;
        unsigned class;
        bool word;
    } cases[] = {
        {'a', TR_CHAR_LETTER, true},
        {'Z', TR_CHAR_LETTER, true},
        {'5', TR_CHAR_DIGIT, true},
        {'_', TR_CHAR_PUNCT, true},
        {'-', TR_CHAR_PUNCT, false},
        {'$', TR_CHAR_SYMBOL, false},
        {'`', TR_CHAR_SYMBOL, false},
        {' ', TR_CHAR_SPACE, false},
        {'\n', TR_CHAR_SPACE | TR_CHAR_BREAK, false},
        {'\r', TR_CHAR_SPACE | TR_CHAR_BREAK, false},
        {'\v', TR_CHAR_SPACE, false},
        {0x1C, 0, false},
        {0x7F, 0, false},
        {0x85, TR_CHAR_SPACE, false},
        {0xA0, TR_CHAR_SPACE, false},
        {0xB2, TR_CHAR_NUMBER, false},
        {0xE9, TR_CHAR_LETTER, true},
        {0x301, TR_CHAR_MARK, true},
        {0x663, TR_CHAR_DIGIT, true},
        {0x180E, 0, false},
        {0x200B, 0, false},
        {0x200D, 0, true},
        {0x203F, TR_CHAR_PUNCT, true},
        {0x2028, TR_CHAR_SPACE, false},
        {0x2167, TR_CHAR_NUMBER, true},
        {0x24D0, TR_CHAR_SYMBOL, true},
        {0x3000, TR_CHAR_SPACE, false},
        {0x4F60, TR_CHAR_LETTER, true},
        {0x1F600, TR_CHAR_SYMBOL, false},
    };

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        if (tr_char_class(cases[i].c) != cases[i].class ||
            tr_char_is_word(cases[i].c) != cases[i].word)
            fail_msg("U+%04X: class %u", cases[i].c, tr_char_class(cases[i].c));
    }
    for (uint32_t c = 0; c < 128; c++) {
        unsigned rest =
            TR_CHAR_SPACE | TR_CHAR_BREAK; /* white space of ASCII are control characters */

        assert_int_equal(tr_char_ascii[c] & ~rest, tr_char_class_slow(c) & ~rest);
    }
}

static void test_normal_forms(void **state)
{
    static const struct {
        enum tr_unicode_form form;
        const char *from, *to;
    } cases[] = {
        {TR_NFC, "e\u0301\u0323", "\u1EB9\u0301"}, {TR_NFD, "\u1E69", "s\u0323\u0307"},
        {TR_NFKC, "\uFB01\u2460", "fi1"},          {TR_NFKD, "\u00BD", "1\u20442"},
        {TR_NFC, "\uAC00\u11A8", "\uAC01"},        {TR_NFC, "", ""},
    };
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        tr_buf_clear(&out);
        assert_int_equal(
            tr_unicode_normalize(cases[i].form, cases[i].from, strlen(cases[i].from), &out), TR_OK);
        assert_string_equal(out.data ? out.data : "", cases[i].to);
    }
    tr_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_normal_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
