/* Which route a path has, and what is read from a request's head on the way to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/conn.h"
#include "server/http/origin.h"
#include "server/http/route.c" /* for its statics */
#include "server/server.h"

static const struct srv_route one = {.path = "/one"};
static const struct srv_route things = {.path = "/things"};
static const struct srv_route thing = {.path = "/things/", .flags = SRV_ROUTE_PREFIX};
static const struct srv_route *const routes[] = {&one, &things, &thing};

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const struct srv_route *route;
        const char *tail;
    } cases[] = {
        {"/one", &one, ""},         {"/one/", NULL, NULL},
        {"/On", NULL, NULL},        {"/ones", NULL, NULL},
        {"/things", &things, ""},   {"/things/", NULL, NULL},
        {"/things/7", &thing, "7"}, {"/things/a/b", &thing, "a/b"},
        {"/things//", &thing, "/"}, {"", NULL, NULL},
        {"/", NULL, NULL},
    };
    struct srv srv = {.routes = routes, .n_routes = 3};
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        char path[32];
        strcpy(path, cases[i].path);
        struct srv_req req = {.srv = &srv, .path = path};
        find(&req);
        assert_ptr_equal(req.route, cases[i].route);
        if (req.route) {
            assert_string_equal(req.tail, cases[i].tail);
            assert_ptr_equal(routes[req.route_index], req.route);
        } else {
            assert_int_equal(req.route_index, 3);
        }
    }
}

static void test_origins(void **state)
{
    (void)state;
    char a[] = "https://a.example", b[] = "https://b.example", star[] = "*";
    char *named[] = {a, b}, *any[] = {star};
    const struct {
        struct tr_strings allowed;
        const char *origin;
        bool want;
    } cases[] = {
        {{named, 2}, "https://b.example", true},
        {{named, 2}, "https://b.example.evil", false},
        {{named, 2}, NULL, false},
        {{any, 1}, "https://c.example", true},
        {{any, 1}, NULL, false},
        {{NULL, 0}, "https://a.example", false},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct tr_options options = {.cors_origin = cases[i].allowed};
        struct srv srv = {.options = &options};
        struct srv_conn conn = {.unix_peer = true};
        struct srv_req req = {.srv = &srv, .conn = &conn};
        struct srv_head head = {.origin = cases[i].origin};
        assert_ptr_equal(srv_origin_of(&req, &head).allowed,
                         cases[i].want ? cases[i].origin : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
