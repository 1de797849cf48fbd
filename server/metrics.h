/*
 * Counters and histograms, and their page for Prometheus.
 *
 * Loop thread only: what the engine counts is read from its snapshot when the page is made. Names are our own; with
 * metrics_compat=vllm the same values appear once more under the names that dashboards and gateways of vLLM ask for.
 */
#ifndef TR_SERVER_METRICS_H
#define TR_SERVER_METRICS_H

#include "config/buf.h"

struct srv;
struct srv_call;
struct srv_choice;
struct srv_req;

#define SRV_MAX_BUCKETS 24
#define SRV_MAX_ROUTES  32

enum srv_histogram_id {
    SRV_HIST_TTFT,
    SRV_HIST_ITL,
    SRV_HIST_TPOT,
    SRV_HIST_E2E,
    SRV_HIST_QUEUE,
    SRV_HIST_PREFILL,
    SRV_HIST_DECODE,
    SRV_HIST_INFERENCE,
    SRV_HIST_PROMPT_TOKENS,
    SRV_HIST_ANSWER_TOKENS,
    SRV_HIST_MAX_TOKENS,
    SRV_HIST_N,
    SRV_N_HISTS
};

struct srv_histogram {
    uint64_t buckets[SRV_MAX_BUCKETS + 1]; /* not cumulative; the last is beyond every edge */
    uint64_t count;
    double sum;
};

enum srv_reason {
    SRV_REASON_STOP,
    SRV_REASON_LENGTH,
    SRV_REASON_ABORT,
    SRV_REASON_ERROR,
    SRV_N_REASONS
};

#define SRV_N_CODES 18 /* statuses counted apart, metrics.c */

struct srv_metrics {
    struct srv_histogram hists[SRV_N_HISTS];
    uint64_t requests[SRV_MAX_ROUTES + 1][SRV_N_CODES]; /* the last route is "other" */
    uint64_t finished[SRV_N_REASONS];                   /* answers */
    uint64_t cancelled_calls, stalled_streams, refused_connections;
    uint64_t page_mismatches; /* of the engine's, those that were logged */
};

/* An HTTP request has left. */
void srv_metrics_request(struct srv_metrics *m, const struct srv_req *req);
/* A token of a choice has come, before the choice has seen it. */
void srv_metrics_token(struct srv_metrics *m, const struct srv_call *c, const struct srv_choice *ch,
                       int64_t now_ns);
/* A call has ended and somebody listens. */
void srv_metrics_call(struct srv_metrics *m, const struct srv_call *c);
void srv_metrics_page(struct srv *s, struct tr_buf *out);

#endif
