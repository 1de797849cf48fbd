#include "server/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static double count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = -3; /* itself, "." and ".." */
    if (!dir)
        return 0;
    while (readdir(dir)) /* this stream is this thread's alone */
        n++;
    closedir(dir);
    return n;
}

/* The fields of /proc/self/stat behind the name, which may hold anything. */
static void read_stat(struct srv_process *ret)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *rest = strrchr(text, ')');
    long threads;
    unsigned long long start, bytes;
    long pages;
    struct timespec now, up;
    if (!rest || sscanf(rest + 1,
                        " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                        "%ld %*d %llu %llu %ld",
                        &threads, &start, &bytes, &pages) != 4)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &up);
    ret->threads = (double)threads;
    ret->virtual_bytes = (double)bytes;
    ret->resident_bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
    ret->start_seconds = (double)(now.tv_sec - up.tv_sec) +
                         (double)(now.tv_nsec - up.tv_nsec) * 1e-9 +
                         (double)start / (double)sysconf(_SC_CLK_TCK);
}

void srv_process_look(struct srv_process *ret)
{
    struct rusage use;
    struct rlimit fds;
    *ret = (struct srv_process){0};
    if (getrusage(RUSAGE_SELF, &use) == 0)
        ret->cpu_seconds = seconds_of(use.ru_utime) + seconds_of(use.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
        ret->max_fds = (double)fds.rlim_cur;
    ret->open_fds = count_fds();
    read_stat(ret);
}
