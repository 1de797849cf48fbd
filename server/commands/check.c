/*
 * `trinityd check`: loads a checkpoint as the daemon would, every check included, and says what it
 * is; with --reference, also how far the engine's answers are from a dense pass in fp32.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/tokenizer.h"
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

static void describe(const struct tr_engine *e)
{
    static const char *const kv_names[] = {
        [TR_KV_F32] = "f32", [TR_KV_BF16] = "bf16", [TR_KV_Q8] = "q8"};
    const struct tr_engine_info *i = tr_engine_info(e);
    const struct tr_tokenizer *t = tr_engine_tokenizer(e);
    uint64_t full =
        i->local_bytes_per_sequence + i->global_bytes_per_token * (uint64_t)i->context_length;
    char a[24], b[24], c[24];
    printf("model         %s\n", i->name);
    printf("parameters    %.2f million\n", (double)i->n_params * 1e-6);
    printf("layers        %d: %d local (window %d), %d global; hidden size %d\n", i->n_layers,
           i->n_local_layers, i->window, i->n_global_layers, i->hidden_size);
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
           srv_bytes_text(b, i->global_bytes_per_token), srv_bytes_text(c, full),
           i->context_length);
    printf("machine       isa %s, OpenBLAS %s, %d threads\n", i->isa, i->blas, i->threads);
    printf("fingerprint   %s\n", i->fingerprint);
    print_lines("warning", i->warnings);
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

/* The engine's logprobs beside those of the dense fp32 pass. */
static int compare(struct tr_engine *e, struct answer *a, const char *model, struct tr_err *err)
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
        double worst = 0, sum = 0;
        int agree = 0;
        for (int i = 0; i < n; i++) {
            double d = fabs(logprobs[i] - a->logprobs[i]);
            worst = fmax(worst, d);
            sum += d;
            agree += best[i] == a->best[i];
        }
        printf("reference     %d tokens in fp32: logprobs differ by %.2g on average, %.2g at most; "
               "best token "
               "equal at %d\n",
               n, sum / n, worst, agree);
    }
    free(tokens);
    free(logprobs);
    free(best);
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
        describe(e);
        if (a.n)
            r = compare(e, &a, o->model, &err);
        tr_engine_close(e);
    }
    if (r < 0)
        fprintf(stderr, "trinityd: %s\n", err.msg);
    free(a.logprobs);
    free(a.best);
    return r < 0 ? 1 : 0;
}
