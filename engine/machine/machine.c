/*
 * What this process may use of the machine: processors by affinity mask and cgroup quota, memory by
 * /proc/meminfo and cgroup limits.
 *
 * A limit holds for the whole subtree of a cgroup, so every ancestor is asked. /proc/self/cgroup
 * names the path; inside a container it may be one that is not mounted there, whose missing files
 * are skipped until the walk reaches what is.
 */
#include "engine/machine/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first number of a file: v2 writes "max" for no limit, v1 -1 or a huge one. */
static bool read_number(const char *folder, const char *file, double *ret)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fscanf(f, "%lf", ret) == 1 && *ret >= 0;
    fclose(f);
    return ok;
}

/* The number behind a key of a "key value" file; 0 if absent. */
static double read_key(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    char line[256];
    double value = 0;
    size_t n = strlen(key);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, key, n) == 0 && strchr(" :\t", line[n])) {
            value = strtod(line + n + 1, NULL);
            break;
        }
    }
    fclose(f);
    return value;
}

/* CPUs' worth of time of one cgroup v2 or v1 folder. */
static void cpu_quota(const char *folder, double *least)
{
    char path[PATH_MAX + 64];
    double quota;
    double period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *f = fopen(path, "re");
    bool found = f && fscanf(f, "%lf %lf", &quota, &period) == 2;
    if (f)
        fclose(f);
    if (!found)
        found = read_number(folder, "cpu.cfs_quota_us", &quota) &&
                read_number(folder, "cpu.cfs_period_us", &period);
    if (found && period > 0 && quota / period < *least)
        *least = quota / period;
}

/* What is left below one folder's memory limit. Its idle page cache counts as free: the kernel
 * drops that before it kills. */
static void memory_left(const char *folder, double *least)
{
    char path[PATH_MAX + 64];
    double limit;
    double used;
    const char *idle = "inactive_file";
    if (!read_number(folder, "memory.max", &limit) ||
        !read_number(folder, "memory.current", &used)) {
        idle = "total_inactive_file";
        if (!read_number(folder, "memory.limit_in_bytes", &limit) ||
            !read_number(folder, "memory.usage_in_bytes", &used))
            return;
    }
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    used -= read_key(path, idle);
    double left = used > limit ? 0 : limit - used;
    if (left < *least)
        *least = left;
}

/* Whether a comma-separated list has a word. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n) {
        if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ','))
            return true;
    }
    return false;
}

/* Shows `visit` every cgroup folder that this process is in, for v2 and for v1's `controller`,
 * from its own up to the root. */
static void each_cgroup(const char *root, const char *controller,
                        void (*visit)(const char *folder, double *least), double *least)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) {
        visit(root, least);
        return;
    }
    char line[PATH_MAX];
    while (fgets(line, sizeof line, f)) {
        /* "4:cpu,cpuacct:/path", v2: "0::/path" */
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        names++;
        if (*names && !has_word(names, controller))
            continue;
        char folder[PATH_MAX];
        int top = snprintf(folder, sizeof folder, "%s%s%s", root, *names ? "/" : "", names);
        if (top < 0 || (size_t)top + strlen(path) >= sizeof folder)
            continue;
        strcpy(folder + top, path);
        for (;;) {
            visit(folder, least);
            char *slash = strrchr(folder, '/');
            if (!slash || slash < folder + top)
                break;
            *slash = 0;
        }
    }
    fclose(f);
}

int tr_default_threads(const char *cgroup_root)
{
    cpu_set_t set;
    double cpus = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cpus = CPU_COUNT(&set);
    each_cgroup(cgroup_root, "cpu", cpu_quota, &cpus);
    return cpus < 1 ? 1 : (int)cpus;
}

uint64_t tr_memory_left(const char *cgroup_root)
{
    double least = read_key("/proc/meminfo", "MemAvailable") * 1024;
    each_cgroup(cgroup_root, "memory", memory_left, &least);
    return (uint64_t)least;
}
