#include "server/confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/log.h"
#include "server/spans.h"
#include "server/syscalls.h"

#ifndef PR_SET_MDWE
enum { PR_SET_MDWE = 65, PR_MDWE_REFUSE_EXEC_GAIN = 1 };
#endif

/* ---- privileges ---- */

/* Another user's rights, for good: groups first, while that is still allowed. */
static int become(const char *user, struct tr_err *err)
{
    char *end;
    unsigned long id = strtoul(user, &end, 10);
    const struct passwd *pw = *end ? getpwnam(user) : getpwuid((uid_t)id);
    if (!pw && *end)
        return tr_err_set(err, TR_ECONFIG, "user", "user: no such user: %s", user);
    uid_t uid = pw ? pw->pw_uid : (uid_t)id;
    gid_t gid = pw ? pw->pw_gid : (gid_t)id;
    if (geteuid() == uid && getuid() == uid)
        return 0;
    int r = pw ? initgroups(pw->pw_name, gid) : setgroups(0, NULL);
    if (r < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return tr_err_set(err, TR_ECONFIG, "user", "user: cannot become %s: %s", user,
                          strerror(errno));
    return 0;
}

/* Root keeps what lets it open files of others, which landlock limits; nothing else. */
static bool drop_capabilities(void)
{
    const uint32_t keep = geteuid() == 0 ? 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH : 0;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2];
    if (syscall(SYS_capget, &head, has) < 0)
        return false;
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (i > 31 || !(keep >> i & 1))
            prctl(PR_CAPBSET_DROP, i, 0, 0, 0); /* needs a capability itself: as far as it goes */
    uint32_t left = has[0].permitted & keep;
    has[0] = (struct __user_cap_data_struct){.effective = left, .permitted = left};
    has[1] = (struct __user_cap_data_struct){0};
    return syscall(SYS_capset, &head, has) == 0;
}

/* ---- files: landlock(7); numbers of newer kernels than the headers know ---- */

enum {
    LL_CREATE_RULESET = 444,
    LL_ADD_RULE = 445,
    LL_RESTRICT_SELF = 446,
    LL_RULE_PATH_BENEATH = 1,
    LL_RULE_NET_PORT = 2,
    LL_CONNECT_TCP = 2,
    LL_VERSION = 1,
    LL_SCOPES = 3 /* abstract sockets, signals */
};
enum ll_right {
    LL_WRITE_FILE = 1 << 1,
    LL_READ_FILE = 1 << 2,
    LL_READ_DIR = 1 << 3,
    LL_REMOVE_DIR = 1 << 4,
    LL_REMOVE_FILE = 1 << 5,
    LL_MAKE_DIR = 1 << 7,
    LL_MAKE_REG = 1 << 8,
    LL_REFER = 1 << 13,
    LL_TRUNCATE = 1 << 14,
    LL_READ = LL_READ_FILE | LL_READ_DIR,
    LL_WRITE = LL_READ | LL_WRITE_FILE | LL_REMOVE_DIR | LL_REMOVE_FILE | LL_MAKE_DIR |
               LL_MAKE_REG | LL_REFER | LL_TRUNCATE,
    LL_ON_FILES = LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE
};

struct ruleset_attr {
    uint64_t fs, net, scoped;
};
struct port_rule {
    uint64_t allowed, port;
};
struct path_rule {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

struct files {
    int fd;          /* the ruleset */
    uint64_t rights; /* of files and folders that it rules */
    bool ports;      /* it rules them, too */
};

/* By the kernel's version of the interface: rights and the size of the struct grow with it. */
static int open_ruleset(struct files *ret)
{
    static const unsigned char n_rights[] = {0, 13, 14, 15, 15, 16}; /* bits of fs */
    long version = syscall(LL_CREATE_RULESET, NULL, 0, LL_VERSION);
    if (version < 1)
        return -1;
    size_t v = TR_MIN((size_t)version, TR_ARRAY_LEN(n_rights) - 1);
    ret->rights = (1u << n_rights[v]) - 1;
    struct ruleset_attr attr = {.fs = ret->rights};
    ret->ports = version >= 4;
    if (ret->ports)
        attr.net = 3; /* bind, connect */
    if (version >= 6)
        attr.scoped = LL_SCOPES;
    size_t size = version >= 6   ? sizeof attr
                  : version >= 4 ? offsetof(struct ruleset_attr, scoped)
                                 : offsetof(struct ruleset_attr, net);
    ret->fd = (int)syscall(LL_CREATE_RULESET, &attr, size, 0);
    return ret->fd;
}

/* A path that does not exist is left out: what it might have been is denied. */
static void allow(const struct files *f, const char *path, uint64_t rights)
{
    struct path_rule rule = {.fd = open(path, O_PATH | O_CLOEXEC)};
    struct stat st;
    if (rule.fd < 0)
        return;
    if (fstat(rule.fd, &st) == 0) {
        rule.allowed = rights & f->rights & (S_ISDIR(st.st_mode) ? UINT64_MAX : LL_ON_FILES);
        syscall(LL_ADD_RULE, f->fd, LL_RULE_PATH_BENEATH, &rule, 0);
    }
    close(rule.fd);
}

/* What may be replaced by another of its name while the daemon runs (by renaming, by a link that
 * turns): the folder around it, that around what it leads to, and itself where that is a root. */
static void allow_around(const struct files *f, const char *path, uint64_t rights)
{
    char at[PATH_MAX], real[PATH_MAX];
    if (!path)
        return;
    allow(f, path, rights);
    snprintf(at, sizeof at, "%s", path);
    const char *dir = dirname(at);
    if (strcmp(dir, "/") != 0)
        allow(f, dir, rights);
    if (!realpath(path, real))
        return;
    dir = dirname(real);
    if (strcmp(dir, "/") != 0)
        allow(f, dir, rights);
}

/* A checkpoint's files may be links to elsewhere, as in the hub's cache. */
static void allow_links(const struct files *f, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));) {
        char path[PATH_MAX];
        if (e->d_type == DT_LNK &&
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
            allow_around(f, path, LL_READ);
    }
    closedir(dir);
}

static void allow_all(const struct files *f, const struct tr_options *o)
{
    /* The machine: cgroups, memory, the libraries' own configuration and late-loaded parts. */
    static const char *const read[] = {"/proc", "/sys",   "/etc",       "/usr/lib",
                                       "/lib",  "/lib64", "/usr/share", "/dev/urandom"};
    for (size_t i = 0; i < TR_ARRAY_LEN(read); i++)
        allow(f, read[i], LL_READ);
    allow(f, "/dev/null", LL_READ_FILE | LL_WRITE_FILE);
    allow_around(f, o->model, LL_READ);
    allow_links(f, o->model);
    allow_around(f, o->file, LL_READ);
    allow_around(f, o->chat_template, LL_READ);
    allow_around(f, o->api_key_file, LL_READ);
    allow_around(f, o->tls_cert, LL_READ);
    allow_around(f, o->tls_key, LL_READ);
    if (o->packed_cache) {
        (void)mkdir(o->packed_cache, 0777); /* as the engine would, when it may no longer */
        allow(f, o->packed_cache, LL_WRITE);
    }
    if (o->snapshot_dir)
        allow(f, o->snapshot_dir, LL_WRITE);
    if (o->batch_dir) {
        (void)mkdir(o->batch_dir, 0700); /* likewise */
        allow(f, o->batch_dir, LL_WRITE);
    }
    if (o->unix_socket) { /* taken away at the end */
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s", o->unix_socket);
        allow(f, dirname(path), LL_REMOVE_FILE);
    }
}

static bool limit_files(const struct tr_options *o)
{
    struct files f;
    if (open_ruleset(&f) < 0)
        return false;
    allow_all(&f, o);
    struct tr_err err;
    int port = 0;
    if (f.ports && srv_spans_port(o, &port, &err) == 0 && port > 0) {
        struct port_rule rule = {LL_CONNECT_TCP, (uint64_t)port};
        syscall(LL_ADD_RULE, f.fd, LL_RULE_NET_PORT, &rule, 0);
    }
    bool ok = syscall(LL_RESTRICT_SELF, f.fd, 0) == 0;
    close(f.fd);
    return ok;
}

/* ---- both times ---- */

static int lacks(const struct tr_options *o, const char *what, struct tr_err *err)
{
    if (o->confine == TR_CONFINE_STRICT)
        return tr_err_set(err, TR_ECONFIG, "confine", "confine: strict, but %s: %s", what,
                          strerror(errno));
    srv_log(SRV_LOG_WARN, NULL, "confine: %s: %s", what, strerror(errno));
    return 0;
}

int srv_confine_start(const struct tr_options *o, struct tr_err *err)
{
    int r = o->user ? become(o->user, err) : 0;
    if (r < 0 || o->confine == TR_CONFINE_OFF)
        return r;
    if (!drop_capabilities())
        r = lacks(o, "capabilities are kept", err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = lacks(o, "programs may gain privileges", err);
    /* What a kernel before 6.3 lacks, the filter of system calls refuses later. */
    prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
    if (r == 0 && !limit_files(o))
        r = lacks(o, "this kernel has no landlock, files are not limited", err);
    return r;
}

int srv_confine_ready(const struct tr_options *o, struct tr_err *err)
{
    if (o->confine == TR_CONFINE_OFF)
        return 0;
    int e = srv_syscalls_limit();
    if (e != 0) {
        errno = -e;
        return lacks(o, "system calls are not limited", err);
    }
    srv_log(SRV_LOG_INFO, NULL, "confined: files, system calls, no new privileges");
    return 0;
}
