#include "server/api/prometheus.h"

#include "server/http/bodies.h"
#include "server/http/reply.h"
#include "server/log.h"
#include "server/process.h"
#include "server/server.h"
#include "server/spans.h"
#include "server/swap.h"

struct page {
    struct tr_buf *out;
    const char *prefix; /* "trinityd_", "vllm:" or "llamacpp:" */
    bool alias;
    struct tr_buf model; /* model_name="..." */
};

static void head(struct page *p, const char *name, const char *type, const char *help)
{
    tr_buf_addf(p->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", p->prefix, name, help, p->prefix, name,
                type);
}

/* One sample without labels of its own. NULL = the metric has no such name. */
static void value(struct page *p, const char *own, const char *alias, const char *type,
                  const char *help, double x)
{
    const char *name = p->alias ? alias : own;
    if (!name)
        return;
    head(p, name, type, help);
    tr_buf_addf(p->out, "%s%s{%s} %.15g\n", p->prefix, name, p->model.data, x);
}

static void histogram(struct page *p, int id, const struct srv_histogram *h)
{
    const char *name = p->alias ? srv_histograms[id].alias : srv_histograms[id].name;
    uint64_t below = 0;
    head(p, name, "histogram", srv_histograms[id].help);
    for (size_t i = 0; i < srv_histograms[id].n_edges; i++) {
        below += h->buckets[i];
        tr_buf_addf(p->out, "%s%s_bucket{%s,le=\"%g\"} %llu\n", p->prefix, name, p->model.data,
                    srv_histograms[id].edges[i], (unsigned long long)below);
    }
    tr_buf_addf(p->out, "%s%s_bucket{%s,le=\"+Inf\"} %llu\n", p->prefix, name, p->model.data,
                (unsigned long long)h->count);
    tr_buf_addf(p->out, "%s%s_sum{%s} %.9g\n%s%s_count{%s} %llu\n", p->prefix, name, p->model.data,
                h->sum, p->prefix, name, p->model.data, (unsigned long long)h->count);
}

static void requests(struct page *p, const struct srv *s)
{
    const struct srv_metrics *m = &s->metrics;
    head(p, "http_requests_total", "counter", "HTTP requests by path and status.");
    for (int r = 0; r <= SRV_MAX_ROUTES; r++)
        for (int i = 0; i < SRV_N_CODES; i++)
            if (m->requests[r][i])
                tr_buf_addf(p->out, "%shttp_requests_total{path=\"%s\",code=\"%d\"} %llu\n",
                            p->prefix, r < s->n_routes ? s->routes[r]->path : "other",
                            srv_metrics_codes[i], (unsigned long long)m->requests[r][i]);
}

static void finished(struct page *p, const struct srv_metrics *m)
{
    static const char *const reasons[SRV_N_REASONS] = {"stop", "length", "abort", "error"};
    const char *name = p->alias ? "request_success_total" : "answers_total";
    head(p, name, "counter", "Finished answers by reason.");
    for (int i = 0; i < SRV_N_REASONS; i++)
        tr_buf_addf(p->out, "%s%s{%s,finished_reason=\"%s\"} %llu\n", p->prefix, name,
                    p->model.data, reasons[i], (unsigned long long)m->finished[i]);
}

/* A sample with a label of its own, of a metric whose head is written. */
static void sample(struct page *p, const char *name, const char *label, const char *word, double x)
{
    tr_buf_addf(p->out, "%s%s{%s,%s=\"%s\"} %.15g\n", p->prefix, name, p->model.data, label, word,
                x);
}

static double share(int used, int total)
{
    return total > 0 ? (double)used / total : 0;
}

void srv_engine_numbers(const struct tr_engine_stats *st, const struct tr_engine_info *info,
                        srv_number_fn fn, void *arg)
{
    const char *g = "gauge", *c = "counter";
    double use = TR_MAX(share(st->local_pages_used, st->local_pages_total),
                        share(st->global_pages_used, st->global_pages_total));
    fn(arg, "requests_running", "num_requests_running", g, "Jobs in the batch.", st->running);
    fn(arg, "requests_waiting", "num_requests_waiting", g, "Jobs in the queue.", st->waiting);
    fn(arg, "requests_paused", NULL, g, "Jobs that wait for a slow reader.", st->paused);
    fn(arg, "kv_cache_usage_ratio", "kv_cache_usage_perc", g,
       "Share of the fuller page pool that sequences hold.", use);
    fn(arg, "local_pages_used", NULL, g, "Local pages held by sequences.", st->local_pages_used);
    fn(arg, "local_pages_cached", NULL, g, "Local pages kept for reuse only.",
       st->local_pages_cached);
    fn(arg, "local_pages", NULL, g, "Local pages in the pool.", st->local_pages_total);
    fn(arg, "global_pages_used", NULL, g, "Global pages held by sequences.", st->global_pages_used);
    fn(arg, "global_pages_cached", NULL, g, "Global pages kept for reuse only.",
       st->global_pages_cached);
    fn(arg, "global_pages", NULL, g, "Global pages in the pool.", st->global_pages_total);
    fn(arg, "steps_total", NULL, c, "Engine steps.", (double)st->steps);
    fn(arg, "step_seconds_total", NULL, c, "Time within engine steps.", (double)st->step_ns * 1e-9);
    fn(arg, "weight_bytes_read_total", NULL, c, "Bytes of weights that the steps read.",
       (double)info->step_bytes * (double)st->steps + (double)st->expert_bytes);
    fn(arg, "rows_total", "iteration_tokens_total", c, "Rows of all steps.", (double)st->rows);
    fn(arg, "prefill_rows_total", NULL, c, "Prompt rows of all steps.", (double)st->prefill_rows);
    fn(arg, "decode_rows_total", NULL, c, "Decoding rows of all steps.", (double)st->decode_rows);
    fn(arg, "prompt_tokens_total", "prompt_tokens_total", c, "Prompt tokens of admitted jobs.",
       (double)st->prompt_tokens);
    fn(arg, "generated_tokens_total", "generation_tokens_total", c, "Generated tokens.",
       (double)st->generated_tokens);
    fn(arg, "prefix_queries_total", "prefix_cache_queries_total", c,
       "Prompt tokens looked up in the prefix cache.", (double)st->prefix_queries);
    fn(arg, "prefix_hits_total", "prefix_cache_hits_total", c,
       "Prompt tokens whose keys and values were reused.", (double)st->prefix_hits);
    fn(arg, "preemptions_total", "num_preemptions_total", c,
       "Jobs that lost their pages and were recomputed.", (double)st->preemptions);
    fn(arg, "page_mismatches_total", NULL, c, "Pages whose checksum or recomputation differed.",
       (double)st->page_mismatches);
    fn(arg, "verified_hits_total", NULL, c, "Prefix hits that were recomputed for verification.",
       (double)st->verified_hits);
    fn(arg, "draft_tokens_total", "spec_decode_num_draft_tokens_total", c,
       "Tokens proposed by speculation.", (double)st->draft_tokens);
    fn(arg, "accepted_tokens_total", "spec_decode_num_accepted_tokens_total", c,
       "Proposed tokens that were right.", (double)st->accepted_tokens);
    fn(arg, "prefill_tokens_per_second", NULL, g, "Recent prefill speed.",
       st->prefill_tokens_per_second);
    fn(arg, "decode_tokens_per_second", NULL, g, "Recent decode speed.",
       st->decode_tokens_per_second);
}

static void add_number(void *arg, const char *own, const char *alias, const char *type,
                       const char *help, double x)
{
    value(arg, own, alias, type, help, x);
}

static void engine(struct page *p, const struct tr_engine_stats *st,
                   const struct tr_engine_info *info)
{
    srv_engine_numbers(st, info, add_number, p);
    const char *config = p->alias ? "cache_config_info" : "cache_info";
    head(p, config, "gauge", "Sizes of the cache, as labels.");
    tr_buf_addf(p->out, "%s%s{%s,block_size=\"%d\",num_gpu_blocks=\"%d\"} 1\n", p->prefix, config,
                p->model.data, info->page_tokens, st->global_pages_total);
}

static void constraints(struct page *p, const struct tr_engine_stats *st)
{
    const char *c = "counter";
    value(p, "constrained_tokens_total", NULL, c, "Tokens of constrained answers.",
          (double)st->bound.tokens);
    value(p, "forced_tokens_total", NULL, c, "Of these, tokens that were certain without a draw.",
          (double)st->bound.forced);
    value(p, "partial_head_rows_total", NULL, c,
          "Rows of which only the logits of few allowed tokens were computed.",
          (double)st->bound.part_rows);
    value(p, "mask_seconds_total", NULL, c, "Time spent on masks of constrained answers.",
          (double)st->bound.mask_ns * 1e-9);
}

/* ---- what only this engine has ---- */

static const char *const kinds[] = {"local", "global"}; /* of layers, and so of pages */

static void pages(struct page *p, const struct tr_engine_stats *st)
{
    const struct tr_cache_stats *cache[] = {&st->run.local, &st->run.global};
    const int used[] = {st->local_pages_used, st->global_pages_used};
    const int cached[] = {st->local_pages_cached, st->global_pages_cached};
    head(p, "page_bytes_used", "gauge", "Memory of the pages that sequences hold, by kind.");
    for (int i = 0; i < 2; i++)
        sample(p, "page_bytes_used", "kind", kinds[i],
               (double)used[i] * (double)cache[i]->page_bytes);
    head(p, "page_bytes_cached", "gauge", "Memory of the pages kept for reuse only, by kind.");
    for (int i = 0; i < 2; i++)
        sample(p, "page_bytes_cached", "kind", kinds[i],
               (double)cached[i] * (double)cache[i]->page_bytes);
    head(p, "page_evictions_total", "counter", "Pages kept for reuse that had to go, by kind.");
    for (int i = 0; i < 2; i++)
        sample(p, "page_evictions_total", "kind", kinds[i], (double)cache[i]->evicted);
    head(p, "page_reuses_total", "counter", "Pages that another sequence took up, by kind.");
    for (int i = 0; i < 2; i++)
        sample(p, "page_reuses_total", "kind", kinds[i], (double)cache[i]->reused);
}

static void misses(struct page *p, const struct tr_engine_stats *st)
{
    static const char *const causes[TR_MISSES] = {
        [TR_MISS_NEW] = "new",   [TR_MISS_EVICTED] = "evicted", [TR_MISS_WINDOW] = "window",
        [TR_MISS_REST] = "rest", [TR_MISS_ROWS] = "rows",
    };
    head(p, "prefix_misses_total", "counter",
         "Prompt tokens looked up and not reused: new, their pages evicted, the local pages of "
         "the window before missing, the rest behind whole pages, all rows wanted.");
    for (int i = 0; i < TR_MISSES; i++)
        sample(p, "prefix_misses_total", "cause", causes[i], (double)st->run.missed[i]);
}

static void steps(struct page *p, const char *name, const char *help, double first,
                  const struct tr_step_histogram h[TR_STEP_KINDS])
{
    static const char *const words[TR_STEP_KINDS] = {
        [TR_STEP_PREFILL] = "prefill", [TR_STEP_DECODE] = "decode", [TR_STEP_MIXED] = "mixed"};
    head(p, name, "histogram", help);
    for (int k = 0; k < TR_STEP_KINDS; k++) {
        uint64_t below = 0;
        double edge = first;
        const char *labels = p->model.data;
        for (int i = 0; i < TR_STEP_EDGES; i++, edge *= 2) {
            below += h[k].buckets[i];
            tr_buf_addf(p->out, "%s%s_bucket{%s,kind=\"%s\",le=\"%g\"} %llu\n", p->prefix, name,
                        labels, words[k], edge, (unsigned long long)below);
        }
        below += h[k].buckets[TR_STEP_EDGES];
        tr_buf_addf(p->out, "%s%s_bucket{%s,kind=\"%s\",le=\"+Inf\"} %llu\n", p->prefix, name,
                    labels, words[k], (unsigned long long)below);
        tr_buf_addf(p->out, "%s%s_sum{%s,kind=\"%s\"} %.9g\n%s%s_count{%s,kind=\"%s\"} %llu\n",
                    p->prefix, name, labels, words[k], h[k].sum, p->prefix, name, labels, words[k],
                    (unsigned long long)below);
    }
}

static void experts(struct page *p, const struct tr_engine_stats *st)
{
    head(p, "expert_load_ratio", "gauge",
         "Of each layer of experts, the most rows of late that one got over the mean.");
    for (size_t i = 0; i < TR_ARRAY_LEN(st->run.expert_load); i++) {
        char layer[8];
        snprintf(layer, sizeof layer, "%zu", i);
        if (st->run.expert_load[i] > 0)
            sample(p, "expert_load_ratio", "layer", layer, (double)st->run.expert_load[i]);
    }
}

static void machine(struct page *p, const struct tr_engine_stats *st,
                    const struct tr_engine_info *info)
{
    pages(p, st);
    misses(p, st);
    steps(p, "step_duration_seconds", "Time of a step, by kind of its rows.", TR_STEP_FIRST_SECONDS,
          st->run.seconds);
    steps(p, "step_rows", "Rows of a step, by their kind.", TR_STEP_FIRST_ROWS, st->run.rows);
    experts(p, st);
    value(p, "read_limit_bytes_per_second", NULL, "gauge",
          "How fast the threads could read weights from memory when the daemon started.",
          st->run.read_limit);
    value(p, "decode_read_bytes_per_second", NULL, "gauge",
          "How fast recent decoding steps read weights.", st->run.decode_bytes_a_second);
    value(p, "choice_bytes", NULL, "gauge", "Memory of running choices beside their pages.",
          (double)st->choice_bytes);
    value(p, "choice_limit_bytes", NULL, "gauge", "What running choices may take at most.",
          (double)info->max_running * (double)info->choice_bytes);
    head(p, "build_info", "gauge", "What serves, as labels.");
    tr_buf_addf(p->out,
                "%sbuild_info{%s,version=\"" TR_VERSION "\",fingerprint=\"%s\",isa=\"%s\","
                "blas=\"%s\",weights=\"%s\",threads=\"%d\"} 1\n",
                p->prefix, p->model.data, info->fingerprint, info->isa, info->blas, info->weights,
                info->threads);
}

/* The names that dashboards of llama.cpp's server ask for. */
static void llamacpp(struct page *p, const struct srv_metrics *m, const struct tr_engine_stats *st,
                     const struct tr_engine_info *info)
{
    const char *g = "gauge", *c = "counter";
    double steps = (double)TR_MAX(st->steps, 1);
    double used = (double)st->global_pages_used;
    value(p, "prompt_tokens_total", NULL, c, "Prompt tokens.", (double)st->prompt_tokens);
    value(p, "prompt_seconds_total", NULL, c, "Admission to first token, of all calls.",
          m->hists[SRV_HIST_PREFILL].sum);
    value(p, "tokens_predicted_total", NULL, c, "Generated tokens.", (double)st->generated_tokens);
    value(p, "tokens_predicted_seconds_total", NULL, c, "First to last token, of all calls.",
          m->hists[SRV_HIST_DECODE].sum);
    value(p, "n_decode_total", NULL, c, "Engine steps.", (double)st->steps);
    value(p, "n_busy_slots_per_decode", NULL, g, "Decoding rows a step.",
          (double)st->decode_rows / steps);
    value(p, "prompt_tokens_seconds", NULL, g, "Recent prefill speed.",
          st->prefill_tokens_per_second);
    value(p, "predicted_tokens_seconds", NULL, g, "Recent decode speed.",
          st->decode_tokens_per_second);
    value(p, "kv_cache_usage_ratio", NULL, g, "Share of the global pages that sequences hold.",
          share(st->global_pages_used, st->global_pages_total));
    value(p, "kv_cache_tokens", NULL, g, "Tokens in these.", used * info->page_tokens);
    value(p, "requests_processing", NULL, g, "Jobs in the batch.", st->running);
    value(p, "requests_deferred", NULL, g, "Jobs in the queue.", st->waiting);
}

/* ---- the process ---- */

/* As every exporter names them: without our prefix, without labels. */
static void process_value(struct page *p, const char *name, const char *type, const char *help,
                          double x)
{
    tr_buf_addf(p->out, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.15g\n", name,
                help, name, type, name, x);
}

static void process(struct page *p)
{
    struct srv_process now;
    srv_process_look(&now);
    process_value(p, "cpu_seconds_total", "counter", "Processor time, user and system.",
                  now.cpu_seconds);
    process_value(p, "start_time_seconds", "gauge", "When it began, in seconds since 1970.",
                  now.start_seconds);
    process_value(p, "resident_memory_bytes", "gauge", "Memory in use.", now.resident_bytes);
    process_value(p, "virtual_memory_bytes", "gauge", "Address space in use.", now.virtual_bytes);
    process_value(p, "open_fds", "gauge", "Open descriptors.", now.open_fds);
    process_value(p, "max_fds", "gauge", "Descriptors that it may open.", now.max_fds);
    process_value(p, "threads", "gauge", "Threads.", now.threads);
}

static void page(struct page *p, struct srv *s)
{
    const struct srv_metrics *m = &s->metrics;
    if (s->model) {
        struct tr_engine_stats st;
        tr_engine_stats(s->model->engine, &st);
        engine(p, &st, s->model->info);
        constraints(p, &st);
        if (!p->alias)
            machine(p, &st, s->model->info);
    }
    finished(p, m);
    for (int i = 0; i < SRV_N_HISTS; i++)
        histogram(p, i, &m->hists[i]);
    if (p->alias)
        return;
    requests(p, s);
    value(p, "connections", NULL, "gauge", "Open connections.", s->n_conns);
    value(p, "http_requests_open", NULL, "gauge", "HTTP requests under way.", s->n_requests);
    value(p, "request_body_bytes", NULL, "gauge", "Memory held by request bodies.",
          (double)s->body_bytes);
    value(p, "request_kept_bytes", NULL, "gauge", "Memory that calls keep (request_memory).",
          (double)s->kept_bytes);
    value(p, "request_body_limit_bytes", NULL, "gauge", "What request bodies may take.",
          (double)srv_bodies_most(s));
    value(p, "request_kept_limit_bytes", NULL, "gauge",
          "What calls may keep, and their answers as much again.",
          (double)s->options->request_memory);
    head(p, "reloads_total", "counter", "Times that the checkpoint was loaded again.");
    sample(p, "reloads_total", "result", "done", (double)m->reloads);
    sample(p, "reloads_total", "result", "failed", (double)m->failed_reloads);
    value(p, "reloading", NULL, "gauge", "Whether a checkpoint is loading.", srv_swap_busy(s));
    value(p, "checkpoints_open", NULL, "gauge",
          "Checkpoints in memory: the one that serves, and former ones that answers still need.",
          s->n_models);
    value(p, "requests_held", NULL, "gauge", "Requests that wait for a checkpoint.", s->n_held);
    value(p, "connection_limit", NULL, "gauge", "Connections that may be open.", s->max_conns);
    value(p, "log_lines_dropped_total", NULL, "counter", "Log lines that nobody was there to take.",
          (double)srv_log_dropped());
    struct srv_spans_counts spans = srv_spans_counts(s->spans);
    value(p, "spans_sent_total", NULL, "counter", "Spans that the collector has taken.",
          (double)spans.sent);
    value(p, "spans_dropped_total", NULL, "counter", "Spans that the collector did not take.",
          (double)spans.dropped);
    value(p, "cancelled_calls_total", NULL, "counter", "Calls whose client left.",
          (double)m->cancelled_calls);
    value(p, "stalled_streams_total", NULL, "counter", "Streams ended because nobody read them.",
          (double)m->stalled_streams);
    value(p, "refused_connections_total", NULL, "counter", "Connections that could not be served.",
          (double)m->refused_connections);
}

/* A label's value: backslash, quote and line feed are escaped. */
static void add_label(struct tr_buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '\\' || *s == '"')
            tr_buf_addc(out, '\\');
        if (*s == '\n')
            tr_buf_adds(out, "\\n");
        else
            tr_buf_addc(out, *s);
    }
}

static void get_metrics(struct srv_req *req)
{
    struct srv *s = req->srv;
    struct tr_buf *out = &req->out;
    enum tr_metrics_compat compat = (enum tr_metrics_compat)s->options->metrics_compat;
    struct page p = {.out = out, .prefix = "trinityd_"};
    tr_buf_adds(&p.model, "model_name=\"");
    add_label(&p.model, s->model ? s->model->name : "");
    tr_buf_addc(&p.model, '"');
    page(&p, s);
    process(&p);
    if (s->model && (compat == TR_METRICS_COMPAT_LLAMACPP || compat == TR_METRICS_COMPAT_ALL)) {
        struct tr_engine_stats st;
        tr_engine_stats(s->model->engine, &st);
        p.prefix = "llamacpp:";
        llamacpp(&p, &s->metrics, &st, s->model->info);
    }
    if (compat == TR_METRICS_COMPAT_VLLM || compat == TR_METRICS_COMPAT_ALL) {
        p.prefix = "vllm:";
        p.alias = true;
        tr_buf_adds(&p.model, ",engine=\"0\"");
        page(&p, s);
    }
    out->oom |= p.model.oom;
    tr_buf_done(&p.model);
    srv_reply(req, 200, "text/plain; version=0.0.4; charset=utf-8");
}

const struct srv_route srv_metrics_route = {
    .path = "/metrics",
    .doc = "Prometheus metrics",
    .flags = SRV_ROUTE_OPEN | SRV_ROUTE_ALWAYS | SRV_ROUTE_PROTECTED,
    .media = "text/plain",
    .get = get_metrics,
};
