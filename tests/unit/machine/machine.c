/* Threads and memory from made-up cgroup trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/machine/machine.h"

#include <cmocka.h>

static char root[] = "/tmp/trinityd-cgroup-XXXXXX";

static void make_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* This process's own path below a hierarchy ("" = v2), made inside the tree; the folders are
 * created. Returns whether the machine lists that hierarchy. */
static int own_path(const char *controller, const char *base, char *ret, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f)
        return 0;
    char line[1024];
    int found = 0;
    while (!found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':') + 1;
        char *path = strchr(names, ':');
        *path++ = 0;
        if (strcmp(names, controller) != 0)
            continue;
        found = 1;
        snprintf(ret, size, "%s%s", base, strcmp(path, "/") == 0 ? "" : path);
    }
    fclose(f);
    size_t len = found ? strlen(ret) : 0;
    for (char *p = ret + 1; p <= ret + len && len > 0; p++) {
        char c = *p;
        if (c != '/' && c != 0)
            continue;
        *p = 0;
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", root, ret);
        mkdir(path, 0700); /* may exist */
        *p = c;
    }
    return found;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void test_no_limit(void **state)
{
    (void)state;
    int threads = tr_default_threads(root);
    assert_true(threads >= 1);
    uint64_t left = tr_memory_left(root);
    assert_true(left > 0);
    put("cpu.max", "max 100000\n");
    put("memory.max", "max\n");
    put("memory.current", "1000\n");
    assert_int_equal(tr_default_threads(root), threads);
    assert_true(tr_memory_left(root) > left / 2);
}

static void test_v2(void **state)
{
    (void)state;
    char own[1024];
    if (!own_path("", "", own, sizeof own))
        skip();
    put("cpu.max", "50000 100000\n"); /* half a processor: one thread all the same */
    put("memory.max", "1000000\n");
    put("memory.current", "700000\n");
    put("memory.stat", "anon 5\ninactive_file 200000\nactive_file 7\n");
    assert_int_equal(tr_default_threads(root), 1);
    assert_int_equal(tr_memory_left(root), 500000);
    put("memory.current", "1300000\n"); /* over the limit: nothing, not a huge number */
    assert_int_equal(tr_memory_left(root), 0);
}

static void test_v1(void **state)
{
    (void)state;
    char own[1024];
    char path[1100];
    if (!own_path("memory", "memory", own, sizeof own))
        skip();
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", own);
    put(path, "4096000\n");
    snprintf(path, sizeof path, "%s/memory.usage_in_bytes", own);
    put(path, "96000\n");
    assert_int_equal(tr_memory_left(root), 4000000);
    /* an ancestor that leaves less decides */
    if (strcmp(own, "memory") == 0)
        return;
    put("memory/memory.limit_in_bytes", "2000000\n");
    put("memory/memory.usage_in_bytes", "500000\n");
    put("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
    assert_int_equal(tr_memory_left(root), 1500100);
}

static void test_v1_cpu(void **state)
{
    (void)state;
    char own[1024];
    char path[1100];
    if (!own_path("cpu", "cpu", own, sizeof own)) {
        if (!own_path("cpu,cpuacct", "cpu,cpuacct", own, sizeof own))
            skip();
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", own);
    put(path, "199000\n");
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", own);
    put(path, "100000\n");
    assert_int_equal(tr_default_threads(root), 1); /* rounded down */
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", own);
    put(path, "-1\n");
    assert_true(tr_default_threads(root) >= 1);
}

static void test_nonsense(void **state)
{
    (void)state;
    put("cpu.max", "0 0\n");
    put("memory.max", "\n");
    make_folder("memory.current");
    assert_true(tr_default_threads(root) >= 1);
    assert_true(tr_memory_left(root) > 0);
    put("cpu.max", "");
    assert_true(tr_default_threads(root) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_v2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_v1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_v1_cpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
