/* One request and its event stream on a socket that does not block. */
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config/clock.h"
#include "tests/bench/load/load.h"

void stream_fail(struct stream *s, const char *error)
{
    if (s->phase == PHASE_DONE)
        return;
    s->error = error;
    s->phase = PHASE_DONE;
    s->end_ns = tr_clock_ns();
}

void stream_reset(struct stream *s)
{
    if (s->fd > 0)
        close(s->fd);
    tr_buf_done(&s->out);
    tr_buf_done(&s->head);
    tr_buf_done(&s->line);
    tr_buf_done(&s->text);
    *s = (struct stream){.fd = -1, .usage = -1};
}

int stream_begin(struct stream *s, const struct sockaddr *addr, socklen_t n, struct tr_buf *request)
{
    s->start_ns = tr_clock_ns();
    s->out = *request;
    *request = (struct tr_buf){0};
    s->phase = PHASE_CONNECT;
    s->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || (connect(s->fd, addr, n) < 0 && errno != EINPROGRESS)) {
        stream_fail(s, "connect");
        return -1;
    }
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return 0;
}

/* ---- events ---- */

static const char *text_of(const json_t *choice, size_t *n)
{
    const json_t *t = json_object_get(choice, "text");
    const json_t *delta = json_object_get(choice, "delta");
    if (!t && delta) {
        t = json_object_get(delta, "content");
        if (!json_is_string(t))
            t = json_object_get(delta, "reasoning_content");
    }
    *n = json_is_string(t) ? json_string_length(t) : 0;
    return json_is_string(t) ? json_string_value(t) : "";
}

static void on_token(struct stream *s)
{
    int64_t now = tr_clock_ns();
    if (s->tokens++ == 0) {
        s->first_ns = now;
    } else {
        double gap = (double)(now - s->last_ns) * 1e-9;
        s->worst_gap = gap > s->worst_gap ? gap : s->worst_gap;
        if (s->gaps)
            list_add(s->gaps, gap);
    }
    s->last_ns = now;
}

static void on_event(struct stream *s, const char *data, size_t len)
{
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        s->done = true;
        s->end_ns = tr_clock_ns();
        return;
    }
    json_t *event = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
    if (!event) {
        stream_fail(s, "an event that is no JSON");
        return;
    }
    if (json_object_get(event, "error"))
        stream_fail(s, "an error within the stream");
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *usage = json_object_get(json_object_get(event, "usage"), "completion_tokens");
    size_t n;
    const char *text = text_of(choice, &n);
    if (n > 0) {
        on_token(s);
        tr_buf_add(&s->text, text, n);
    }
    if (json_is_integer(usage))
        s->usage = (int)json_integer_value(usage);
    json_decref(event);
}

static void on_body(struct stream *s, const char *p, size_t n)
{
    for (const char *end = p + n; p < end && s->phase == PHASE_BODY;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        tr_buf_add(&s->line, p, (size_t)(stop - p));
        p = nl ? nl + 1 : end;
        if (!nl)
            break;
        while (s->line.len && s->line.data[s->line.len - 1] == '\r')
            s->line.len--;
        if (s->line.len > 5 && memcmp(s->line.data, "data:", 5) == 0) {
            size_t skip = s->line.data[5] == ' ' ? 6 : 5;
            on_event(s, s->line.data + skip, s->line.len - skip);
        }
        tr_buf_clear(&s->line);
    }
}

/* ---- the framing of a body ---- */

/* A chunk's size line, gathered in s->head. */
static void on_size_line(struct stream *s)
{
    s->left = strtoul(s->head.data, NULL, 16);
    tr_buf_clear(&s->head);
    s->chunk = CHUNK_DATA;
    if (s->left > 0)
        return;
    if (s->phase == PHASE_BODY && s->done)
        s->phase = PHASE_DONE;
    else
        stream_fail(s, "a stream without [DONE]");
}

static void on_chunks(struct stream *s, const char *p, size_t n)
{
    while (n > 0 && s->phase == PHASE_BODY) {
        if (s->chunk == CHUNK_DATA) {
            size_t take = n < s->left ? n : s->left;
            on_body(s, p, take);
            p += take, n -= take, s->left -= take;
            if (s->left == 0)
                s->chunk = CHUNK_END;
            continue;
        }
        char c = *p++;
        n--;
        if (c != '\n') {
            if (c != '\r')
                tr_buf_addc(&s->head, c);
        } else if (s->chunk == CHUNK_END) {
            s->chunk = CHUNK_SIZE;
        } else {
            on_size_line(s);
        }
    }
}

static const char *header(const char *head, const char *name)
{
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0)
            return line + 2 + strlen(name);
    return NULL;
}

static void on_head(struct stream *s)
{
    static const char *const refusals[] = {"400", "429 (queue full)", "500", "502", "503", "504"};
    const char *coding = header(s->head.data, "transfer-encoding:");
    s->status = s->head.len > 12 ? atoi(s->head.data + 9) : 0;
    s->chunked = coding && strcasestr(coding, "chunked");
    s->phase = PHASE_BODY;
    if (s->status == 200)
        return;
    for (size_t i = 0; i < TR_ARRAY_LEN(refusals); i++)
        if (atoi(refusals[i]) == s->status)
            stream_fail(s, refusals[i]);
    stream_fail(s, "another status");
}

static void on_bytes(struct stream *s, const char *p, size_t n)
{
    if (s->phase == PHASE_HEAD) {
        size_t before = s->head.len;
        tr_buf_add(&s->head, p, n);
        tr_buf_addc(&s->head, 0); /* strstr() ends there */
        s->head.len--;
        char *end = s->head.data ? strstr(s->head.data, "\r\n\r\n") : NULL;
        if (!end)
            return;
        size_t used = (size_t)(end + 4 - s->head.data) - before;
        end[2] = 0;
        s->head.len = (size_t)(end + 2 - s->head.data);
        on_head(s);
        tr_buf_clear(&s->head);
        p += used, n -= used;
    }
    if (s->phase == PHASE_BODY && s->chunked)
        on_chunks(s, p, n);
    else if (s->phase == PHASE_BODY)
        on_body(s, p, n);
}

static void on_end(struct stream *s)
{
    if (s->phase == PHASE_BODY && !s->chunked && s->done)
        s->phase = PHASE_DONE;
    else
        stream_fail(s, "the connection ended early");
}

static void send_out(struct stream *s)
{
    while (s->sent < s->out.len) {
        ssize_t n = send(s->fd, s->out.data + s->sent, s->out.len - s->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            stream_fail(s, s->phase == PHASE_CONNECT ? "connect" : "send");
            return;
        }
        s->phase = PHASE_SEND;
        s->sent += (size_t)n;
    }
    s->phase = PHASE_HEAD;
}

void stream_turn(struct stream *s)
{
    char bytes[1 << 16];
    if (s->phase == PHASE_CONNECT || s->phase == PHASE_SEND) {
        send_out(s);
        return;
    }
    while (s->phase == PHASE_HEAD || s->phase == PHASE_BODY) {
        ssize_t n = recv(s->fd, bytes, sizeof bytes, 0);
        if (n > 0)
            on_bytes(s, bytes, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            return;
        else
            on_end(s);
    }
}
