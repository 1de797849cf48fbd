#include "server/api/routes.h"

#include "server/api/admin.h"
#include "server/api/batches.h"
#include "server/api/cache.h"
#include "server/api/chat.h"
#include "server/api/completions.h"
#include "server/api/engine_view.h"
#include "server/api/files.h"
#include "server/api/messages.h"
#include "server/api/openapi.h"
#include "server/api/page.h"
#include "server/api/prometheus.h"
#include "server/api/reload.h"
#include "server/api/responses.h"
#include "server/api/tokenize.h"
#include "server/metrics.h"

const struct srv_route *const srv_routes[] = {
    &srv_completions_route, &srv_chat_route,           &srv_responses_route,
    &srv_messages_route,    &srv_count_tokens_route,   &srv_models_route,
    &srv_model_route,       &srv_capabilities_route,   &srv_capacity_route,
    &srv_snapshots_route,   &srv_snapshot_route,       &srv_tokenize_route,
    &srv_detokenize_route,  &srv_apply_template_route, &srv_tokenizer_info_route,
    &srv_health_route,      &srv_readyz_route,         &srv_livez_route,
    &srv_ping_route,        &srv_version_route,        &srv_metrics_route,
    &srv_openapi_route,     &srv_page_route,           &srv_page_file_route,
    &srv_engine_route,      &srv_engine_events_route,  &srv_usage_route,
    &srv_files_route,       &srv_file_route,           &srv_batches_route,
    &srv_batch_route,       &srv_reload_route,
};
const int srv_n_routes = TR_ARRAY_LEN(srv_routes);
_Static_assert(TR_ARRAY_LEN(srv_routes) <= SRV_MAX_ROUTES, "every route has its counters");
