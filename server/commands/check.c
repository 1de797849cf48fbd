/*
 * `trinityd check`: loads a checkpoint as the daemon would, every check included, and says what it
 * is, whether its values and its tokenizer can be right, and, if asked, how far the engine's
 * answers are from a dense pass in fp32.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/json.h"
#include "engine/text/tokenizer.h"
#include "engine/view.h"
#include "server/commands/commands.h"
#include "server/commands/compare.h"
#include "server/commands/survey.h"
#include "server/load.h"
#include "server/probe.h"

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

/* ---- what is tried ---- */

struct findings {
    struct srv_survey survey;
    struct srv_probe probe;
    struct srv_distance reference, test; /* no tokens: not asked for */
};

/* The largest mean distance of logprobs that the self-test allows. Where both sides compute in fp32
 * they differ by some 1e-5; a window that is off by one, by far more. */
#define TOLERANCE 1e-3

/* A prompt beyond the window by a step and its pages, so that local pages are dropped on the way;
 * through pages, and dense, both in fp32. */
static int self_test(struct findings *f, const struct tr_engine_info *i, const struct tr_options *o,
                     struct tr_err *err)
{
    struct srv_answer a = SRV_ANSWER_INIT(&a);
    struct tr_options plain = *o;
    struct tr_engine *e;
    int n = TR_MIN(i->window + i->max_batch_tokens + 2 * i->page_tokens, i->context_length - 1);
    if (n <= i->window || n < 2)
        return tr_err_set(err, TR_ENOFIT, "self_test",
                          "self_test: no prompt can be longer than the window of %d", i->window);
    plain.weights = TR_WEIGHTS_F32;
    plain.kv_type = TR_KV_F32;
    plain.kv_cache = 8 * sequence_bytes(i, n) + (1 << 20);
    plain.packed_cache = NULL;
    int r = srv_ask_open(&e, &plain, &a.ask, err);
    if (r < 0)
        return r;
    r = srv_answer_compare(&a, e, o->model, n, &f->test, err);
    tr_engine_close(e);
    return r;
}

static int find_out(struct findings *f, struct tr_engine *e, const struct tr_options *o,
                    struct srv_answer *a, struct tr_err *err)
{
    const struct tr_engine_info *i = tr_engine_info(e);
    struct tr_chat *chat = NULL;
    int n = o->reference > 0 ? TR_MAX(o->reference, 2) : 0;
    int r = srv_survey(&f->survey, o, err);
    if (r == 0)
        r = srv_chat_open(&chat, o, e, err);
    if (r == 0)
        r = srv_probe(&f->probe, tr_engine_tokenizer(e), chat, err);
    tr_chat_close(chat);
    if (r == 0 && n > 0)
        r = srv_answer_compare(a, e, o->model, n, &f->reference, err);
    return r == 0 && o->self_test ? self_test(f, i, o, err) : r;
}

static void print_distance(const char *name, const struct srv_distance *d)
{
    printf("%-13s %d tokens in fp32: logprobs differ by %.2g on average, %.2g at most; "
           "best token equal at %d\n",
           name, d->tokens, d->mean, d->worst, d->agree);
}

static void print_findings(const struct findings *f)
{
    const struct srv_probe *p = &f->probe;
    if (p->exact)
        printf("tokenizer     %d texts in as many scripts and %d added tokens come back as they "
               "went in\n",
               p->texts, p->specials);
    else
        printf("tokenizer     changes or drops bytes of a text: not tried\n");
    if (p->rendered)
        printf("template      makes %d tokens of a question\n", p->rendered);
    else if (p->refused.code)
        print_lines("warning", p->refused.msg);
    if (f->survey.zero.n)
        printf("warning       all values are zero in %d %s: %s%s\n", f->survey.zero.n,
               f->survey.zero.n == 1 ? "tensor" : "tensors", f->survey.zero.names.data,
               f->survey.zero.n > f->survey.zero.shown ? " and others" : "");
    if (f->reference.tokens)
        print_distance("reference", &f->reference);
    if (f->test.tokens) {
        print_distance("self-test", &f->test);
        printf("%-13s both passes compute in fp32: up to %g on average is rounding\n", "",
               TOLERANCE);
    }
    fputs(f->survey.tensors.len ? f->survey.tensors.data : "", stdout);
}

static void add_fault(struct tr_buf *out, const char *name, const struct srv_survey_fault *f)
{
    tr_buf_addf(out, ", \"%s\": [%s]", name, f->n ? f->names.data : "");
}

static void add_distance(struct tr_buf *out, const char *name, const struct srv_distance *d)
{
    if (d->tokens)
        tr_buf_addf(out,
                    ", \"%s_tokens\": %d, \"%s_mean_difference\": %.15g, "
                    "\"%s_worst_difference\": %.15g, \"%s_same_best\": %d",
                    name, d->tokens, name, d->mean, name, d->worst, name, d->agree);
}

static void add_findings(struct tr_buf *out, const struct findings *f)
{
    tr_buf_addf(out, ", \"tokenizer_exact\": %s", f->probe.exact ? "true" : "false");
    add_number(out, "tokenizer_texts", f->probe.texts);
    add_number(out, "tokenizer_added", f->probe.specials);
    add_number(out, "template_tokens", f->probe.rendered);
    if (f->probe.refused.code)
        add_text(out, "template_error", f->probe.refused.msg, strlen(f->probe.refused.msg));
    add_fault(out, "zero_tensors", &f->survey.zero);
    add_fault(out, "nan_tensors", &f->survey.nan);
    add_fault(out, "infinite_tensors", &f->survey.infinite);
    add_distance(out, "reference", &f->reference);
    add_distance(out, "self_test", &f->test);
    if (f->test.tokens)
        add_number(out, "self_test_tolerance", TOLERANCE);
    if (f->survey.list)
        tr_buf_addf(out, ", \"tensors\": [%s]", f->survey.tensors.data);
}

/* ---- what is wrong: one line for each kind ---- */

static int blame(const char *model, const char *what, const struct srv_survey_fault *f)
{
    if (f->n == 0)
        return 0;
    const char *more = !f->shown || f->n == f->shown ? "" : " and others";
    fprintf(stderr, "trinityd: %s: %s in %d %s: %s%s\n", model, what, f->n,
            f->n == 1 ? "tensor" : "tensors", f->names.data, more);
    return -1;
}

static int judge(const struct findings *f, const struct tr_options *o)
{
    int r = blame(o->model, "values that are no number (NaN)", &f->survey.nan);
    r |= blame(o->model, "infinite values", &f->survey.infinite);
    if (f->test.tokens && !(f->test.mean <= TOLERANCE)) {
        fprintf(stderr,
                "trinityd: %s: self-test: logprobs differ by %.2g on average from the dense pass, "
                "beyond %g\n",
                o->model, f->test.mean, TOLERANCE);
        r = -1;
    }
    return r;
}

static int tell(struct tr_engine *e, const struct findings *f, const struct tr_options *o,
                struct tr_err *err)
{
    struct tr_buf out = {0};
    if (o->json) {
        add_all(&out, e, o);
        add_findings(&out, f);
        tr_buf_addc(&out, '}');
    } else {
        describe(e, o);
        print_findings(f);
    }
    int r = out.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
    if (r == 0 && o->json)
        puts(out.data);
    tr_buf_done(&out);
    return r;
}

int srv_check(const struct tr_options *o)
{
    struct tr_engine *e;
    struct tr_err err;
    struct findings f = {0};
    struct srv_answer a = SRV_ANSWER_INIT(&a);
    int r = srv_ask_open(&e, o, &a.ask, &err);
    int fault = 0;
    if (r == 0) {
        r = find_out(&f, e, o, &a, &err);
        if (r == 0)
            r = tell(e, &f, o, &err);
        if (r == 0)
            fault = judge(&f, o);
        tr_engine_close(e);
    }
    if (r < 0)
        fprintf(stderr, "trinityd: %s\n", err.msg);
    srv_survey_done(&f.survey);
    return r < 0 || fault < 0 ? 1 : 0;
}
