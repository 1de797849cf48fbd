/*
 * Listening sockets and the act of accepting.
 *
 * The daemon accepts by itself and hands connected sockets to libmicrohttpd, which then needs no
 * listening socket: so its stalls at the connection limit and on EMFILE do not exist, several
 * sockets feed one daemon, and the limit is a backlog that waits.
 */
#ifndef TR_SERVER_HTTP_LISTEN_H
#define TR_SERVER_HTTP_LISTEN_H

#include <sys/socket.h>
#include <uv.h>

#include "config/err.h"
#include "config/options.h"

enum { SRV_MAX_SOCKETS = 4 };

/* Takes over the connected, non-blocking socket. */
typedef void (*srv_accept_fn)(void *arg, int fd, const struct sockaddr *addr, socklen_t n);
/* There is no descriptor for a connection that waits. */
typedef void (*srv_exhausted_fn)(void *arg);

/* Why clients are left in the backlog; any one is enough. */
enum srv_pause { SRV_PAUSE_FULL = 1, SRV_PAUSE_RETRY = 2 };

struct srv_socket {
    struct srv_listen *owner;
    int fd;
    uv_poll_t poll;
    bool polling; /* the poll handle is initialised */
};

struct srv_listen {
    struct srv_socket sockets[SRV_MAX_SOCKETS];
    int n;
    char url[128]; /* http://HOST:PORT as bound */
    int port;
    const char *unix_path; /* unlinked at the end; NULL = none */
    ino_t unix_inode;      /* by which it is known again */
    srv_accept_fn on_accept;
    srv_exhausted_fn on_exhausted;
    void *arg;
    uv_timer_t retry; /* accepting again after the process ran out of descriptors */
    unsigned paused;  /* enum srv_pause */
    bool loopback;    /* every TCP socket listens there only */
    bool started;
    bool passed; /* the sockets came from systemd: clients wait in their backlog */
};

/* Binds host:port, unix_socket, and what systemd passed, without accepting yet: a port that is
 * taken is known before a checkpoint is loaded. */
TR_NODISCARD int srv_listen_bind(struct srv_listen *l, const struct tr_options *options,
                                 struct tr_err *err);
/* Begins to accept; the loop outlives the listener. */
TR_NODISCARD int srv_listen_start(struct srv_listen *l, uv_loop_t *loop, srv_accept_fn on_accept,
                                  srv_exhausted_fn on_exhausted, void *arg, struct tr_err *err);
/* Leaves clients in the backlog, and fetches them again when no reason is left. */
void srv_listen_pause(struct srv_listen *l, enum srv_pause why);
void srv_listen_resume(struct srv_listen *l, enum srv_pause why);
/* Closes everything; also right after a failed bind, or twice. The handles are closed by the
 * loop. */
void srv_listen_stop(struct srv_listen *l);

#endif
