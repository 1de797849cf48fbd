/* The table of tensors: sorted, searched, names that fit a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/checkpoint/source.h"

#define FILE_OF_TEST "tests/golden/plain/config.json"

static int fill(struct tr_source *s, const char *const *names, size_t n)
{
    struct tr_err err;
    int file;
    assert_int_equal(tr__source_init(s, &err), 0);
    assert_int_equal(tr__source_add_file(s, FILE_OF_TEST, &file, &err), 0);
    for (size_t i = 0; i < n; i++) {
        struct tr_tensor t = {.file = file, .offset = i};
        assert_int_equal(tr__source_add(s, &t, names[i], strlen(names[i]), &err), 0);
    }
    return tr__source_seal(s, &err);
}

static void finds_each_and_no_other(void **state)
{
    static const char *const names[] = {"b", "a.10", "a.2", "a", "zz", "a.1"};
    struct tr_source s;
    (void)state;
    for (size_t n = 0; n <= TR_ARRAY_LEN(names); n++) {
        assert_int_equal(fill(&s, names, n), 0);
        for (size_t i = 0; i < TR_ARRAY_LEN(names); i++) {
            const struct tr_tensor *t = tr__source_find(&s, names[i]);
            assert_true((t != NULL) == (i < n));
            if (t)
                assert_int_equal(t->offset, i);
        }
        assert_null(tr__source_find(&s, ""));
        assert_null(tr__source_find(&s, "a."));
        assert_null(tr__source_find(&s, "zzz"));
        tr__source_done(&s);
    }
}

static void refuses_a_name_twice(void **state)
{
    static const char *const names[] = {"x", "y", "x"};
    struct tr_source s;
    (void)state;
    assert_int_equal(fill(&s, names, 3), TR_EFORMAT);
    tr__source_done(&s);
}

static void refuses_names_that_can_not_be_shown(void **state)
{
    static const struct {
        const char *name;
        size_t n;
    } bad[] = {{"", 0}, {"a b", 3}, {"a\n", 2}, {"a\0b", 3}, {"\x7f", 1}, {"\xc3\xa4", 2}};
    char long_name[TR_MAX_NAME + 1];
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(bad); i++)
        assert_false(tr__name_printable(bad[i].name, bad[i].n));
    memset(long_name, 'x', sizeof long_name);
    assert_true(tr__name_printable(long_name, TR_MAX_NAME));
    assert_false(tr__name_printable(long_name, TR_MAX_NAME + 1));
}

static void counts_elements_up_to_63_bits(void **state)
{
    static const struct {
        int n_dims;
        uint64_t dims[3];
        bool fits;
        uint64_t elements;
    } cases[] = {
        {0, {0}, true, 1},
        {1, {7}, true, 7},
        {3, {2, 3, 5}, true, 30},
        {2, {0, UINT64_MAX}, true, 0},
        {1, {INT64_MAX}, true, INT64_MAX},
        {1, {(uint64_t)INT64_MAX + 1}, false, 0},
        {2, {INT64_MAX, 2}, false, 0},
        {2, {((uint64_t)1 << 42) + 1, 1 << 22}, false, 0},
        {2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_tensor t = {.n_dims = cases[i].n_dims};
        uint64_t elements = 99;
        memcpy(t.dims, cases[i].dims, sizeof cases[i].dims);
        assert_true(tr__tensor_elements(&t, &elements) == cases[i].fits);
        assert_true(elements == (cases[i].fits ? cases[i].elements : 99));
    }
}

static void lists_names_until_they_do_not_fit(void **state)
{
    struct tr_names names = {0};
    char rest[32], long_name[200];
    (void)state;
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    tr__names_add(&names, "first");
    assert_string_equal(names.text, "first");
    assert_string_equal(tr__names_rest(&names, rest), "");
    tr__names_add(&names, long_name);
    tr__names_add(&names, long_name);
    tr__names_add(&names, "short");
    assert_int_equal(names.n, 4);
    assert_int_equal(names.shown, 2);
    assert_int_equal(strlen(names.text), 5 + 2 + 199);
    assert_string_equal(tr__names_rest(&names, rest), " and 2 more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_each_and_no_other),
        cmocka_unit_test(refuses_a_name_twice),
        cmocka_unit_test(refuses_names_that_can_not_be_shown),
        cmocka_unit_test(counts_elements_up_to_63_bits),
        cmocka_unit_test(lists_names_until_they_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
