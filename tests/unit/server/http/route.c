/* Which route a path has, and what is read from a request's head on the way to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/head.h"
#include "server/http/route.h"
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
        srv_route_find(&req);
        assert_ptr_equal(req.route, cases[i].route);
        if (req.route) {
            assert_string_equal(req.tail, cases[i].tail);
            assert_ptr_equal(routes[req.route_index], req.route);
        } else {
            assert_int_equal(req.route_index, 3);
        }
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
        const char *key = srv_head_key(&head);
        assert_int_equal(key != NULL, cases[i].want != NULL);
        if (key)
            assert_string_equal(key, cases[i].want);
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
        struct srv_req req = {.srv = &srv};
        struct srv_head head = {.origin = cases[i].origin};
        assert_ptr_equal(srv_route_origin(&req, &head), cases[i].want ? cases[i].origin : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
