#include "server/metrics.h"

#include "config/base.h"

static const double ttft_edges[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double itl_edges[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double e2e_edges[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                   30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double token_edges[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                     1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
static const double n_edges[] = {1, 2, 5, 10, 20};

#define EDGES(a) a, TR_ARRAY_LEN(a)

const struct srv_histogram_info srv_histograms[SRV_N_HISTS] = {
    [SRV_HIST_TTFT] = {"time_to_first_token_seconds", "time_to_first_token_seconds",
                       "From the request line to the first token.", EDGES(ttft_edges)},
    [SRV_HIST_ITL] = {"inter_token_latency_seconds", "inter_token_latency_seconds",
                      "Between two tokens of a call.", EDGES(itl_edges)},
    [SRV_HIST_TPOT] = {"time_per_output_token_seconds", "request_time_per_output_token_seconds",
                       "Mean time per token of a call after its first.", EDGES(itl_edges)},
    [SRV_HIST_E2E] = {"request_seconds", "e2e_request_latency_seconds",
                      "From the request line to the last token.", EDGES(e2e_edges)},
    [SRV_HIST_QUEUE] = {"queue_seconds", "request_queue_time_seconds", "Wait for admission.",
                        EDGES(e2e_edges)},
    [SRV_HIST_PREFILL] = {"prefill_seconds", "request_prefill_time_seconds",
                          "Admission to first token.", EDGES(e2e_edges)},
    [SRV_HIST_DECODE] = {"decode_seconds", "request_decode_time_seconds", "First to last token.",
                         EDGES(e2e_edges)},
    [SRV_HIST_INFERENCE] = {"inference_seconds", "request_inference_time_seconds",
                            "Admission to last token.", EDGES(e2e_edges)},
    [SRV_HIST_PROMPT_TOKENS] = {"request_prompt_tokens", "request_prompt_tokens",
                                "Prompt tokens of a call.", EDGES(token_edges)},
    [SRV_HIST_ANSWER_TOKENS] = {"request_generation_tokens", "request_generation_tokens",
                                "Generated tokens of a call.", EDGES(token_edges)},
    [SRV_HIST_MAX_TOKENS] = {"request_max_tokens", "request_params_max_tokens",
                             "max_tokens of a call.", EDGES(token_edges)},
    [SRV_HIST_N] = {"request_n", "request_params_n", "n of a call.", EDGES(n_edges)},
};

const int srv_metrics_codes[SRV_N_CODES] = {200, 204, 304, 400, 401, 404, 405, 408, 413, 415,
                                            417, 429, 431, 499, 500, 503, 422, 403, 409, 0};

void srv_metrics_observe(struct srv_metrics *m, enum srv_histogram_id id, double x)
{
    size_t i = 0;
    while (i < srv_histograms[id].n_edges && x > srv_histograms[id].edges[i])
        i++;
    m->hists[id].buckets[i]++;
    m->hists[id].count++;
    m->hists[id].sum += x;
}

void srv_metrics_request(struct srv_metrics *m, int route, int status)
{
    int i = 0;
    while (i < SRV_N_CODES - 1 && srv_metrics_codes[i] != status)
        i++;
    m->requests[route][i]++;
}
