/* A host's addresses: each is listened on. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http/listen.h"

/* What the name stands for: two addresses, as /etc/hosts has them of localhost, and one of a family
 * that no machine has. */
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
static struct sockaddr_in v4 = {.sin_family = AF_INET};
static struct sockaddr odd = {.sa_family = AF_MAX};
static struct addrinfo list[3];

/* In libc's place. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    (void)service;
    (void)hints;
    assert_string_equal(name, "two.example");
    *ret = list;
    return 0;
}

void freeaddrinfo(struct addrinfo *info)
{
    assert_ptr_equal(info, list);
}

static bool answers(int family, const struct sockaddr *addr, socklen_t n)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = fd >= 0 && connect(fd, addr, n) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

static void try(bool v6_first)
{
    static char name[] = "two.example";
    struct addrinfo a = {.ai_family = AF_INET6,
                         .ai_addr = (struct sockaddr *)&v6,
                         .ai_addrlen = sizeof v6},
                    b = {.ai_family = AF_INET,
                         .ai_addr = (struct sockaddr *)&v4,
                         .ai_addrlen = sizeof v4};
    list[0] = v6_first ? a : b;
    list[1] = v6_first ? b : a;
    list[2] = (struct addrinfo){.ai_family = AF_MAX, .ai_addr = &odd, .ai_addrlen = sizeof odd};
    list[0].ai_next = &list[1];
    list[1].ai_next = &list[2];
    struct tr_options o = {.host = name, .port = 0};
    struct srv_listen l;
    struct tr_err err = {0};
    assert_int_equal(srv_listen_bind(&l, &o, &err), 0);
    assert_int_equal(l.n, 2);
    assert_true(l.loopback && l.port > 0);
    for (int i = 0; i < l.n; i++)
        assert_int_equal(listen(l.sockets[i].fd, 1), 0);
    v4.sin_port = v6.sin6_port = htons((uint16_t)l.port); /* one port for both */
    assert_true(answers(AF_INET6, (struct sockaddr *)&v6, sizeof v6));
    assert_true(answers(AF_INET, (struct sockaddr *)&v4, sizeof v4));
    srv_listen_stop(&l);
    v4.sin_port = v6.sin6_port = 0;
}

static void test_every_address(void **state)
{
    (void)state;
    v6.sin6_addr = in6addr_loopback;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_v6 = fd >= 0 && bind(fd, (struct sockaddr *)&v6, sizeof v6) == 0;
    if (fd >= 0)
        close(fd);
    if (!has_v6)
        skip();
    try(true);
    try(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
