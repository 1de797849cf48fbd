#include "server/batch/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, MAX_REPLY = 1 << 30 };

void srv_client_init(struct srv_client *c, const char *path)
{
    *c = (struct srv_client){.path = path, .fd = -1};
}

static void hang_up(struct srv_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

void srv_client_done(struct srv_client *c)
{
    hang_up(c);
    tr_buf_done(&c->in);
}

static bool dial(struct srv_client *c)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", c->path);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0 && connect(c->fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return true;
    hang_up(c);
    return false;
}

static bool send_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* More of the reply; 0 at its end, -1 on an error. */
static ssize_t receive(struct srv_client *c)
{
    char *at = c->in.len < MAX_REPLY ? tr_buf_reserve(&c->in, PIECE + 1) : NULL;
    ssize_t got;
    do
        got = at ? recv(c->fd, at, PIECE, 0) : -1;
    while (at && got < 0 && errno == EINTR);
    if (got > 0) {
        c->in.len += (size_t)got;
        c->in.data[c->in.len] = '\0';
    }
    return got;
}

/* The value of a header in the lines before `end`; NULL = absent. */
static const char *header(const char *head, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line && line < end; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1 + strspn(line + n + 1, " ");
    }
    return NULL;
}

static int read_reply(struct srv_client *c, struct srv_reply_view *ret)
{
    const char *end = NULL;
    while (!end) {
        if (receive(c) <= 0)
            return TR_EIO;
        end = strstr(c->in.data, "\r\n\r\n");
    }
    *ret = (struct srv_reply_view){0};
    const char *length = header(c->in.data, end, "Content-Length");
    const char *retry = header(c->in.data, end, "Retry-After");
    const char *id = header(c->in.data, end, "X-Request-Id");
    const char *connection = header(c->in.data, end, "Connection");
    bool last = !length || (connection && strncasecmp(connection, "close", 5) == 0);
    if (sscanf(c->in.data, "HTTP/1.%*1d %3d", &ret->status) != 1)
        return TR_EIO;
    ret->retry_after = retry ? (int)strtol(retry, NULL, 10) : 0;
    if (id)
        snprintf(ret->request_id, sizeof ret->request_id, "%.*s", (int)strcspn(id, "\r"), id);
    size_t begin = (size_t)(end + 4 - c->in.data);
    size_t want = length ? (size_t)strtoull(length, NULL, 10) : SIZE_MAX;
    while (c->in.len - begin < want) {
        ssize_t got = receive(c);
        if (got < 0 || (got == 0 && length))
            return TR_EIO;
        if (got == 0)
            break;
    }
    if (last)
        hang_up(c);
    ret->body = c->in.data + begin;
    ret->n = TR_MIN(want, c->in.len - begin);
    return 0;
}

static int try_once(struct srv_client *c, const struct tr_buf *head, const struct tr_buf *body,
                    struct srv_reply_view *ret)
{
    if (c->fd < 0 && !dial(c))
        return TR_EIO;
    tr_buf_clear(&c->in);
    int r =
        send_all(c->fd, head->data, head->len) && (!body || send_all(c->fd, body->data, body->len))
            ? read_reply(c, ret)
            : TR_EIO;
    if (r < 0)
        hang_up(c);
    return r;
}

int srv_client_ask(struct srv_client *c, const char *url, const struct tr_buf *body,
                   struct srv_reply_view *ret)
{
    struct tr_buf head = {0};
    tr_buf_addf(&head, "%s %s HTTP/1.1\r\nHost: localhost\r\n", body ? "POST" : "GET", url);
    if (body)
        tr_buf_addf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body->len);
    tr_buf_adds(&head, "\r\n");
    bool kept = c->fd >= 0;
    int r = head.oom ? TR_ENOMEM : try_once(c, &head, body, ret);
    if (r == TR_EIO && kept && c->in.len == 0) /* a kept connection may have been closed as idle */
        r = try_once(c, &head, body, ret);
    tr_buf_done(&head);
    return r;
}
