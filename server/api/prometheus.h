/*
 * GET /metrics: counters and histograms as Prometheus reads them.
 *
 * What the engine counts is read from its snapshot when the page is made. Names are our own; with
 * metrics_compat=vllm the same values appear once more under the names that dashboards and gateways
 * of vLLM ask for.
 */
#ifndef TR_SERVER_API_PROMETHEUS_H
#define TR_SERVER_API_PROMETHEUS_H

#include "server/http/route.h"

extern const struct srv_route srv_metrics_route;

#endif
