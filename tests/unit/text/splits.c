/* The scanners, held against the expressions they stand for, which PCRE2 runs: with an empty group
 * in front an expression is not known by sight. */
#include "engine/text/splits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/pattern.h"

static struct tr_pattern *scanners[TR_KNOWN_SPLITS], *expressions[TR_KNOWN_SPLITS];
static struct tr_match_space space;

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < TR_KNOWN_SPLITS; i++) {
        struct tr_buf regex = {0};
        struct tr_err err;

        tr_buf_addf(&regex, "(?:)%s", tr_known_splits[i].regex);
        assert_int_equal(tr_pattern_new(&expressions[i], regex.data, regex.len, false, &err),
                         TR_OK);
        assert_int_equal(tr_pattern_new(&scanners[i], regex.data + 4, regex.len - 4, false, &err),
                         TR_OK);
        tr_buf_done(&regex);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < TR_KNOWN_SPLITS; i++) {
        tr_pattern_free(expressions[i]);
        tr_pattern_free(scanners[i]);
    }
    tr_match_space_done(&space);
    return 0;
}

static void compare(const char *text, size_t n)
{
    for (int i = 0; i < TR_KNOWN_SPLITS; i++) {
        struct tr_matches a = tr_matches_in(scanners[i], &space, text, n);
        struct tr_matches b = tr_matches_in(expressions[i], &space, text, n);
        size_t a_begin = 0, a_end = 0, b_begin = 0, b_end = 0;
        int a_found, b_found;

        do {
            a_found = tr_matches_next(&a, &a_begin, &a_end);
            b_found = tr_matches_next(&b, &b_begin, &b_end);
            if (a_found != b_found || a_begin != b_begin || a_end != b_end)
                fail_msg("split %d of \"%.*s\": %d %zu..%zu, expected %d %zu..%zu", i, (int)n, text,
                         a_found, a_begin, a_end, b_found, b_begin, b_end);
        } while (a_found);
    }
}

/* One character of each kind that the expressions tell apart, and some at the borders of ranges. */
static const char *const chars[] = {
    "a",
    "1",
    " ",
    "\n",
    "\r",
    "\t",
    "'",
    "$",
    "\xC3\xA9",
    "\xCC\x81" /* mark */,
    "\xC2\xBD" /* No */,
    "\xD9\xA3" /* Nd */,
    "\xE4\xBD\xA0",
    "\xE3\x81\x82",
    "\xE0\xB8\x81",
    "\xED\x95\x9C",
    "\xE2\x80\x9C" /* punctuation */,
    "\xE2\x82\xAC" /* symbol */,
    "\xC2\xA0",
    "\xE2\x80\x8D" /* format */,
    "\xF0\x9F\x98\x80",
    "\x7F",
    "\xE0\xBA\x81",
    "\xE1\x9E\x80",
    "\xE1\x80\x80",
    "\xE1\x84\x80",
    "\xEF\xA4\x80",
    "\xEF\xBD\xA6",
    "\xEA\x93\x90",
    "\xE2\xBC\x80",
    "\xE3\x80\x80",
    "\xC2\x85",
    "Z",
    "~",
    "9",
};

static void test_all_short_texts(void **state)
{
    char text[16];

    (void)state;
    for (size_t i = 0; i < TR_ARRAY_LEN(chars); i++) {
        for (size_t j = 0; j < TR_ARRAY_LEN(chars); j++) {
            for (size_t k = 0; k < TR_ARRAY_LEN(chars); k++) {
                strcpy(text, chars[i]);
                strcat(text, chars[j]);
                strcat(text, chars[k]);
                compare(text, strlen(text));
            }
        }
    }
}

static void test_random_texts(void **state)
{
    uint64_t seed = 7;
    char text[512];

    (void)state;
#define RANDOM(below) ((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % (below)
    for (int round = 0; round < 20000; round++) {
        size_t kinds = RANDOM(2) ? TR_ARRAY_LEN(chars) : 8, n = 1 + RANDOM(80);

        text[0] = '\0';
        for (size_t i = 0; i < n; i++)
            strcat(text, chars[RANDOM(kinds)]);
        compare(text, strlen(text));
    }
}

static void test_long_digits(void **state)
{
    char text[4096];

    (void)state;
    memset(text, '7', sizeof(text));
    for (size_t n = 500; n < 530; n++) {
        compare(text, n);
        compare(text, n + 510);
        compare(text, n + 2040);
    }
    text[1021] = 'x';
    text[1022] = ' ';
    compare(text, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_short_texts),
        cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_long_digits),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
