/*
 * Spans on their way to a collector: OTLP as JSON, over plain HTTP (no TLS: a collector beside the
 * daemon forwards).
 *
 * Whoever has a span puts it into a bounded queue and goes on; a thread of its own posts what is
 * there, some at a time. A collector that is slow, silent or gone costs spans, which are counted,
 * and nothing else.
 */
#ifndef TR_SERVER_SPANS_H
#define TR_SERVER_SPANS_H

#include "config/buf.h"
#include "config/err.h"
#include "config/options.h"

struct srv_spans;

/* The port of o->otlp_endpoint, 0 = there is none. TR_ECONFIG: it is no http://HOST[:PORT]/PATH. */
TR_NODISCARD int srv_spans_port(const struct tr_options *o, int *ret, struct tr_err *err);
/* Looks the host up, once: before the confinement. *ret NULL: no endpoint. */
TR_NODISCARD int srv_spans_open(struct srv_spans **ret, const struct tr_options *o,
                                struct tr_err *err);
/* Starts the thread. */
TR_NODISCARD int srv_spans_start(struct srv_spans *s, struct tr_err *err);
/* Takes the objects of some spans over, ", " between them. Never waits. */
void srv_spans_put(struct srv_spans *s, struct tr_buf *objects, int n);
struct srv_spans_counts {
    uint64_t sent, dropped;
};
struct srv_spans_counts srv_spans_counts(struct srv_spans *s); /* NULL: zeros */
/* Posts what waits, for a second at most. NULL ok. */
void srv_spans_close(struct srv_spans *s);

#endif
