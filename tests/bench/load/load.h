/* A load driver for event streams: many requests against one server, each timed token by token and compared with the
 * answer that the same prompt had alone. */
#ifndef TESTS_BENCH_LOAD_H
#define TESTS_BENCH_LOAD_H

#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "config/buf.h"

struct plan {
    const char *url, *model, *prompts, *json, *svg;
    int requests, concurrency, max_tokens;
    double rate; /* arrivals a second, Poisson; 0: as many at once as `concurrency` */
    uint64_t seed;
    bool check, ignore_eos, chat;
    double slo_ttft, slo_gap, slo_e2e; /* seconds; 0 = none */
    double patience;                   /* seconds that one request may take */
};

/* ---- one request ---- */

enum phase { PHASE_IDLE, PHASE_CONNECT, PHASE_SEND, PHASE_HEAD, PHASE_BODY, PHASE_DONE };
enum chunk { CHUNK_SIZE, CHUNK_DATA, CHUNK_END };

struct stream {
    enum phase phase;
    int fd, prompt;
    int64_t start_ns, first_ns, last_ns, end_ns;
    int64_t due_ns;    /* when it was to arrive; waits before the start count */
    struct tr_buf out; /* bytes still to be sent */
    size_t sent;
    struct tr_buf head, line; /* unfinished head, unfinished line of the event stream */
    struct tr_buf text;       /* the answer so far */
    int status, tokens;       /* tokens: events with text */
    int usage;                /* completion tokens as the server counts them, -1 = not said */
    bool chunked, done;       /* done: [DONE] was seen */
    enum chunk chunk;
    size_t left;       /* of the chunk */
    const char *error; /* NULL = none; a literal */
    struct list *gaps; /* of this load: where gaps go; NULL = nowhere */
    double worst_gap;
};

struct list {
    double *v;
    size_t n, cap;
};
void list_add(struct list *l, double x);
/* Sorts in place. */
void list_sort(struct list *l);
/* Of a sorted list, p in 0..1, interpolated; 0 of an empty one. */
double list_at(const struct list *l, double p);
double list_mean(const struct list *l);

/* Begins a request: the connection is under way afterwards. 0, or -1 with s->error. */
int stream_begin(struct stream *s, const struct sockaddr *addr, socklen_t n,
                 struct tr_buf *request);
/* The socket is ready for what `phase` waits for. The phase is DONE when the request has ended, well or not. */
void stream_turn(struct stream *s);
void stream_fail(struct stream *s, const char *error);
/* Closes and forgets, keeps nothing. */
void stream_reset(struct stream *s);

/* ---- the report ---- */

struct result {
    int sent, good, wrong, failed, within; /* within: all SLOs kept */
    int64_t tokens;
    double seconds;
    struct list ttft, gap, tpot, e2e; /* seconds */
    struct {
        const char *what; /* literal */
        int n;
    } errors[16];
    int n_errors;
};

void result_count_error(struct result *r, const char *what);
void report_text(const struct plan *p, struct result *r, FILE *f);
int report_json(const struct plan *p, const struct result *r, const char *path);
int report_svg(const struct plan *p, const struct result *r, const char *path);

#endif
