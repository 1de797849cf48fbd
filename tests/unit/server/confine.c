/* Each thing that the daemon gives up, tried afterwards: in a child, whose end says what was still possible. */
#include "server/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/log.h"

static char root[] = "/tmp/trinityd-confine-XXXXXX";
static struct tr_options options;

static char *path(const char *name)
{
    static char text[4][512];
    static int next;
    char *at = text[next++ % 4];
    snprintf(at, sizeof text[0], "%s/%s", root, name);
    return at;
}

static void put(const char *name)
{
    int fd = open(path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(path(name), 0700), 0);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(root))
        return -1;
    make_folder("in");
    make_folder("in/model");
    make_folder("out");
    make_folder("elsewhere");
    make_folder("saved");
    put("in/model/config.json");
    put("elsewhere/blob");
    put("out/secret");
    assert_int_equal(symlink(path("elsewhere/blob"), path("in/model/weights")), 0);
    options.model = strdup(path("in/model"));
    options.snapshot_dir = strdup(path("saved"));
    options.confine = TR_CONFINE_STRICT;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", root);
    free(options.model);
    free(options.snapshot_dir);
    return system(command);
}

static bool opens(const char *name, int flags)
{
    int fd = open(name, flags, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void *no_work(void *arg)
{
    return arg;
}

/* What is tried: 0, or the line that went otherwise than it should. */
#define WANT(what)                                                                                 \
    do {                                                                                           \
        if (!(what))                                                                               \
            return __LINE__;                                                                       \
    } while (0)
#define REFUSED(call, e) WANT((errno = 0, (call) < 0 && errno == (e)))

static int try_files(void)
{
    WANT(opens(path("in/model/config.json"), O_RDONLY));
    WANT(opens(path("in/model/weights"), O_RDONLY)); /* where its link leads */
    WANT(opens("/etc/passwd", O_RDONLY));
    WANT(opens("/dev/null", O_RDWR));
    WANT(opens(path("saved/new"), O_RDWR | O_CREAT));
    WANT(rename(path("saved/new"), path("saved/renamed")) == 0);
    WANT(unlink(path("saved/renamed")) == 0);
    WANT(!opens(path("out/secret"), O_RDONLY) && errno == EACCES);
    WANT(!opens(path("in/model/config.json"), O_RDWR) && errno == EACCES);
    WANT(!opens(path("in/model/new"), O_RDWR | O_CREAT) && errno == EACCES);
    REFUSED(unlink(path("in/model/config.json")), EACCES);
    REFUSED(mkdir(path("in/folder"), 0700), EACCES);
    WANT(!opens("/root", O_RDONLY | O_DIRECTORY));
    return 0;
}

static int try_calls(void)
{
    char program[] = "/bin/true", *argv[] = {program, NULL};
    pthread_t thread;
    void *ret;
    WANT(pthread_create(&thread, NULL, no_work, &options) == 0);
    WANT(pthread_join(thread, &ret) == 0 && ret == &options);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WANT(page != MAP_FAILED);
    REFUSED(mprotect(page, 4096, PROT_READ | PROT_EXEC), EPERM);
    WANT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    REFUSED(execv(argv[0], argv), EPERM);
    REFUSED(fork(), EPERM);
    REFUSED(ptrace(PTRACE_TRACEME, 0, 0, 0), EPERM);
    REFUSED(syscall(SYS_bpf, 0, NULL, 0), EPERM);
    REFUSED(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL), EPERM);
    REFUSED(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
    REFUSED(chmod("/tmp", 0777), EPERM);
    REFUSED(setuid(0), EPERM);
    REFUSED(socket(AF_PACKET, SOCK_RAW, 0), EPERM);
    REFUSED(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
    WANT(kill(getpid(), 0) == 0);
    return 0;
}

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
}

static int try_outside(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    WANT(fd >= 0);
    if (landlock_version() >= 4)
        REFUSED(connect(fd, (struct sockaddr *)&to, sizeof to), EACCES);
    if (landlock_version() >= 6)
        REFUSED(kill(getppid(), 0), EPERM);
    close(fd);
    return 0;
}

/* In a child that is confined as the daemon is. */
static int tried(int (*try)(void))
{
    int ends[2], line = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct tr_err err;
        srv_log_setup(SRV_LOG_ERROR, false);
        line = srv_confine_start(&options, &err) < 0 || srv_confine_ready(&options, &err) < 0
                   ? -1
                   : try();
        if (line < 0)
            fprintf(stderr, "%s\n", err.msg);
        (void)!write(ends[1], &line, sizeof line);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[1]);
    assert_int_equal(read(ends[0], &line, sizeof line), sizeof line);
    close(ends[0]);
    return line;
}

static void test_files(void **state)
{
    (void)state;
    if (landlock_version() < 1)
        skip();
    assert_int_equal(tried(try_files), 0);
}

static void test_calls(void **state)
{
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip();
#endif
    assert_int_equal(tried(try_calls), 0);
}

static void test_outside(void **state)
{
    (void)state;
    assert_int_equal(tried(try_outside), 0);
}

static int try_nothing_changed(void)
{
    WANT(opens(path("out/secret"), O_RDONLY));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    WANT(pid > 0 && waitpid(pid, NULL, 0) == pid);
    return 0;
}

static void test_off(void **state)
{
    (void)state;
    options.confine = TR_CONFINE_OFF;
    assert_int_equal(tried(try_nothing_changed), 0);
    options.confine = TR_CONFINE_STRICT;
}

static int try_being_nobody(void)
{
    WANT(getuid() == 65534 && geteuid() == 65534 && getgid() != 0 && getgroups(0, NULL) <= 1);
    return 0;
}

static void test_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct tr_err err;
    char unknown[] = "no-such-user", name[] = "nobody", number[] = "65534";
    options.user = unknown;
    assert_int_equal(srv_confine_start(&options, &err), TR_ECONFIG);
    assert_non_null(strstr(err.msg, "no such user: no-such-user"));
    options.user = name;
    assert_int_equal(tried(try_being_nobody), 0);
    options.user = number;
    assert_int_equal(tried(try_being_nobody), 0);
    options.user = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files), cmocka_unit_test(test_calls), cmocka_unit_test(test_outside),
        cmocka_unit_test(test_off),   cmocka_unit_test(test_user),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
