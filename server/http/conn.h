/*
 * A connection: what libmicrohttpd does not do for it.
 *
 * A suspended connection hears no disconnect, so its socket is watched beside libmicrohttpd; and
 * libmicrohttpd's only timeout restarts with every byte, so deadlines for requests, answers and
 * streams are kept here, by one timer.
 */
#ifndef TR_SERVER_HTTP_CONN_H
#define TR_SERVER_HTTP_CONN_H

#include <sys/socket.h>
#include <uv.h>

#include "server/http/problem.h"
#include "server/http/request.h"

struct MHD_Connection;

struct srv_conn {
    struct srv *srv;
    struct srv_conn *prev, *next;
    struct MHD_Connection *mhd; /* NULL: not handed over yet */
    int fd;                     /* libmicrohttpd's; closed by it after srv_conn_close */
    uv_poll_t watch;
    uv_timer_t timer;
    int open_handles;                       /* the two above; the memory goes with the last */
    struct srv_req *req;                    /* the request under way, NULL between requests */
    struct srv_conn *idle_prev, *idle_next; /* between requests: srv.idle, the longest first */
    int64_t since;                          /* loop time of the wait's begin, or its last byte */
    int64_t window;                         /* loop time from which its rate is measured */
    int64_t base, seen;                     /* bytes moved then, and when last looked at */
    bool fresh;                             /* nobody has looked yet */
    bool idle;
    bool suspended;
    bool hangup; /* the peer will send nothing more */
    bool tls;
    bool again;   /* it had a request before */
    bool refused; /* whatever comes is not read */
    struct sockaddr_storage addr;
    socklen_t addr_bytes;
    bool unix_peer;
};

/* A connected socket; NULL without memory. take_over hands it to libmicrohttpd, which calls
 * srv_conn_taken: at once over TLS, else when the head of a request has been looked at. */
struct srv_conn *srv_conn_open(struct srv *s, int fd, const struct sockaddr *addr, socklen_t n);
void srv_conn_taken(struct srv_conn *c, struct MHD_Connection *mhd);
/* Closes the socket of a connection that was never handed over. */
void srv_conn_drop(struct srv_conn *c);
void srv_conn_close(struct srv_conn *c);

/* Between handler calls of libmicrohttpd, on the loop thread only. */
void srv_conn_suspend(struct srv_conn *c);
void srv_conn_resume(struct srv_conn *c);
/* A suspended stream has something to send again: the wait for its client begins now. */
void srv_conn_wake(struct srv_conn *c);
/* The client has taken bytes: its time begins anew, the timer finds out when it fires. */
void srv_conn_touch(struct srv_conn *c);
/* Says on the wire what is wrong, where libmicrohttpd cannot, and ends the connection. */
void srv_conn_refuse(struct srv_conn *c, enum srv_problem why, const char *text);
/* Ends the connection that has been between requests for the longest time; false: there is none but
 * `newest` (NULL = none). */
bool srv_conn_give_way(struct srv *s, const struct srv_conn *newest);
/* A new wait begins now: for a request, its body, its answer being read. */
void srv_conn_restart_timer(struct srv_conn *c);

#endif
