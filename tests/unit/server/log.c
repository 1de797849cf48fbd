/* Log lines as another program reads them: whole, one a line, in both forms. */
#include "server/log.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/json.h"

static int pipe_ends[2], saved_stderr;

static int set_up(void **state)
{
    (void)state;
    saved_stderr = dup(STDERR_FILENO);
    return pipe(pipe_ends) < 0 || dup2(pipe_ends[1], STDERR_FILENO) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(pipe_ends[0]);
    return close(pipe_ends[1]);
}

/* What was logged since the last call; at least one byte must have been. */
static const char *logged(void)
{
    static char text[8192];
    ssize_t n = read(pipe_ends[0], text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    return text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t re;
    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    int r = regexec(&re, text, 0, NULL, 0);
    regfree(&re);
    if (r != 0)
        fail_msg("\"%s\" does not match \"%s\"", text, pattern);
}

#define TIME "20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"

static void test_text(void **state)
{
    (void)state;
    srv_log_setup(SRV_LOG_INFO, false);
    srv_log(SRV_LOG_INFO, NULL, "port %d", 80);
    assert_matches(logged(), "^" TIME " info  port 80\n$");
    srv_log(SRV_LOG_ERROR, "req-1", "bad");
    assert_matches(logged(), "^" TIME " error \\[req-1\\] bad\n$");
    srv_log(SRV_LOG_WARN, "a\nb", "x\r\ny\033[2Jz");
    assert_matches(logged(), "^" TIME " warn  \\[a\\?b\\] x\\?\\?y\\?\\[2Jz\n$");
}

static void test_json(void **state)
{
    (void)state;
    srv_log_setup(SRV_LOG_DEBUG, true);
    srv_log(SRV_LOG_DEBUG, "id\"1", "a\nb \xff");
    const char *line = logged();
    assert_true(strchr(line, '\n') == line + strlen(line) - 1);
    struct json_t *doc;
    struct tr_err err;
    const char *s;
    assert_int_equal(tr_json_parse(&doc, line, strlen(line), &err), 0);
    struct tr_json root = tr_json_root(doc, NULL);
    assert_int_equal(tr_json_string(&root, "level", &s, NULL, &err), 0);
    assert_string_equal(s, "debug");
    assert_int_equal(tr_json_string(&root, "request", &s, NULL, &err), 0);
    assert_string_equal(s, "id\"1");
    assert_int_equal(tr_json_string(&root, "message", &s, NULL, &err), 0);
    assert_string_equal(s, "a\nb \xef\xbf\xbd");
    assert_int_equal(tr_json_string(&root, "time", &s, NULL, &err), 0);
    assert_matches(s, "^" TIME "$");
    tr_json_free(doc);
}

static void test_levels(void **state)
{
    (void)state;
    srv_log_setup(SRV_LOG_WARN, false);
    srv_log(SRV_LOG_INFO, NULL, "dropped");
    srv_log(SRV_LOG_DEBUG, NULL, "dropped");
    srv_log(SRV_LOG_WARN, NULL, "kept");
    assert_matches(logged(), "^" TIME " warn  kept\n$");
}

static void test_long_message_is_cut(void **state)
{
    (void)state;
    srv_log_setup(SRV_LOG_INFO, false);
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    srv_log(SRV_LOG_INFO, NULL, "%s", text);
    const char *line = logged();
    assert_in_range(strlen(line), 2000, 2200);
    assert_true(line[strlen(line) - 1] == '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_message_is_cut, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
