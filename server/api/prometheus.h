/*
 * GET /metrics: counters and histograms as Prometheus reads them.
 *
 * What the engine counts is read from its snapshot when the page is made. Names are our own; with
 * metrics_compat the same values appear once more under the names that dashboards and gateways of
 * vLLM, or of llama.cpp's server, ask for.
 */
#ifndef TR_SERVER_API_PROMETHEUS_H
#define TR_SERVER_API_PROMETHEUS_H

#include "engine/engine.h"
#include "server/http/route.h"

extern const struct srv_route srv_metrics_route;

/* One number: its name, vLLM's (NULL = none), "gauge" or "counter", what it is. */
typedef void (*srv_number_fn)(void *arg, const char *own, const char *alias, const char *type,
                              const char *help, double x);
/* All that the engine counts, in the order of /metrics: who tells it elsewhere uses these names. */
void srv_engine_numbers(const struct tr_engine_stats *st, const struct tr_engine_info *info,
                        srv_number_fn fn, void *arg);

#endif
