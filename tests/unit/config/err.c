/* Errors: the map of codes, and texts that are cut at a character's border. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/err.h"

static void test_the_map(void **state)
{
    (void)state;
    assert_string_equal(tr_err_text(TR_OK), "ok");
    const int codes[] = {TR_EINVAL, TR_ENOMEM, TR_EQUEUE, TR_EDRAIN, TR_EINTERNAL};
    for (int i = 0; i < (int)TR_ARRAY_LEN(codes); i++) {
        assert_true(codes[i] < 0 && *tr_err_text(codes[i]));
        for (int j = 0; j < i; j++)
            assert_true(codes[i] != codes[j]);
    }
}

static void test_unknown_codes_are_internal(void **state)
{
    (void)state;
    const int codes[] = {1, 12345, TR_EINTERNAL - 1, -100000};
    for (int i = 0; i < (int)TR_ARRAY_LEN(codes); i++) {
        assert_string_equal(tr_err_text(codes[i]), tr_err_text(TR_EINTERNAL));
    }
}

static void test_set_returns_its_code(void **state)
{
    (void)state;
    struct tr_err err = {0};
    assert_int_equal(tr_err_set(&err, TR_EINVAL, "n", "%d is not %s", 7, "even"), TR_EINVAL);
    assert_int_equal(err.code, TR_EINVAL);
    assert_string_equal(err.param, "n");
    assert_string_equal(err.msg, "7 is not even");
    tr_err_set(&err, TR_EIO, NULL, "x");
    assert_string_equal(err.param, "");
    assert_int_equal(tr_err_set(NULL, TR_EIO, "n", "nobody reads it"), TR_EIO);
}

/* Texts of characters of two, three and four bytes, at every offset to the end of the room. */
static void test_long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    const char *characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\xA6\x8A"};
    for (int c = 0; c < 3; c++) {
        size_t size = strlen(characters[c]);
        for (size_t lead = 0; lead < size; lead++) {
            char text[1024] = "";
            memset(text, 'x', lead);
            for (size_t n = lead; n + size < sizeof text; n += size)
                memcpy(text + n, characters[c], size + 1);
            struct tr_err err;
            tr_err_set(&err, TR_EINVAL, text, "%s", text);
            const char *cut[] = {err.msg, err.param};
            const size_t room[] = {sizeof err.msg, sizeof err.param};
            for (int i = 0; i < 2; i++) {
                size_t n = strlen(cut[i]);
                assert_memory_equal(cut[i], text, n);
                assert_int_equal((n - lead) % size, 0);
                assert_true(n + size >= room[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_map),
        cmocka_unit_test(test_unknown_codes_are_internal),
        cmocka_unit_test(test_set_returns_its_code),
        cmocka_unit_test(test_long_texts_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
