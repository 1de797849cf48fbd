/* Open and close: a checkpoint becomes weights, pools, buffers and one thread. */
#include "engine/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/hash.h"
#include "config/thread.h"
#include "engine/checkpoint/cost.h"
#include "engine/kernels/blas.h"
#include "engine/machine/machine.h"

enum {
    DEFAULT_PAGE_TOKENS = 32,
    MAX_HEAD_ROWS = 64, /* rows of logits kept at once */
    AUTO_PERCENT = 80   /* of the memory left, for the KV cache */
};

/* Part of the fingerprint: goes up when an order of arithmetic changes. */
static const char numeric_version[] = "trinityd numbers 1";

/* ---- steps of opening ---- */

static int check_options(const struct tr_engine_options *o, struct tr_err *err)
{
    int page = o->page_tokens;
    if (page && (page < 16 || page > 256 || page & (page - 1)))
        return tr_err_set(err, TR_ECONFIG, "page_tokens",
                          "page_tokens must be a power of two from 16 to 256, not %d", page);
    if (o->max_batch_tokens < 1 || o->max_sequences < 1 || o->max_queue < 0 ||
        o->overcommit_percent < 0)
        return tr_err_set(err, TR_ECONFIG, "max_batch_tokens",
                          "max_batch_tokens and max_sequences must be at least 1");
    if (!o->on_event)
        return tr_err_set(err, TR_EINVAL, "on_event", "an event callback is needed");
    return 0;
}

static bool is_commit(const char *s)
{
    return strlen(s) == 40 && strspn(s, "0123456789abcdef") == 40;
}

/* The last component of what the path leads to, without ".gguf"; of a snapshot in the hub's cache,
 * models--OWNER--NAME/snapshots/COMMIT, the NAME. */
static char *model_name(const char *path)
{
    char *real = realpath(path, NULL);
    if (!real)
        return NULL;
    char *name = strrchr(real, '/') + 1;
    char *snapshots = strstr(real, "/snapshots/");
    if (snapshots && is_commit(name)) {
        *snapshots = '\0';
        name = strrchr(real, '/') + 1;
        for (char *dashes; (dashes = strstr(name, "--"));)
            name = dashes + 2;
    }
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0)
        n -= 5;
    char *ret = strndup(n ? name : "model", n ? n : 5);
    free(real);
    return ret;
}

static int open_model(struct tr_engine *e, struct tr_err *err)
{
    const struct tr_engine_options *o = &e->options;
    tr_blas_init();
    e->kernels = tr_kernels_select(o->isa);
    int threads = o->threads ? o->threads : tr_default_threads(TR_CGROUP_ROOT);
    int r = tr_pool_open(&e->pool, threads, err);
    if (r == 0)
        tr_pace_init(&e->pace, e->pool, o->threads == 0);
    if (r < 0)
        return r;
    struct tr_weights_options wo = {.choice = o->weights,
                                    .use_mmap = o->use_mmap,
                                    .packed_cache = o->packed_cache,
                                    .on_packed = o->on_packed,
                                    .on_packed_arg = o->on_packed_arg,
                                    .pool = e->pool,
                                    .on_checked = o->on_checked,
                                    .on_checked_arg = o->on_checked_arg,
                                    .progress = o->progress,
                                    .progress_arg = o->progress_arg};
    struct tr_checkpoint *checkpoint = NULL;
    r = tr_checkpoint_open(&checkpoint, o->model, err);
    if (r == 0)
        r = tr_checkpoint_tokenizer(checkpoint, &e->tokenizer, err);
    if (r == 0)
        r = tr_weights_open(&e->weights, checkpoint, &wo, err);
    if (r == 0)
        e->info.sampling = checkpoint->generation.sampling;
    tr_checkpoint_close(checkpoint);
    return r;
}

/* Equal fingerprints promise equal bits: weights, what is done to them, and in which order. Only
 * the F32 products, which are OpenBLAS's, depend on the processor. */
static struct tr_hash fingerprint(const struct tr_engine *e)
{
    struct tr_hash h = tr_hash(e->weights->fingerprint, sizeof e->weights->fingerprint);
    const int facts[] = {e->options.kv_type, e->options.weights};
    h = tr_hash_link(h, facts, sizeof facts);
    h = tr_hash_link(h, numeric_version, sizeof numeric_version);
    if (strstr(e->weights->types, "f32"))
        h = tr_hash_link(h, tr_blas_core(), strlen(tr_blas_core()));
    return h;
}

static int describe(struct tr_engine *e, struct tr_err *err)
{
    const struct tr_weights *w = e->weights;
    const struct tr_model_config *c = &w->config;
    const struct tr_engine_options *o = &e->options;
    if (o->context_length > c->context)
        return tr_err_set(err, TR_ECONFIG, "context_length",
                          "context_length %d is more than the checkpoint's %d", o->context_length,
                          c->context);
    struct tr_hash h = fingerprint(e);
    snprintf(e->fingerprint, sizeof e->fingerprint, "%016llx%016llx", (unsigned long long)h.hi,
             (unsigned long long)h.lo);
    e->name = model_name(o->model);
    e->warnings = strdup(w->warnings ? w->warnings : "");
    if (o->snapshot_dir)
        e->snapshot_dir = strdup(o->snapshot_dir);
    if (!e->name || !e->warnings || (o->snapshot_dir && !e->snapshot_dir))
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct tr_cost cost = tr_weights_cost(w);
    e->info = (struct tr_engine_info){
        .sampling = e->info.sampling,
        .name = e->name,
        .fingerprint = e->fingerprint,
        .isa = e->kernels->name,
        .blas = tr_blas_core(),
        .weights = w->types,
        .formats = w->formats,
        .warnings = e->warnings,
        .threads = tr_pool_threads(e->pool),
        .context_length = o->context_length ? o->context_length : c->context,
        .vocab_size = c->vocab_size,
        .n_layers = c->n_layers,
        .n_local_layers = c->n_local,
        .n_global_layers = c->n_global,
        .window = c->window,
        .hidden_size = c->hidden_size,
        .n_params = w->n_params,
        .file_bytes = w->file_bytes,
        .weight_bytes = w->memory_bytes,
        .load_seconds = w->load_seconds,
        .from_packed = w->from_packed,
        .step_bytes = cost.step_bytes,
        .expert_bytes = cost.expert_bytes,
        .token_flops = cost.token_flops,
        .n_experts = c->n_experts,
        .n_active_experts = c->n_active,
        .page_tokens = o->page_tokens ? o->page_tokens : DEFAULT_PAGE_TOKENS,
        .kv_type = o->kv_type,
        .max_batch_tokens = o->max_batch_tokens,
        .max_sequences = TR_MIN(o->max_sequences, o->max_batch_tokens),
        .max_queue = o->max_queue,
    };
    e->max_head_rows = TR_MIN(e->info.max_batch_tokens, MAX_HEAD_ROWS);
    return 0;
}

/* What the caches may take when the options leave it open: most of what is left, but no more than
 * twice what the largest batch of the longest sequences needs. */
static uint64_t auto_budget(const struct tr_engine *e)
{
    uint64_t fixed =
        tr_forward_need(e->weights, e->info.max_batch_tokens, e->max_head_rows, e->info.threads) +
        e->weights->cached_bytes;
    uint64_t left = tr_memory_left(TR_CGROUP_ROOT);
    uint64_t most = 2 * (uint64_t)e->info.max_sequences *
                    tr_schedule_need(&e->limits, 1, e->info.context_length, 1);
    return TR_MIN(left > fixed ? (left - fixed) / 100 * AUTO_PERCENT : 0, most);
}

static void set_limits(struct tr_engine *e)
{
    const struct tr_model_config *c = &e->weights->config;
    const struct tr_engine_options *o = &e->options;
    struct tr_engine_info *info = &e->info;
    tr_kv_layout_init(&e->local_layout, o->kv_type, info->page_tokens, c->n_local, c->n_kv_heads,
                      c->head_dim);
    tr_kv_layout_init(&e->global_layout, o->kv_type, info->page_tokens, c->n_global, c->n_kv_heads,
                      c->head_dim);
    struct tr_schedule_options *l = &e->limits;
    *l = (struct tr_schedule_options){
        .shape = {.page_tokens = info->page_tokens,
                  .window = c->window,
                  .has_local = c->n_local > 0,
                  .has_global = c->n_global > 0},
        .fingerprint = fingerprint(e),
        .local_page_cost = tr_local_page_cost(&e->local_layout),
        .global_page_cost = tr_global_page_cost(&e->global_layout),
        .overcommit_percent = o->overcommit_percent,
        .max_rows = info->max_batch_tokens,
        .max_sequences = info->max_sequences,
        .prefix_cache = o->prefix_cache,
        .verify = o->verify,
        .speculation = o->speculation,
    };
    l->budget_bytes = o->kv_cache_bytes ? o->kv_cache_bytes : auto_budget(e);
    info->kv_cache_bytes = l->budget_bytes;
    info->global_bytes_per_token = l->global_page_cost / (uint64_t)info->page_tokens;
    info->local_bytes_per_token = l->local_page_cost / (uint64_t)info->page_tokens;
    info->local_bytes_per_sequence =
        tr_schedule_need(l, 1, info->context_length, 1) -
        l->global_page_cost * (uint64_t)TR_CEIL_DIV(info->context_length, info->page_tokens);
    info->longest_sequence = tr_schedule_longest(l, 1, info->context_length);
    info->max_running = tr_schedule_most_running(l);
    info->choice_bytes = tr__choice_most_bytes(e);
}

/* A cache smaller than one context is no mistake, but nobody should have to find out by asking. */
static int warn_of_small_cache(struct tr_engine *e)
{
    const struct tr_engine_info *info = &e->info;
    if (info->longest_sequence == info->context_length)
        return 0;
    char *more = NULL;
    const char *line = *e->warnings ? "\n" : "";
    if (asprintf(&more,
                 "%s%skv_cache: %llu bytes hold %d tokens of one sequence, the context has %d: "
                 "longer prompts are refused, answers end there",
                 e->warnings, line, (unsigned long long)info->kv_cache_bytes,
                 info->longest_sequence, info->context_length) < 0)
        return TR_ENOMEM;
    free(e->warnings);
    e->info.warnings = e->warnings = more;
    return 0;
}

static int open_caches(struct tr_engine *e, struct tr_err *err)
{
    set_limits(e);
    uint64_t least = tr_schedule_need(&e->limits, 1, 2, 1);
    if (e->limits.budget_bytes < least)
        return tr_err_set(err, TR_ECONFIG, "kv_cache",
                          "kv_cache: %llu bytes are too few, the shortest request needs %llu",
                          (unsigned long long)e->limits.budget_bytes, (unsigned long long)least);
    struct tr_pages_options po = {.local = &e->local_layout,
                                  .global = &e->global_layout,
                                  .budget_bytes = e->limits.budget_bytes,
                                  .verify = e->options.verify,
                                  .poison = e->options.poison_pages};
    int r = tr_pages_open(&e->pages, &po, err);
    if (r < 0)
        return r;
    e->limits.pages = e->pages;
    if (tr_schedule_open(&e->schedule, &e->limits) < 0 || warn_of_small_cache(e) < 0)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    return 0;
}

/* Which ids the sampler may choose: those that stand for a text. */
static int open_samplers(struct tr_engine *e)
{
    int vocab = e->info.vocab_size;
    e->eog = tr_tokenizer_eog(e->tokenizer, &e->n_eog);
    e->valid = calloc(tr_idset_words(vocab), sizeof *e->valid);
    e->samplers = calloc((size_t)e->info.threads, sizeof(struct tr_sampler *));
    if (!e->valid || !e->samplers)
        return TR_ENOMEM;
    for (int32_t id = 0; id < vocab; id++)
        if (tr_tokenizer_has_id(e->tokenizer, id))
            tr_idset_add(e->valid, id);
    int r = 0;
    for (int i = 0; i < e->info.threads && r == 0; i++)
        r = tr_sampler_open(&e->samplers[i], e->kernels, vocab, e->valid);
    return r < 0 ? r : tr__constrain_init(e);
}

static int open_buffers(struct tr_engine *e, struct tr_err *err)
{
    struct tr_forward_options fo = {.weights = e->weights,
                                    .kernels = e->kernels,
                                    .pool = e->pool,
                                    .local = &e->local_layout,
                                    .global = &e->global_layout,
                                    .max_rows = e->info.max_batch_tokens,
                                    .max_head_rows = e->max_head_rows};
    int r = tr_forward_open(&e->forward, &fo, err);
    if (r < 0)
        return r;
    size_t sequences = (size_t)e->info.max_sequences;
    e->max_work = 2 * e->max_head_rows;
    e->spans = calloc(sequences, sizeof *e->spans);
    e->heads = calloc(sequences, sizeof *e->heads);
    e->work = calloc((size_t)e->max_work, sizeof *e->work);
    e->tops = calloc((size_t)e->max_work * TOPS_PER_WORK, sizeof *e->tops);
    if (open_samplers(e) < 0 || !e->spans || !e->heads || !e->work || !e->tops)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    e->info.buffer_bytes = tr_forward_bytes(e->forward);
    return 0;
}

static int start_thread(struct tr_engine *e, struct tr_err *err)
{
    tr__expect_first(e);
    tr__count_open(e);
    if (tr__inbox_init(&e->inbox) < 0)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    e->has_inbox = true;
    tr__view_init(&e->view);
    e->inbox.seats = e->info.max_sequences;
    e->stats.expected_tokens = e->now.expected_tokens;
    e->stats.heartbeat_ns = tr_clock_ns();
    if (tr_thread_start(&e->thread, "engine", tr__engine_thread, e))
        return tr_err_set(err, TR_ENOMEM, NULL, "cannot start the engine thread");
    e->started = true;
    return 0;
}

int tr_engine_open(struct tr_engine **ret, const struct tr_engine_options *options,
                   struct tr_err *err)
{
    int r = check_options(options, err);
    if (r < 0)
        return r;
    struct tr_engine *e = calloc(1, sizeof *e);
    if (!e)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    e->options = *options;
    pthread_mutex_init(&e->stats_mutex, NULL);
    pthread_mutex_init(&e->vocab_mutex, NULL);
    r = open_model(e, err);
    if (r == 0)
        r = describe(e, err);
    if (r == 0)
        r = open_caches(e, err);
    if (r == 0)
        r = open_buffers(e, err);
    if (r == 0)
        r = start_thread(e, err);
    if (r < 0) {
        tr_engine_close(e);
        return r;
    }
    *ret = e;
    return 0;
}

struct tr_engine *tr_engine_close(struct tr_engine *e)
{
    if (!e)
        return NULL;
    if (e->started) {
        tr__inbox_close(&e->inbox);
        pthread_join(e->thread, NULL);
    }
    if (e->has_inbox)
        tr__inbox_done(&e->inbox);
    for (int i = 0; e->samplers && i < e->info.threads; i++)
        tr_sampler_close(e->samplers[i]);
    free(e->samplers);
    tr__constrain_done(e);
    free(e->valid);
    free(e->spans);
    free(e->heads);
    free(e->work);
    free(e->tops);
    tr_forward_close(e->forward);
    tr_schedule_close(e->schedule);
    tr_pages_close(e->pages);
    tr_tokenizer_free(e->tokenizer);
    tr_weights_close(e->weights);
    tr_pool_close(e->pool);
    pthread_mutex_destroy(&e->stats_mutex);
    pthread_mutex_destroy(&e->vocab_mutex);
    free(e->name);
    free(e->warnings);
    free(e->snapshot_dir);
    free(e);
    return NULL;
}

/* ---- facts and numbers ---- */

const struct tr_engine_info *tr_engine_info(const struct tr_engine *e)
{
    return &e->info;
}

const struct tr_tokenizer *tr_engine_tokenizer(const struct tr_engine *e)
{
    return e->tokenizer;
}

const char *tr_engine_chat_template(const struct tr_engine *e)
{
    return tr_tokenizer_chat_template(e->tokenizer);
}

int64_t tr_engine_capacity(const struct tr_engine *e, int tokens)
{
    uint64_t need = tr_schedule_need(&e->limits, 1, TR_MAX(tokens, 2), 1);
    return (int64_t)(e->info.kv_cache_bytes / need);
}

void tr_engine_stats(struct tr_engine *e, struct tr_engine_stats *ret)
{
    pthread_mutex_lock(&e->stats_mutex);
    *ret = e->stats;
    pthread_mutex_unlock(&e->stats_mutex);
}

int tr_engine_retry_after(struct tr_engine *e)
{
    struct tr_engine_stats s;
    tr_engine_stats(e, &s);
    double seconds = 0;
    if (s.prefill_tokens_per_second > 0)
        seconds += (double)s.queued_prompt_tokens / s.prefill_tokens_per_second;
    if (s.decode_tokens_per_second > 0)
        seconds += (double)s.queued_decode_tokens / s.decode_tokens_per_second;
    return (int)TR_MIN(TR_MAX(seconds + 0.999, 1.0), 120.0);
}
