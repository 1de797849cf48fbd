/* Stop strings: which one is found, where the text is cut, and how much is held back meanwhile. */
#include "engine/text/stops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tr_stops *make(bool include, int n, const char *const *strings)
{
    size_t lengths[8];
    struct tr_stops *s = NULL;

    for (int i = 0; i < n; i++)
        lengths[i] = strlen(strings[i]);
    assert_int_equal(tr_stops_new(&s, strings, lengths, n, include), TR_OK);
    return s;
}

/* What a scan releases of a text that comes in pieces of `step` bytes. */
static int scan(const struct tr_stops *set, const char *text, size_t n, size_t step,
                struct tr_buf *out)
{
    struct tr_stop_scan s;
    int stop = -1;

    tr_buf_clear(out);
    assert_int_equal(tr_stop_scan_init(&s, set), TR_OK);
    for (size_t i = 0; i < n; i += step)
        stop = tr_stop_scan_add(&s, text + i, TR_MIN(step, n - i), out);
    if (stop < 0)
        tr_stop_scan_end(&s, out);
    tr_stop_scan_done(&s);
    return stop;
}

static void test_cut(void **state)
{
    static const struct {
        const char *text, *stops[4], *before, *after; /* text kept without and with the match */
        int stop;
    } cases[] = {
        {"hello world", {"xyz"}, "hello world", "hello world", -1},
        {"hello world", {"o w"}, "hell", "hello w", 0},
        {"hello", {"hello"}, "", "hello", 0},
        {"hello", {"hello!"}, "hello", "hello", -1},
        {"aaab", {"aab"}, "a", "aaab", 0},
        {"ababac", {"abac"}, "ab", "ababac", 0},
        {"abcd", {"bcd", "bc"}, "a", "abc", 1},     /* the earliest end */
        {"abcd", {"c", "abc", "bc"}, "", "abc", 1}, /* of equal ends the earliest start */
        {"xabcabd", {"abd", "abcabx"}, "xabc", "xabcabd", 0},
        {"one\n\ntwo", {"\n\n", "two"}, "one", "one\n\n", 0},
        {"\xE4\xBD\xA0\xE5\xA5\xBD!",
         {"\xE5\xA5\xBD"},
         "\xE4\xBD\xA0",
         "\xE4\xBD\xA0\xE5\xA5\xBD",
         0},
        {"stop", {"s", "st"}, "", "s", 0},
    };
    struct tr_buf out = {0};

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        int n = 0;

        while (n < 4 && cases[i].stops[n])
            n++;
        for (int include = 0; include < 2; include++) {
            const char *expected = include ? cases[i].after : cases[i].before;
            struct tr_stops *set = make(include, n, cases[i].stops);

            for (size_t step = 1; step <= strlen(cases[i].text); step++) {
                int stop = scan(set, cases[i].text, strlen(cases[i].text), step, &out);

                if (stop != cases[i].stop || out.len != strlen(expected) ||
                    memcmp(out.data ? out.data : "", expected, out.len) != 0)
                    fail_msg("\"%s\" in steps of %zu: stop %d, \"%.*s\"", cases[i].text, step, stop,
                             (int)out.len, out.data);
            }
            tr_stops_free(set);
        }
    }
    tr_buf_done(&out);
}

/* Is some proper beginning of length k or more the end of the text? */
static size_t longest_begun(const char *text, size_t n, const char *const *stops, int n_stops)
{
    size_t most = 0;

    for (int j = 0; j < n_stops; j++) {
        for (size_t k = 1; k < strlen(stops[j]) && k <= n; k++) {
            if (memcmp(text + n - k, stops[j], k) == 0)
                most = TR_MAX(most, k);
        }
    }
    return most;
}

/* On random texts over two letters: the first match by brute force, and exactly what may still
 * become a match is held back after each byte. */
static void test_random(void **state)
{
    struct tr_buf out = {0};
    uint64_t seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[33] = "", strings[3][7] = {{0}};
        const char *stops[3] = {strings[0], strings[1], strings[2]};
        struct tr_stops *set;
        struct tr_stop_scan s;
        size_t n = 32, kept = 32;
        int expected = -1, found = -1;

#define RANDOM(below) ((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % (below)
        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + RANDOM(2));
        for (int j = 0; j < 3; j++) {
            size_t length = 1 + RANDOM(6);

            for (size_t i = 0; i < length; i++)
                strings[j][i] = (char)('a' + RANDOM(2));
        }
        for (size_t end = 1; end <= n && expected < 0; end++) {
            for (int j = 0; j < 3; j++) {
                size_t k = strlen(stops[j]);

                if (k <= end && memcmp(text + end - k, stops[j], k) == 0 &&
                    (expected < 0 || end - k < kept)) {
                    expected = j;
                    kept = end - k;
                }
            }
        }
        set = make(false, 3, stops);
        assert_int_equal(tr_stop_scan_init(&s, set), TR_OK);
        tr_buf_clear(&out);
        for (size_t i = 0; i < n && found < 0; i++) {
            found = tr_stop_scan_add(&s, text + i, 1, &out);
            if (found < 0)
                assert_int_equal(out.len, i + 1 - longest_begun(text, i + 1, stops, 3));
        }
        if (found < 0)
            tr_stop_scan_end(&s, &out);
        assert_int_equal(found, expected);
        assert_int_equal(out.len, kept);
        assert_memory_equal(out.data ? out.data : "", text, out.len);
        tr_stop_scan_done(&s);
        tr_stops_free(set);
    }
    tr_buf_done(&out);
}

static void test_no_stops(void **state)
{
    struct tr_buf out = {0};

    (void)state;
    assert_int_equal(scan(NULL, "text", 4, 3, &out), -1);
    assert_string_equal(out.data, "text");
    tr_buf_done(&out);
}

static void test_after_the_end(void **state)
{
    static const char *const stops[] = {"b"};
    struct tr_stops *set = make(false, 1, stops);
    struct tr_buf out = {0};
    struct tr_stop_scan s;

    (void)state;
    assert_int_equal(tr_stop_scan_init(&s, set), TR_OK);
    assert_int_equal(tr_stop_scan_add(&s, "abc", 3, &out), 0);
    assert_int_equal(tr_stop_scan_add(&s, "more", 4, &out), 0);
    tr_stop_scan_end(&s, &out);
    assert_string_equal(out.data, "a");
    tr_stop_scan_done(&s);
    tr_stops_free(set);
    tr_buf_done(&out);
}

static void test_empty_string_is_refused(void **state)
{
    static const char *const strings[] = {"a", ""};
    static const size_t lengths[] = {1, 0};
    struct tr_stops *set = NULL;

    (void)state;
    assert_int_equal(tr_stops_new(&set, strings, lengths, 2, false), TR_EINVAL);
    assert_null(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_no_stops),
        cmocka_unit_test(test_after_the_end),
        cmocka_unit_test(test_empty_string_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
