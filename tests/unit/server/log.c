/* Log lines as another program reads them: whole, one a line, in both forms. */
#include "server/log.h"

#include <poll.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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
    /* control characters of two bytes, line separators, and bytes that are no UTF-8; letters stay */
    srv_log(SRV_LOG_WARN, NULL,
            "a\xc2\x9b"
            "31m\xff\xe2\x80\xa8z\xc3\xa9\xc3");
    assert_matches(logged(), " a\\?31m\\?\\?z\xc3\xa9\\?\n$");
}

static void test_fields(void **state)
{
    (void)state;
    for (int json = 0; json < 2; json++) {
        struct tr_buf fields = {0};
        srv_log_setup(SRV_LOG_INFO, json);
        srv_log_number(&fields, "ms", 2, 1.5);
        srv_log_text(&fields, "finish", "stop");
        srv_log_text(&fields, "key", "a b\"c");
        srv_log_text(&fields, "none", "");
        srv_log_with(SRV_LOG_INFO, "r", "GET 200", &fields);
        srv_log_with(SRV_LOG_DEBUG, "r", "below the level", &fields);
        tr_buf_done(&fields);
        assert_matches(
            logged(),
            json ? "^\\{\"time\": \"" TIME "\", \"level\": \"info\", \"request\": \"r\", "
                   "\"message\": \"GET 200\", \"ms\": 1.50, \"finish\": \"stop\", "
                   "\"key\": \"a b\\\\\"c\", \"none\": \"\"\\}\n$"
                 : " info  \\[r\\] GET 200 ms=1\\.50 finish=stop key=\"a b\\\\\"c\" none=\"\"\n$");
    }
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

/* The bytes that the pipe holds now. */
static size_t drain(char *text, size_t size)
{
    size_t n = 0;
    struct pollfd fd = {.fd = pipe_ends[0], .events = POLLIN};
    while (n < size && poll(&fd, 1, 1000) > 0) {
        ssize_t got = read(pipe_ends[0], text + n, size - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    return n;
}

/* Nobody reads: logging goes on, what does not fit is counted, and the log says how much that was. */
static void test_nobody_reads(void **state)
{
    (void)state;
    enum { LINES = 20000, SIZE = 4 << 20 };
    srv_log_setup(SRV_LOG_INFO, false);
    uint64_t before = srv_log_dropped();
    srv_log_start();
    for (int i = 0; i < LINES; i++)
        srv_log(SRV_LOG_INFO, NULL, "line %d, and some more text to fill the ring", i);
    uint64_t dropped = srv_log_dropped() - before;
    assert_in_range(dropped, 1, LINES - 1);

    char *text = malloc(SIZE), note[80];
    size_t n = drain(text, SIZE - 1);
    text[n] = '\0';
    snprintf(note, sizeof note, " warn  %d lines of the log were dropped", (int)dropped);
    assert_non_null(strstr(text, note));
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, LINES - dropped + 1);
    free(text);
    srv_log_stop(10000);
    srv_log(SRV_LOG_INFO, NULL, "straight");
    assert_matches(logged(), "straight\n$");
}

/* The end does not wait for a reader that never comes. */
static void test_stop_does_not_hang(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* a child that hangs is killed, and the test fails */
        srv_log_start();
        for (int i = 0; i < 20000; i++)
            srv_log(SRV_LOG_INFO, NULL, "line %d, and some more text to fill the ring", i);
        srv_log_stop(1);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_message_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stop_does_not_hang, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
