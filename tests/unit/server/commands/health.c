/* `trinityd health` against servers that are ready, not ready, rude, silent or not there. */
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/commands/commands.h"

static char host[] = "127.0.0.1", any_host[] = "0.0.0.0";

/* A server that takes one connection, reads what is asked and writes `answer`. */
struct server {
    int fd;
    const char *answer;
    char asked[512];
    pthread_t thread;
};

static void *serve_one(void *arg)
{
    struct server *s = arg;
    int fd = accept(s->fd, NULL, NULL);
    ssize_t n = recv(fd, s->asked, sizeof s->asked - 1, 0);
    s->asked[n > 0 ? n : 0] = '\0';
    /* In two pieces: a status line need not come at once. */
    size_t half = strlen(s->answer) / 2;
    send(fd, s->answer, half, MSG_NOSIGNAL);
    usleep(10000);
    send(fd, s->answer + half, strlen(s->answer) - half, MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static void start(struct server *s, const struct sockaddr *address, socklen_t n)
{
    s->fd = socket(address->sa_family, SOCK_STREAM, 0);
    assert_int_equal(bind(s->fd, address, n), 0);
    assert_int_equal(listen(s->fd, 1), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve_one, s), 0);
}

static void stop(struct server *s)
{
    pthread_join(s->thread, NULL);
    close(s->fd);
}

static int start_tcp(struct server *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    start(s, (struct sockaddr *)&address, n);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&address, &n), 0);
    return ntohs(address.sin_port);
}

static void test_answers(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        int status;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 0},
        {"HTTP/1.0 200 OK\r\n\r\n", 0},
        {"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1},
        {"HTTP/1.1 404 Not Found\r\n\r\n", 1},
        {"HTTP/1.1 \r\n\r\n", 1},
        {"SSH-2.0-OpenSSH_9.2\r\n", 1},
        {"", 1},
        {"a very long line without an end a very long line without an end a very long line", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server s = {.answer = cases[i].answer};
        int port = start_tcp(&s);
        struct tr_options o = {.host = i % 2 ? any_host : host, .port = port};
        assert_int_equal(srv_health_check(&o), cases[i].status);
        stop(&s);
        assert_int_equal(strncmp(s.asked, "GET /health HTTP/1.1\r\nHost: ", 28), 0);
        assert_non_null(strstr(s.asked, "\r\n\r\n"));
        /* The server is gone: nobody listens there any more. */
        assert_int_equal(srv_health_check(&o), 1);
    }
}

static void test_unix_socket(void **state)
{
    (void)state;
    char folder[] = "/tmp/trinityd-health-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    struct server s = {.answer = "HTTP/1.1 200 OK\r\n\r\n"};
    start(&s, (struct sockaddr *)&address, sizeof address);
    struct tr_options o = {.host = host, .port = 1, .unix_socket = address.sun_path};
    assert_int_equal(srv_health_check(&o), 0);
    stop(&s);
    unlink(address.sun_path);
    assert_int_equal(srv_health_check(&o), 1);
    rmdir(folder);

    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    o.unix_socket = longer;
    assert_int_equal(srv_health_check(&o), 1);
}

static void test_what_it_can_not_ask(void **state)
{
    (void)state;
    struct tr_options unknown_port = {.host = host, .port = 0};
    assert_int_equal(srv_health_check(&unknown_port), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_what_it_can_not_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
