#include "server/api/prometheus.h"

#include "server/http/reply.h"
#include "server/server.h"

struct page {
    struct tr_buf *out;
    const char *prefix; /* "trinityd_" or "vllm:" */
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

static void page(struct page *p, struct srv *s)
{
    const struct srv_metrics *m = &s->metrics;
    if (s->engine) {
        struct tr_engine_stats st;
        tr_engine_stats(s->engine, &st);
        engine(p, &st, s->info);
        constraints(p, &st);
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
    struct page p = {.out = out, .prefix = "trinityd_"};
    tr_buf_adds(&p.model, "model_name=\"");
    add_label(&p.model, s->model ? s->model : "");
    tr_buf_addc(&p.model, '"');
    page(&p, s);
    if (s->options->metrics_compat == TR_METRICS_COMPAT_VLLM) {
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
