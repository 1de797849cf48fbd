/* The growing buffer: what stands in it, its NUL, and that a failed append is remembered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/buf.h"

static void test_appends_in_order(void **state)
{
    (void)state;
    struct tr_buf b = {0};
    tr_buf_adds(&b, "one ");
    tr_buf_add(&b, "two\0x", 5);
    tr_buf_addc(&b, ' ');
    tr_buf_addf(&b, "%d %s", 3, "four");
    assert_int_equal(b.len, 16);
    assert_memory_equal(b.data, "one two\0x 3 four", 17);
    assert_false(b.oom);
    tr_buf_done(&b);
    assert_true(!b.data && b.len == 0 && b.cap == 0);
}

/* Byte by byte and in one formatted piece longer than any block it has. */
static void test_grows_to_any_length(void **state)
{
    (void)state;
    struct tr_buf b = {0};
    for (int i = 0; i < 100000; i++) {
        tr_buf_addc(&b, (char)('a' + i % 26));
        assert_true(b.len == (size_t)i + 1 && b.cap > b.len && b.data[b.len] == '\0');
    }
    for (int i = 0; i < 100000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    struct tr_buf twice = {0};
    tr_buf_addf(&twice, "%s%s", b.data, b.data);
    assert_int_equal(twice.len, 200000);
    assert_memory_equal(twice.data + 100000, b.data, 100001);
    tr_buf_done(&b);
    tr_buf_done(&twice);
}

static void test_reserved_room_is_the_writers(void **state)
{
    (void)state;
    struct tr_buf b = {0};
    char *at = tr_buf_reserve(&b, 300);
    assert_non_null(at);
    memset(at, 'x', 300);
    assert_int_equal(b.len, 0);
    b.len += 300;
    tr_buf_addc(&b, '!');
    assert_memory_equal(b.data + 298, "xx!", 4);
    tr_buf_done(&b);
}

static void test_drops_from_the_front(void **state)
{
    (void)state;
    struct tr_buf b = {0};
    tr_buf_adds(&b, "0123456789");
    tr_buf_drop(&b, 0);
    tr_buf_drop(&b, 4);
    assert_string_equal(b.data, "456789");
    assert_int_equal(b.len, 6);
    tr_buf_drop(&b, 6);
    assert_int_equal(b.len, 0);
    tr_buf_adds(&b, "again");
    assert_string_equal(b.data, "again");
    tr_buf_done(&b);
}

/* What cannot be had sets the flag; nothing is appended until it is cleared, and what stood there stays. */
static void test_failure_sticks(void **state)
{
    (void)state;
    struct tr_buf b = {0};
    tr_buf_adds(&b, "kept");
    assert_null(tr_buf_reserve(&b, SIZE_MAX));
    assert_null(tr_buf_reserve(&b, SIZE_MAX - 4));
    assert_true(b.oom);
    tr_buf_adds(&b, " lost");
    tr_buf_addf(&b, "%d", 1);
    assert_null(tr_buf_reserve(&b, 1));
    assert_int_equal(b.len, 4);
    assert_string_equal(b.data, "kept");
    size_t cap = b.cap;
    tr_buf_clear(&b);
    assert_true(!b.oom && b.len == 0 && b.cap == cap);
    tr_buf_adds(&b, "new");
    assert_string_equal(b.data, "new");
    tr_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends_in_order),
        cmocka_unit_test(test_grows_to_any_length),
        cmocka_unit_test(test_reserved_room_is_the_writers),
        cmocka_unit_test(test_drops_from_the_front),
        cmocka_unit_test(test_failure_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
