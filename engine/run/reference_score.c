/* What the reference pass says of tokens: the checkpoint is opened once more for it. */
#include <math.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/forward/reference.h"
#include "engine/machine/machine.h"
#include "engine/machine/pool.h"
#include "engine/text/tokenizer.h"

/* Log softmax of `next` in one row, and the row's best id. */
static double row_logprob(const float *row, int vocab, int32_t next, const struct tr_tokenizer *t,
                          int32_t *ret_best)
{
    double z = 0;
    int best = -1;
    for (int i = 0; i < vocab; i++)
        if (tr_tokenizer_has_id(t, i) && (best < 0 || row[i] > row[best]))
            best = i;
    for (int i = 0; i < vocab; i++)
        if (tr_tokenizer_has_id(t, i))
            z += exp((double)row[i] - (double)row[best]);
    *ret_best = best;
    return (double)row[next] - (double)row[best] - log(z);
}

int tr_engine_reference(const char *model, const struct tr_tokenizer *t, const int32_t *tokens,
                        int n, double *logprobs, int32_t *best, struct tr_err *err)
{
    struct tr_weights *w = NULL;
    struct tr_pool *pool = NULL;
    float *logits = NULL;
    int r = tr_pool_open(&pool, tr_default_threads(TR_CGROUP_ROOT), err);
    if (r == 0) {
        struct tr_weights_options o = {.choice = TR_WEIGHTS_F32, .use_mmap = true, .pool = pool};
        struct tr_checkpoint *checkpoint = NULL;
        r = tr_checkpoint_open(&checkpoint, model, err);
        if (r == 0)
            r = tr_weights_open(&w, checkpoint, &o, err);
        tr_checkpoint_close(checkpoint);
    }
    if (r == 0) {
        size_t vocab = (size_t)w->config.vocab_size;
        logits = malloc((size_t)n * vocab * sizeof *logits);
        r = logits ? tr_reference_logits(w, tokens, n, logits) : TR_ENOMEM;
        if (r < 0)
            tr_err_set(err, r, NULL, "the reference pass: %s", tr_err_text(r));
        for (int i = 0; r == 0 && i + 1 < n; i++)
            logprobs[i] = row_logprob(logits + i * vocab, (int)vocab, tokens[i + 1], t, &best[i]);
    }
    free(logits);
    tr_weights_close(w);
    tr_pool_close(pool);
    return r;
}
