/* Counters and histograms; loop thread only. What is counted stands with who counts it. */
#ifndef TR_SERVER_METRICS_H
#define TR_SERVER_METRICS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SRV_MAX_BUCKETS = 24,
    SRV_MAX_ROUTES = 32,
    SRV_N_CODES = 20 /* statuses counted apart */
};

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

struct srv_histogram_info {
    const char *name, *alias, *help; /* alias: vLLM's name */
    const double *edges;
    size_t n_edges;
};
extern const struct srv_histogram_info srv_histograms[SRV_N_HISTS];

enum srv_reason {
    SRV_REASON_STOP,
    SRV_REASON_LENGTH,
    SRV_REASON_ABORT,
    SRV_REASON_ERROR,
    SRV_N_REASONS
};

struct srv_metrics {
    struct srv_histogram hists[SRV_N_HISTS];
    uint64_t requests[SRV_MAX_ROUTES + 1][SRV_N_CODES]; /* the last route is "other" */
    uint64_t finished[SRV_N_REASONS];                   /* answers */
    uint64_t cancelled_calls, stalled_streams, refused_connections;
    uint64_t reloads, failed_reloads; /* of the checkpoint */
};

extern const int srv_metrics_codes[SRV_N_CODES]; /* 0 = any other */

void srv_metrics_observe(struct srv_metrics *m, enum srv_histogram_id id, double x);
/* An HTTP request has left. route: its place in the table, SRV_MAX_ROUTES = none. */
void srv_metrics_request(struct srv_metrics *m, int route, int status);

#endif
