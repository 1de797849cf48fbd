/* Requests to a daemon over a unix socket, one at a time on a connection that is kept. Blocks. */
#ifndef TR_SERVER_BATCH_CLIENT_H
#define TR_SERVER_BATCH_CLIENT_H

#include "config/buf.h"
#include "config/err.h"

struct srv_client {
    const char *path; /* of the socket, borrowed */
    int fd;           /* -1 = not connected */
    struct tr_buf in; /* the reply */
};

struct srv_reply_view {
    int status;
    int retry_after;     /* seconds, 0 = not told */
    char request_id[64]; /* cut if longer */
    const char *body;    /* n bytes in the client's buffer, until its next call */
    size_t n;
};

void srv_client_init(struct srv_client *c, const char *path);
void srv_client_done(struct srv_client *c);
/* One exchange; body NULL: a GET. TR_EIO: nobody answers, or not as HTTP asks. */
TR_NODISCARD int srv_client_ask(struct srv_client *c, const char *url, const struct tr_buf *body,
                                struct srv_reply_view *ret);

#endif
