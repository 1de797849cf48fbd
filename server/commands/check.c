/* `trinityd check`: loads a checkpoint as the daemon would, every check included, and says what
 * it is. */
#include <stdio.h>
#include <string.h>

#include "engine/text/tokenizer.h"
#include "server/commands/commands.h"
#include "server/load.h"

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
    for (const char *line = i->warnings; *line;) {
        int n = (int)strcspn(line, "\n");
        printf("warning       %.*s\n", n, line);
        line += n + (line[n] == '\n');
    }
}

static void on_event(void *arg, const struct tr_event *event)
{
    (void)arg;
    (void)event;
}

int srv_check(const struct tr_options *o)
{
    struct tr_engine *e;
    struct tr_err err;
    if (srv_engine_open(&e, o, on_event, NULL, &err) < 0) {
        fprintf(stderr, "trinityd: %s\n", err.msg);
        return 1;
    }
    describe(e);
    tr_engine_close(e);
    return 0;
}
