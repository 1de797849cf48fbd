#include "server/syscalls.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define N(call) SCMP_SYS(call)
enum { SET_VMA = 0x53564d41 }; /* PR_SET_VMA: malloc and threads name their memory */

/* Allowed with whatever arguments. Numbers that the processor does not have are negative and left
 * out by libseccomp. */
static const int plain[] = {
    /* memory */
    N(brk), N(munmap), N(mremap), N(madvise), N(mincore), N(msync), N(mlock), N(mlock2), N(munlock),
    N(membarrier), N(get_mempolicy), N(mbind),
    /* threads and time */
    N(futex), N(set_robust_list), N(get_robust_list), N(rseq), N(exit), N(exit_group), N(gettid),
    N(getpid), N(getppid), N(sched_yield), N(sched_getaffinity), N(sched_setaffinity), N(getcpu),
    N(nanosleep), N(clock_nanosleep), N(clock_gettime), N(clock_getres), N(gettimeofday), N(time),
    N(restart_syscall), N(getrusage), N(times), N(setitimer),
    /* signals, to itself: landlock scopes the others */
    N(rt_sigaction), N(rt_sigprocmask), N(rt_sigreturn), N(rt_sigtimedwait), N(sigaltstack),
    N(tgkill), N(kill),
    /* files: which ones, landlock says */
    N(read), N(readv), N(pread64), N(preadv), N(preadv2), N(write), N(writev), N(pwrite64),
    N(pwritev), N(pwritev2), N(open), N(openat), N(close), N(close_range), N(stat), N(lstat),
    N(fstat), N(newfstatat), N(statx), N(statfs), N(fstatfs), N(lseek), N(getdents64), N(getcwd),
    N(readlink), N(readlinkat), N(access), N(faccessat), N(faccessat2), N(mkdir), N(mkdirat),
    N(unlink), N(unlinkat), N(rmdir), N(rename), N(renameat), N(renameat2), N(ftruncate),
    N(fallocate), N(fsync), N(fdatasync), N(fadvise64), N(flock), N(fcntl), N(dup), N(dup2),
    N(dup3), N(umask), N(fchmod),
    /* waiting and sockets */
    N(poll), N(ppoll), N(select), N(pselect6), N(epoll_create1), N(epoll_ctl), N(epoll_wait),
    N(epoll_pwait), N(epoll_pwait2), N(eventfd2), N(pipe2), N(timerfd_create), N(timerfd_settime),
    N(connect), N(accept), N(accept4), N(listen), N(shutdown), N(sendto), N(sendmsg), N(sendmmsg),
    N(sendfile), N(recvfrom), N(recvmsg), N(recvmmsg), N(getsockname), N(getpeername),
    N(getsockopt), N(setsockopt),
    /* what the process is */
    N(getrandom), N(getuid), N(geteuid), N(getgid), N(getegid), N(getrlimit), N(prlimit64),
    N(sysinfo), N(uname), N(arch_prctl)};

/* Allowed where (argument & mask) == value. */
static const struct {
    int call;
    unsigned arg;
    uint64_t mask, value;
} with[] = {
    /* no code is mapped, no process begun */
    {N(mmap), 2, PROT_EXEC, 0},
    {N(mprotect), 2, PROT_EXEC, 0},
    {N(clone), 0, CLONE_THREAD, CLONE_THREAD},
    {N(socket), 0, UINT64_MAX, AF_UNIX},
    {N(socket), 0, UINT64_MAX, AF_INET},
    {N(socket), 0, UINT64_MAX, AF_INET6},
    {N(prctl), 0, UINT64_MAX, PR_SET_NAME},
    {N(prctl), 0, UINT64_MAX, SET_VMA},
    {N(ioctl), 1, UINT64_MAX, FIONBIO},
    {N(ioctl), 1, UINT64_MAX, FIONREAD},
    {N(ioctl), 1, UINT64_MAX, TCGETS},
    {N(ioctl), 1, UINT64_MAX, TIOCGWINSZ},
};

static int add_rules(scmp_filter_ctx filter)
{
    int r = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(plain) && r == 0; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, plain[i], 0);
    for (size_t i = 0; i < TR_ARRAY_LEN(with) && r == 0; i++)
        r = seccomp_rule_add(
            filter, SCMP_ACT_ALLOW, with[i].call, 1,
            SCMP_CMP(with[i].arg, SCMP_CMP_MASKED_EQ, with[i].mask, with[i].value));
    /* Its flags lie in memory, where no filter looks: the C library then takes clone. */
    return r < 0 ? r : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), N(clone3), 0);
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { UNDER_SANITIZER = 1 };
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { UNDER_SANITIZER = 1 };
#else
enum { UNDER_SANITIZER = 0 };
#endif
#else
enum { UNDER_SANITIZER = 0 };
#endif

int srv_syscalls_limit(void)
{
    if (UNDER_SANITIZER)
        return 0;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return -ENOMEM;
    int r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1); /* threads that run already */
    if (r == 0)
        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a chain */
    if (r == 0)
        r = add_rules(filter);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}
