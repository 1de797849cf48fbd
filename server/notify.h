/* What the service manager is told that started the daemon (sd_notify(3), systemd's documented
 * protocol); without one, nothing happens. */
#ifndef TR_SERVER_NOTIFY_H
#define TR_SERVER_NOTIFY_H

#include <stdint.h>

#include "config/base.h"

/* Connects to $NOTIFY_SOCKET, once, before the process is confined. */
void srv_notify_open(void);
/* Sends assignments, one a line: "READY=1\nSTATUS=..."; what it cannot take is dropped. Any
 * thread. */
void srv_notify(const char *fmt, ...) TR_PRINTF(1, 2);
/* How often WATCHDOG=1 has to come, in milliseconds: half of what the manager waits; 0 = it does
 * not wait for it. */
uint64_t srv_notify_watchdog_ms(void);

#endif
