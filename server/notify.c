#include "server/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_TEXT = 1024 };

static int manager = -1; /* a connected datagram socket; a process has one manager */

void srv_notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (manager >= 0 || n < 2 || n >= sizeof addr.sun_path || (*path != '/' && *path != '@'))
        return;
    memcpy(addr.sun_path, path, n);
    if (*path == '@') /* the abstract namespace */
        addr.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&addr,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0) {
        close(fd);
        fd = -1;
    }
    manager = fd;
}

void srv_notify(const char *fmt, ...)
{
    char text[MAX_TEXT];
    if (manager < 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0)
        (void)!send(manager, text, TR_MIN((size_t)n, sizeof text - 1), MSG_NOSIGNAL);
}

uint64_t srv_notify_watchdog_ms(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (manager < 0 || !us || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return strtoull(us, NULL, 10) / 2000;
}
