/*
 * `trinityd check`: loads a checkpoint as the daemon would, every check included, and says what it
 * is; with --reference, also how far the engine's answers are from a dense pass in fp32.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "engine/text/tokenizer.h"
#include "engine/view.h"
#include "server/commands/ask.h"
#include "server/commands/commands.h"
#include "server/load.h"

static void print_lines(const char *name, const char *line)
{
    while (*line) {
        int n = (int)strcspn(line, "\n");
        printf("%-13s %.*s\n", name, n, line);
        line += n + (line[n] == '\n');
    }
}

/* ---- what follows from the sizes ---- */

/* What a sequence of n tokens takes of the cache, at most. */
static uint64_t sequence_bytes(const struct tr_engine_info *i, int n)
{
    return i->local_bytes_per_sequence + i->global_bytes_per_token * (uint64_t)n;
}

/* What a machine's memory leaves for the cache; negative: so much is missing. */
static int64_t cache_within(const struct tr_engine_info *i, uint64_t memory)
{
    return (int64_t)(memory - i->weight_bytes - i->buffer_bytes);
}

/* Sequences of n tokens that a cache of so many bytes holds at once. */
static int64_t sequences_within(const struct tr_engine_info *i, int64_t cache, int n)
{
    return cache > 0 ? cache / (int64_t)sequence_bytes(i, n) : 0;
}

/* Weights that one sequence reads for a token. */
static double token_bytes(const struct tr_engine_info *i)
{
    double experts = i->n_experts ? (double)i->n_active_experts / i->n_experts : 0;
    return (double)i->step_bytes + (double)i->expert_bytes * experts;
}

/* Bytes a second that the threads read weights at; 0 = there are none in memory. */
static double read_limit(struct tr_engine *e)
{
    struct tr_engine_stats st;
    tr_engine_stats(e, &st);
    return st.run.read_limit;
}

static char kind_of(const struct tr_engine *e, int layer)
{
    return tr_engine_layer_is_global(e, layer) ? 'G' : 'L';
}

/* ---- as text ---- */

static const char *const kv_names[] = {
    [TR_KV_F32] = "f32", [TR_KV_BF16] = "bf16", [TR_KV_Q8] = "q8"};

static void describe_plan(const struct tr_engine_info *i, uint64_t memory)
{
    char a[24], b[24];
    int64_t cache = cache_within(i, memory);
    srv_bytes_text(a, memory);
    if (cache < 0)
        printf("in %-10s weights and buffers lack %s\n", a, srv_bytes_text(b, (uint64_t)-cache));
    else
        printf("in %-10s %s are left for the cache: %lld sequences of %d tokens\n", a,
               srv_bytes_text(b, (uint64_t)cache),
               (long long)sequences_within(i, cache, i->context_length), i->context_length);
}

static void describe(struct tr_engine *e, const struct tr_options *o)
{
    const struct tr_engine_info *i = tr_engine_info(e);
    const struct tr_tokenizer *t = tr_engine_tokenizer(e);
    double limit = read_limit(e);
    char a[24], b[24], c[24];
    printf("model         %s\n", i->name);
    printf("parameters    %.2f million\n", (double)i->n_params * 1e-6);
    printf("layers        %d: %d local (window %d), %d global; hidden size %d\n", i->n_layers,
           i->n_local_layers, i->window, i->n_global_layers, i->hidden_size);
    printf("kinds         ");
    for (int n = 0; n < i->n_layers; n++)
        putchar(kind_of(e, n));
    putchar('\n');
    printf("vocabulary    %d rows; end %d; chat template: %s\n", tr_tokenizer_size(t),
           tr_tokenizer_eos(t), tr_engine_chat_template(e) ? "yes" : "no");
    printf("weights       %s: %s in files, %s in memory\n", i->weights,
           srv_bytes_text(a, i->file_bytes), srv_bytes_text(b, i->weight_bytes));
    print_lines("stored as", i->formats);
    printf("buffers       %s for %d tokens a step, %d sequences\n",
           srv_bytes_text(a, i->buffer_bytes), i->max_batch_tokens, i->max_sequences);
    printf("cache         %s as %s, in pages of %d tokens\n", srv_bytes_text(a, i->kv_cache_bytes),
           kv_names[i->kv_type], i->page_tokens);
    printf("a sequence    %s for its local layers, %s a token for its global ones; "
           "%s at the full context of %d tokens\n",
           srv_bytes_text(a, i->local_bytes_per_sequence),
           srv_bytes_text(b, i->global_bytes_per_token),
           srv_bytes_text(c, sequence_bytes(i, i->context_length)), i->context_length);
    if (o->memory)
        describe_plan(i, o->memory);
    printf("machine       isa %s, OpenBLAS %s, %d threads\n", i->isa, i->blas, i->threads);
    if (limit > 0)
        printf("speed         weights are read at %.1f GB/s: one sequence decodes at most %.1f "
               "tokens/s\n",
               limit * 1e-9, limit / token_bytes(i));
    printf("fingerprint   %s\n", i->fingerprint);
    print_lines("warning", i->warnings);
}

/* ---- as JSON: one object on a line ---- */

static void add_text(struct tr_buf *out, const char *name, const char *text, size_t n)
{
    tr_buf_addf(out, "%s\"%s\": ", out->len > 1 ? ", " : "", name);
    tr_json_quote(out, text, n);
}

static void add_number(struct tr_buf *out, const char *name, double x)
{
    tr_buf_addf(out, ", \"%s\": %.15g", name, x);
}

static void add_lines(struct tr_buf *out, const char *name, const char *line)
{
    tr_buf_addf(out, ", \"%s\": [", name);
    for (const char *sep = ""; *line; sep = ", ") {
        size_t n = strcspn(line, "\n");
        tr_buf_adds(out, sep);
        tr_json_quote(out, line, n);
        line += n + (line[n] == '\n');
    }
    tr_buf_addc(out, ']');
}

static void add_facts(struct tr_buf *out, const struct tr_engine_info *i)
{
    const char *words[][2] = {{"model", i->name},      {"fingerprint", i->fingerprint},

                              {"weights", i->weights}, {"isa", i->isa},
                              {"blas", i->blas},       {"kv_type", kv_names[i->kv_type]}};
    for (size_t n = 0; n < TR_ARRAY_LEN(words); n++)
        add_text(out, words[n][0], words[n][1], strlen(words[n][1]));
    add_number(out, "parameters", (double)i->n_params);
    add_number(out, "local_layers", i->n_local_layers);
    add_number(out, "global_layers", i->n_global_layers);
    add_number(out, "window", i->window);
    add_number(out, "hidden_size", i->hidden_size);
    add_number(out, "experts", i->n_experts);
    add_number(out, "active_experts", i->n_active_experts);
    add_number(out, "context_length", i->context_length);
    add_number(out, "file_bytes", (double)i->file_bytes);
    add_number(out, "weight_bytes", (double)i->weight_bytes);
    add_number(out, "buffer_bytes", (double)i->buffer_bytes);
    add_number(out, "cache_bytes", (double)i->kv_cache_bytes);
    add_number(out, "page_tokens", i->page_tokens);
    add_number(out, "local_bytes_per_sequence", (double)i->local_bytes_per_sequence);
    add_number(out, "global_bytes_per_token", (double)i->global_bytes_per_token);
    add_number(out, "token_bytes", token_bytes(i));
    add_number(out, "threads", i->threads);
    add_lines(out, "formats", i->formats);
    add_lines(out, "warnings", i->warnings);
}

static void add_all(struct tr_buf *out, struct tr_engine *e, const struct tr_options *o)
{
    const struct tr_engine_info *i = tr_engine_info(e);
    const struct tr_tokenizer *t = tr_engine_tokenizer(e);
    double limit = read_limit(e);
    tr_buf_addc(out, '{');
    add_facts(out, i);
    tr_buf_adds(out, ", \"layers\": \"");
    for (int n = 0; n < i->n_layers; n++)
        tr_buf_addc(out, kind_of(e, n));
    tr_buf_addc(out, '"');
    add_number(out, "vocabulary", tr_tokenizer_size(t));
    add_number(out, "end", tr_tokenizer_eos(t));
    tr_buf_addf(out, ", \"chat_template\": %s", tr_engine_chat_template(e) ? "true" : "false");
    add_number(out, "read_bytes_per_second", limit);
    add_number(out, "most_tokens_per_second", limit / token_bytes(i));
    if (o->memory) {
        int64_t cache = cache_within(i, o->memory);
        add_number(out, "memory_bytes", (double)o->memory);
        add_number(out, "memory_cache_bytes", (double)cache);
        add_number(out, "memory_sequences", (double)sequences_within(i, cache, i->context_length));
    }
}

/* Prompt logprobs as the engine delivers them. */
struct answer {
    struct srv_ask ask; /* its mutex guards the rest */
    int n;
    double *logprobs; /* [n - 1] of each next token */
    int32_t *best;    /* [n - 1] */
};

static void on_event(void *arg, const struct tr_event *event)
{
    struct answer *a = arg;
    if (event->kind == TR_EVENT_PROMPT && event->position > 0 && event->position < a->n) {
        a->logprobs[event->position - 1] = (double)event->logprob;
        a->best[event->position - 1] = event->n_top ? event->top[0].id : -1;
    }
}

static int ask_engine(struct tr_engine *e, struct answer *a, struct tr_err *err)
{
    struct tr_job *job = srv_ask_job(srv_ask_ids(e, a->n, 0), a->n);
    if (job)
        job->prompt_logprobs = 1;
    int r = srv_ask_submit(&a->ask, e, job, err);
    return r < 0 ? r : srv_ask_wait(&a->ask, err);
}

/* How far the engine's logprobs are from those of the dense fp32 pass. */
struct distance {
    double mean, worst;
    int agree; /* best tokens that are the same */
};

static int compare(struct tr_engine *e, struct answer *a, const char *model, struct distance *ret,
                   struct tr_err *err)
{
    int n = a->n - 1;
    int32_t *tokens = srv_ask_ids(e, a->n, 0);
    double *logprobs = calloc((size_t)a->n, sizeof *logprobs);
    int32_t *best = calloc((size_t)a->n, sizeof *best);
    int r = tokens && logprobs && best ? ask_engine(e, a, err)
                                       : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0)
        r = tr_engine_reference(model, tr_engine_tokenizer(e), tokens, a->n, logprobs, best, err);
    if (r == 0) {
        for (int i = 0; i < n; i++) {
            double d = fabs(logprobs[i] - a->logprobs[i]);
            ret->worst = fmax(ret->worst, d);
            ret->mean += d / n;
            ret->agree += best[i] == a->best[i];
        }
    }
    free(tokens);
    free(logprobs);
    free(best);
    return r;
}

static int tell(struct tr_engine *e, const struct tr_options *o, struct answer *a,
                struct tr_err *err)
{
    struct distance d = {0};
    struct tr_buf out = {0};
    if (o->json)
        add_all(&out, e, o);
    else
        describe(e, o);
    int r = a->n ? compare(e, a, o->model, &d, err) : 0;
    if (r == 0 && a->n && o->json) {
        add_number(&out, "reference_tokens", a->n - 1);
        add_number(&out, "reference_mean_difference", d.mean);
        add_number(&out, "reference_worst_difference", d.worst);
        add_number(&out, "reference_same_best", d.agree);
    } else if (r == 0 && a->n) {
        printf("reference     %d tokens in fp32: logprobs differ by %.2g on average, %.2g at most; "
               "best token equal at %d\n",
               a->n - 1, d.mean, d.worst, d.agree);
    }
    if (r == 0 && out.oom)
        r = tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0 && o->json)
        printf("%s}\n", out.data);
    tr_buf_done(&out);
    return r;
}

int srv_check(const struct tr_options *o)
{
    struct tr_engine *e;
    struct tr_err err;
    struct answer a = {.ask = SRV_ASK_INIT(on_event, &a),
                       .n = o->reference > 0 ? TR_MAX(o->reference, 2) : 0};
    a.logprobs = calloc((size_t)a.n + 1, sizeof *a.logprobs);
    a.best = calloc((size_t)a.n + 1, sizeof *a.best);
    int r = a.logprobs && a.best ? srv_ask_open(&e, o, &a.ask, &err)
                                 : tr_err_set(&err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0) {
        r = tell(e, o, &a, &err);
        tr_engine_close(e);
    }
    if (r < 0)
        fprintf(stderr, "trinityd: %s\n", err.msg);
    free(a.logprobs);
    free(a.best);
    return r < 0 ? 1 : 0;
}
