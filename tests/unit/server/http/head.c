/* Header blocks that two readers may understand differently. */
#include "server/http/head.c" /* for its statics */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {{NULL, 0},
                 {"0", 0},
                 {"17", 17},
                 {"18446744073709551615", UINT64_MAX},
                 {"18446744073709551616", UINT64_MAX},
                 {"99999999999999999999999", UINT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct srv_head h = {.content_length = cases[i].text};
        assert_true(length_of(&h) == cases[i].want);
    }
}

static void test_faults(void **state)
{
    (void)state;
    const struct {
        struct srv_head head;
        const char *version, *uri;
        int bad;
    } cases[] = {
        {{.n_host = 1}, "HTTP/1.1", "/", 0},
        {{.n_host = 1, .broken = true}, "HTTP/1.1", "/", 1},
        {{.n_host = 1, .content_length = "5", .n_content_length = 1}, "HTTP/1.1", "/", 0},
        {{.n_host = 1, .content_length = "5", .n_content_length = 2}, "HTTP/1.1", "/", 1},
        {{.n_host = 1, .content_length = "+5", .n_content_length = 1}, "HTTP/1.1", "/", 1},
        {{.n_host = 1, .content_length = "5,5", .n_content_length = 1}, "HTTP/1.1", "/", 1},
        {{.n_host = 1, .transfer_encoding = "Chunked", .n_transfer_encoding = 1},
         "HTTP/1.1",
         "/",
         0},
        {{.n_host = 1, .transfer_encoding = "chunked", .n_transfer_encoding = 2},
         "HTTP/1.1",
         "/",
         1},
        {{.n_host = 1, .transfer_encoding = "gzip, chunked", .n_transfer_encoding = 1},
         "HTTP/1.1",
         "/",
         1},
        {{.n_host = 1, .transfer_encoding = "chunked", .n_transfer_encoding = 1},
         "HTTP/1.0",
         "/",
         1},
        {{.n_host = 1,
          .transfer_encoding = "chunked",
          .n_transfer_encoding = 1,
          .content_length = "5",
          .n_content_length = 1},
         "HTTP/1.1",
         "/",
         1},
        {{.n_host = 1, .content_length = "", .n_content_length = 1}, "HTTP/1.1", "/", 1},
        {{.n_host = 2}, "HTTP/1.1", "/", 1},
        {{.n_host = 0}, "HTTP/1.1", "/", 1},
        {{.n_host = 0}, "HTTP/1.0", "/", 0},
        {{.n_host = 1}, "HTTP/1.1", "/a b", 1},
        {{.n_host = 1}, "HTTP/1.1", "/a%00b", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct srv_line line = {"GET", cases[i].version, cases[i].uri};
        const char *fault = fault_of(&cases[i].head, &line);
        assert_int_equal(fault != NULL, cases[i].bad);
    }
}

/* RFC 6750: the scheme's name in any case, one or more spaces. The header of Anthropic's clients stands in. */
static void test_keys(void **state)
{
    (void)state;
    static const struct {
        const char *authorization, *api_key, *want;
    } cases[] = {
        {NULL, NULL, NULL},         {"Bearer k1", NULL, "k1"},  {"bearer   k1", NULL, "k1"},
        {"Bearer ", NULL, NULL},    {"Basic dTpw", NULL, NULL}, {"Bearer", NULL, NULL},
        {NULL, "k2", "k2"},         {NULL, "", NULL},           {"Bearer k1", "k2", "k1"},
        {"Basic dTpw", "k2", "k2"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct srv_head head = {.authorization = cases[i].authorization,
                                .api_key = cases[i].api_key};
        const char *key = key_of(&head);
        assert_int_equal(key != NULL, cases[i].want != NULL);
        if (key)
            assert_string_equal(key, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
