/* Content hashes: XXH3-128's published values, links of a chain, and that they tell things apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/hash.h"

/* As xxhsum -H2 prints them: the high half first. */
static void test_published_values(void **state)
{
    (void)state;
    assert_true(tr_hash_equal(
        tr_hash("", 0), (struct tr_hash){.hi = 0x99aa06d3014798d8, .lo = 0x6001c324468d497f}));
    assert_true(tr_hash_equal(
        tr_hash("a", 1), (struct tr_hash){.hi = 0xa96faf705af16834, .lo = 0xe6c632b61e964e1f}));
}

/* A link is the hash of the chain so far followed by the bytes, however long they are. */
static void test_a_link_hashes_chain_and_bytes(void **state)
{
    (void)state;
    char text[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    struct tr_hash chain = tr_hash("chain", 5);
    for (size_t n = 0; n <= sizeof text; n += 37) {
        char whole[sizeof chain + sizeof text];
        memcpy(whole, &chain, sizeof chain);
        memcpy(whole + sizeof chain, text, n);
        assert_true(tr_hash_equal(tr_hash_link(chain, text, n), tr_hash(whole, sizeof chain + n)));
    }
}

static void test_one_bit_tells_apart(void **state)
{
    (void)state;
    char text[64] = {0};
    struct tr_hash zero = tr_hash(text, sizeof text);
    for (int bit = 0; bit < 8 * (int)sizeof text; bit++) {
        text[bit / 8] = (char)(1 << bit % 8);
        struct tr_hash h = tr_hash(text, sizeof text);
        text[bit / 8] = 0;
        assert_true(h.lo != zero.lo && h.hi != zero.hi);
    }
    assert_false(tr_hash_equal(tr_hash_link(zero, "ab", 2),
                               tr_hash_link(tr_hash_link(zero, "a", 1), "b", 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_values),
        cmocka_unit_test(test_a_link_hashes_chain_and_bytes),
        cmocka_unit_test(test_one_bit_tells_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
