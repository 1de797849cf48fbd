/*
 * A connection: what libmicrohttpd does not do for it.
 *
 * A suspended connection hears no disconnect, so its socket is watched beside libmicrohttpd; and
 * libmicrohttpd's only timeout restarts with every byte, so deadlines for requests, answers and
 * streams are kept here, by one timer.
 */
#ifndef TR_SERVER_HTTP_CONN_H
#define TR_SERVER_HTTP_CONN_H

#include <microhttpd.h>
#include <sys/socket.h>
#include <uv.h>

#include "config/list.h"
#include "server/http/problem.h"
#include "server/http/request.h"

struct srv_conn {
    struct srv *srv;
    struct tr_list link;        /* srv.conns */
    struct tr_list idle;        /* srv.idle, between requests */
    struct MHD_Connection *mhd; /* NULL: not handed over yet */
    int fd;                     /* libmicrohttpd's, once it was handed over */
    uv_poll_t watch;
    uv_timer_t timer;
    int open_handles;    /* the two above; the memory goes with the last */
    struct srv_req *req; /* the request under way, NULL between requests */
    int64_t since;       /* loop time of the wait's begin, or its last byte */
    int64_t window;      /* loop time from which its rate is measured */
    int64_t base, seen;  /* bytes moved then, and when last looked at */
    int64_t ahead;       /* until then the bytes it took last are enough */
    bool fresh;          /* nobody has looked yet */
    bool suspended;
    bool hangup; /* the peer will send nothing more */
    bool tls;
    bool again;   /* it had a request before */
    bool refused; /* whatever comes is not read */
    bool partial; /* some of its first head has come */
    struct sockaddr_storage addr;
    socklen_t addr_bytes;
    bool unix_peer;
};

/* An srv_accept_fn, srv = the server: makes the connection. It is handed to libmicrohttpd at once
 * over TLS, else when the head of a request has been looked at. */
void srv_conn_accept(void *srv, int fd, const struct sockaddr *addr, socklen_t n);
/* An srv_exhausted_fn, likewise: a connection between requests gives way. */
void srv_conn_exhausted(void *srv);
/* Closes the socket of a connection that was never handed over. */
void srv_conn_drop(struct srv_conn *c);
/* The same, of one whose socket libmicrohttpd closes. */
void srv_conn_close(struct srv_conn *c);

/* libmicrohttpd's MHD_OPTION_URI_LOG_CALLBACK: the request line is complete. Makes the request. */
void *srv_conn_on_uri(void *srv, const char *uri, struct MHD_Connection *mhd);

/* Between handler calls of libmicrohttpd, on the loop thread only. */
void srv_conn_suspend(struct srv_conn *c);
void srv_conn_resume(struct srv_conn *c);
/* A suspended stream has something to send again: the wait for its client begins now. */
void srv_conn_wake(struct srv_conn *c);
/* The client has taken bytes: its time begins anew, the timer finds out when it fires. */
void srv_conn_touch(struct srv_conn *c);
/* Says on the wire what is wrong, where libmicrohttpd cannot, and ends the connection. */
void srv_conn_refuse(struct srv_conn *c, enum srv_problem why, const char *text);
/* A new wait begins now: for a request, its body, its answer being read. */
void srv_conn_restart_timer(struct srv_conn *c);

#endif
