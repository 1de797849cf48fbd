/* The one map of errors: a code's status, and its type in both forms of refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/problem.h"

static void test_codes_have_their_problems(void **state)
{
    (void)state;
    static const struct {
        int code, status;
        const char *type, *messages_type;
    } cases[] = {
        {TR_EINVAL, 400, "invalid_request_error", "invalid_request_error"},
        {TR_ENOTFOUND, 404, "not_found_error", "not_found_error"},
        {TR_EQUEUE, 429, "rate_limit_error", "rate_limit_error"},
        {TR_ECANCELED, 503, "server_error", "overloaded_error"},
        {TR_EDRAIN, 503, "server_error", "overloaded_error"},
        {TR_EIO, 500, "server_error", "api_error"},
        {1, 500, "server_error", "api_error"},
        {-100000, 500, "server_error", "api_error"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        const struct srv_problem_info *info = &srv_problems[srv_problem_of(cases[i].code)];
        assert_int_equal(info->status, cases[i].status);
        assert_string_equal(info->type, cases[i].type);
        assert_string_equal(info->messages_type, cases[i].messages_type);
    }
}

static void test_every_problem_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < SRV_N_PROBLEMS; i++)
        assert_true(srv_problems[i].status >= 400 && srv_problems[i].type &&
                    srv_problems[i].messages_type);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_have_their_problems),
        cmocka_unit_test(test_every_problem_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
