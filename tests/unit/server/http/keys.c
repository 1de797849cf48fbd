/* Buckets, the words of headers, and the file of keys: what it says, and how it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http/keys.c"      /* for its statics */
#include "server/http/keys_file.c" /* likewise */

#define SECOND 1000000000LL

static void test_buckets(void **state)
{
    (void)state;
    struct srv_bucket b = {0};
    fill_bucket(&b, 60, 5 * SECOND);
    assert_true(b.level == 60); /* full at first */
    b.level -= 60;
    fill_bucket(&b, 60, 6 * SECOND);
    assert_true(fabs(b.level - 1) < 1e-9);
    assert_true(fabs(wait_for(&b, 60, 3) - 2) < 1e-9);
    b.level -= 31; /* in debt */
    fill_bucket(&b, 60, 36 * SECOND);
    assert_true(fabs(b.level) < 1e-9);
    fill_bucket(&b, 60, 3600 * SECOND);
    assert_true(b.level == 60);
    fill_bucket(&b, 10, 3600 * SECOND); /* the limit was lowered */
    assert_true(b.level == 10);
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0s"},          {0.02, "20ms"},    {1, "1s"},     {1.5, "1.5s"},
                 {12.34, "12.340s"}, {59.9999, "1m0s"}, {360, "6m0s"}, {3661, "1h1m1s"}};
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        char text[40];
        write_duration(text, sizeof text, cases[i].seconds);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t at;
    } good[] = {{"1970-01-01T00:00:00Z", 0},
                {"2026-01-31T12:00:00Z", 1769860800},
                {"2026-01-31T13:30:00.25+01:30", 1769860800},
                {"2026-01-31t07:00:00-05:00", 1769860800},
                {"2024-02-29T23:59:59z", 1709251199}};
    static const char *const bad[] = {
        "",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00Zx",
        "2026-01-31T12:00:00+24:00",
        "in a year, at the latest",
    };
    int64_t at;
    for (size_t i = 0; i < TR_ARRAY_LEN(good); i++) {
        assert_true(take_time(good[i].text, &at));
        assert_int_equal(at, good[i].at);
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(bad); i++)
        assert_false(take_time(bad[i], &at));
}

static const struct srv_route one = {.path = "/one"}, two = {.path = "/two"};
static const struct srv_route *const routes[] = {&one, &two};
static char path[64];

static int read_text(const char *text, const char *plain, struct srv_keys *old,
                     struct srv_keys **ret, struct tr_err *err)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    char key[32];
    snprintf(key, sizeof key, "%s", plain ? plain : "");
    char *keys[] = {key};
    struct tr_options o = {
        .api_key_file = path, .key_table = true, .api_key = {keys, plain != NULL}};
    return srv_keys_read(ret, &o, routes, 2, old, err);
}

static void test_the_file(void **state)
{
    (void)state;
    struct srv_keys *keys, *later;
    struct tr_err err;
    /* The second one's is the hash of "abc" as FIPS 180-2 has it. */
    assert_int_equal(
        read_text("{\"keys\": [{\"name\": \"a\", \"key\": \"k1\", \"weight\": 3, "
                  "\"requests_per_minute\": 7, \"endpoints\": [\"/two\"]},\n"
                  "{\"name\": \"b\", \"expires\": \"1970-01-01T00:00:09Z\", \"sha256\": "
                  "\"BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}",
                  "k1", NULL, &keys, &err),
        0);
    assert_int_equal(keys->n, 2); /* k1 once */
    struct srv_key *a = srv_keys_find(keys, "k1"), *b = srv_keys_find(keys, "abc");
    assert_string_equal(a->name, "a");
    assert_int_equal(a->limits.weight, 3);
    assert_int_equal(a->limits.requests, 7);
    assert_int_equal(a->limits.routes, 2);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->limits.expires, 9);
    assert_null(srv_keys_find(keys, "abcd"));
    assert_null(srv_keys_find(keys, ""));
    assert_false(keys->open);
    /* Read again: what was used stays with the key, its limits are the new ones. */
    srv_key_spend(a, (struct srv_use){.prompt = 5});
    assert_int_equal(read_text("{\"keys\": [{\"name\": \"c\", \"key\": \"k1\"}], "
                               "\"anonymous\": {\"concurrency\": 2}}",
                               "plain", keys, &later, &err),
                     0);
    srv_keys_free(keys);
    struct srv_key *c = srv_keys_find(later, "k1");
    assert_string_equal(c->name, "c");
    assert_int_equal(c->total.prompt, 5);
    assert_int_equal(c->limits.weight, 1);
    assert_int_equal(c->limits.requests, 0);
    assert_true(later->open);
    assert_int_equal(later->anonymous->limits.concurrency, 2);
    assert_string_equal(srv_keys_find(later, "plain")->name, "");
    assert_null(srv_keys_find(later, "abc"));
    srv_keys_free(later);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{", "line 1"},
        {"{}", "no key in it"},
        {"{\"keys\": []}", "no key in it"},
        {"{\"keys\": {}}", "keys"},
        {"{\"kes\": []}", "kes: no such member"},
        {"{\"keys\": [{\"key\": \"x\"}]}", "keys[0].name"},
        {"{\"keys\": [{\"name\": \"\", \"key\": \"x\"}]}", "keys[0].name"},
        {"{\"keys\": [{\"name\": \"n\"}]}", "keys[0]: needs either"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x\", \"sha256\": \"00\"}]}", "keys[0]: needs"},
        {"{\"keys\": [{\"name\": \"n\", \"sha256\": \"00\"}]}", "keys[0].sha256: expected 64"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x y\"}]}", "keys[0].key"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"\"}]}", "keys[0].key"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x\", \"weight\": 0}]}", "keys[0].weight"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x\", \"rpm\": 1}]}", "keys[0].rpm: no such"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x\", \"endpoints\": [\"/one\", \"/on\"]}]}",
         "keys[0].endpoints[1]: no endpoint"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x\", \"expires\": \"soon\"}]}",
         "keys[0].expires"},
        {"{\"keys\": [{\"name\": \"n\", \"key\": \"x\"}, {\"name\": \"m\", \"key\": \"x\"}]}",
         "are the same key"},
        {"{\"anonymous\": {\"name\": \"n\"}}", "anonymous.name: no such"},
        {"{\"anonymous\": {\"concurrency\": -1}}", "anonymous.concurrency"},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(cases); i++) {
        struct srv_keys *keys;
        struct tr_err err;
        assert_int_equal(read_text(cases[i].text, NULL, NULL, &keys, &err), TR_ECONFIG);
        assert_string_equal(err.param, "api_key_file");
        if (!strstr(err.msg, cases[i].says) || !strstr(err.msg, path))
            fail_msg("%s: %s", cases[i].text, err.msg);
    }
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/keys-%d.json", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets),  cmocka_unit_test(test_durations),
        cmocka_unit_test(test_times),    cmocka_unit_test(test_the_file),
        cmocka_unit_test(test_refusals),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
