/*
 * The whole server over real sockets, with a test double for the engine: what a real engine does once in a year
 * (failing in the middle of an answer, standing still), and a thousand streams at once.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mock_engine.h"
#include "server/api/routes.h"
#include "server/log.h"
#include "server/loop.h"

#define ADDRESS "/tmp/trinityd-test-%d.sock"

struct daemon {
    pid_t pid;
    char path[64];
};

/* A child that serves on a Unix socket; `mock` is set before. */
static void start(struct daemon *d)
{
    fflush(NULL);
    snprintf(d->path, sizeof d->path, ADDRESS, (int)getpid());
    d->pid = fork();
    assert_true(d->pid >= 0);
    if (d->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        char program[] = "trinityd", port[] = "--port=0", model[] = "--model=config/demo";
        char path[96];
        snprintf(path, sizeof path, "--unix-socket=%s", d->path);
        char *argv[] = {program, port, model, path, NULL}, *envp[] = {NULL};
        struct tr_options options;
        struct tr_err err;
        if (tr_options_parse(&options, 4, argv, envp, &err) < 0) {
            fprintf(stderr, "%s\n", err.msg);
            exit(2);
        }
        srv_log_setup(SRV_LOG_ERROR, false);
        int status = srv_run(&options, srv_routes, srv_n_routes, NULL);
        tr_options_done(&options);
        exit(status);
    }
}

static int dial(const struct daemon *d)
{
    struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } addr = {.family = AF_UNIX};
    memcpy(addr.path, d->path, strlen(d->path) + 1);
    for (int i = 0; i < 3000; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
            return fd;
        close(fd);
        usleep(10000);
    }
    fail_msg("the daemon does not listen");
    return -1;
}

static void send_request(int fd, const char *method, const char *path, const char *body)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, strlen(body), body);
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
}

/* Everything until the daemon closes. */
static char *read_answer(int fd)
{
    struct tr_buf b = {0};
    for (;;) {
        char *p = tr_buf_reserve(&b, 65536);
        assert_non_null(p);
        ssize_t n = recv(fd, p, 65536, 0);
        if (n <= 0)
            break;
        b.len += (size_t)n;
    }
    close(fd);
    tr_buf_addc(&b, '\0');
    return b.data;
}

static char *ask(const struct daemon *d, const char *method, const char *path, const char *body)
{
    int fd = dial(d);
    send_request(fd, method, path, body);
    return read_answer(fd);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

/* The port opens before the load has ended. */
static void wait_loaded(const struct daemon *d)
{
    for (bool loaded = false; !loaded;) {
        char *text = ask(d, "GET", "/v1/models", "");
        loaded = strncmp(text, "HTTP/1.1 200 ", 13) == 0;
        free(text);
    }
}

static void stop(const struct daemon *d)
{
    int status;
    assert_int_equal(kill(d->pid, SIGTERM), 0);
    assert_int_equal(waitpid(d->pid, &status, 0), d->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A failure after three tokens: three chunks, one error event, the end of the stream and of the connection. */
static void test_fault_in_a_stream(void **state)
{
    (void)state;
    struct daemon d;
    mock = (struct mock){.step_us = 1000, .fail_after = 3};
    start(&d);
    wait_loaded(&d);
    char *text = ask(&d, "POST", "/v1/completions",
                     "{\"prompt\":\"Once upon a time\",\"max_tokens\":9,\"stream\":true}");
    assert_int_equal(strncmp(text, "HTTP/1.1 200 ", 13), 0);
    assert_int_equal(count(text, "\"choices\""), 3);
    assert_int_equal(count(text, "data: {\"error\":{\"message\":\"a fault was injected\""), 1);
    assert_int_equal(count(text, "\"type\":\"server_error\""), 1);
    assert_int_equal(count(text, "data: [DONE]\n\n"), 1);
    free(text);
    text = ask(&d, "POST", "/v1/completions", "{\"prompt\":\"Once upon a time\",\"max_tokens\":9}");
    assert_int_equal(strncmp(text, "HTTP/1.1 500 ", 13), 0);
    free(text);
    text = ask(&d, "POST", "/v1/completions", "{\"prompt\":\"Once upon a time\",\"max_tokens\":3}");
    assert_int_equal(strncmp(text, "HTTP/1.1 200 ", 13), 0);
    free(text);
    stop(&d);
}

static void test_engine_that_stands_still(void **state)
{
    (void)state;
    static const char *const paths[] = {"/health", "/readyz", "/livez", "/ping"};
    struct daemon d;
    mock = (struct mock){.step_us = 1000, .stuck = true};
    start(&d);
    wait_loaded(&d);
    for (size_t i = 0; i < TR_ARRAY_LEN(paths); i++) {
        char *text = ask(&d, "GET", paths[i], "");
        assert_int_equal(strncmp(text, "HTTP/1.1 503 ", 13), 0);
        assert_int_equal(count(text, "\"code\":\"engine_stalled\""), 1);
        free(text);
    }
    stop(&d);
}

/* While a load takes its time: alive, not ready, and everything else says when to come again. */
static void test_loading(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        int status;
    } asked[] = {
        {"GET", "/livez", 200},           {"GET", "/version", 200},   {"GET", "/metrics", 200},
        {"GET", "/health", 503},          {"GET", "/readyz", 503},    {"GET", "/v1/models", 503},
        {"POST", "/v1/completions", 503}, {"POST", "/tokenize", 503}, {"GET", "/nope", 404}};
    struct daemon d;
    mock = (struct mock){.step_us = 1000, .load_us = 2000000};
    start(&d);
    for (size_t i = 0; i < TR_ARRAY_LEN(asked); i++) {
        char line[32];
        char *text = ask(&d, asked[i].method, asked[i].path, "");
        snprintf(line, sizeof line, "HTTP/1.1 %d ", asked[i].status);
        assert_int_equal(strncmp(text, line, strlen(line)), 0);
        assert_int_equal(count(text, "Retry-After: "), asked[i].status == 503);
        assert_int_equal(count(text, "\"code\":\"loading\""), asked[i].status == 503);
        free(text);
    }
    wait_loaded(&d);
    char *text = ask(&d, "POST", "/v1/completions", "{\"prompt\":\"a b\",\"max_tokens\":3}");
    assert_int_equal(strncmp(text, "HTTP/1.1 200 ", 13), 0);
    free(text);
    stop(&d);
}

static void test_signal_while_loading(void **state)
{
    (void)state;
    struct daemon d;
    mock = (struct mock){.step_us = 1000, .load_us = 60000000};
    start(&d);
    free(ask(&d, "GET", "/livez", ""));
    stop(&d);
    assert_int_not_equal(access(d.path, F_OK), 0);
}

static void test_load_that_fails(void **state)
{
    (void)state;
    struct daemon d;
    int status;
    mock = (struct mock){.step_us = 1000, .load_us = 300000, .load_fails = true};
    start(&d);
    free(ask(&d, "GET", "/livez", ""));
    assert_int_equal(waitpid(d.pid, &status, 0), d.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_not_equal(access(d.path, F_OK), 0);
}

static void test_full_queue(void **state)
{
    (void)state;
    struct daemon d;
    mock = (struct mock){.step_us = 1000, .max_queue = 2};
    start(&d);
    wait_loaded(&d);
    char *text = ask(&d, "POST", "/v1/completions",
                     "{\"prompt\":[\"a b\",\"a b\",\"a b\"],\"max_tokens\":100000}");
    assert_int_equal(strncmp(text, "HTTP/1.1 429 ", 13), 0);
    assert_int_equal(count(text, "Retry-After: "), 1);
    assert_int_equal(count(text, "\"code\":\"queue_full\""), 1);
    free(text);
    text = ask(&d, "POST", "/v1/completions", "{\"prompt\":[\"a b\",\"a b\"],\"max_tokens\":3}");
    assert_int_equal(strncmp(text, "HTTP/1.1 200 ", 13), 0);
    free(text);
    stop(&d);
}

#define N_STREAMS 1000

static void test_a_thousand_streams(void **state)
{
    (void)state;
    static int fds[N_STREAMS];
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * N_STREAMS)
        skip();
    struct daemon d;
    mock = (struct mock){.step_us = 20000};
    start(&d);
    wait_loaded(&d);
    for (int i = 0; i < N_STREAMS; i++) {
        fds[i] = dial(&d);
        send_request(fds[i], "POST", "/v1/completions",
                     "{\"prompt\":\"Once upon a time\",\"max_tokens\":8,\"stream\":true}");
    }
    for (int i = 0; i < N_STREAMS; i++) {
        char *text = read_answer(fds[i]);
        assert_int_equal(strncmp(text, "HTTP/1.1 200 ", 13), 0);
        assert_int_equal(count(text, "\"choices\""), 8);
        assert_int_equal(count(text, "\"finish_reason\":\"length\""), 1);
        assert_int_equal(count(text, "data: [DONE]\n\n"), 1);
        free(text);
    }
    stop(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_in_a_stream),
        cmocka_unit_test(test_engine_that_stands_still),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_signal_while_loading),
        cmocka_unit_test(test_load_that_fails),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_a_thousand_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
