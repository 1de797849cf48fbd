#include "server/commands/compare.h"

#include <math.h>
#include <stdlib.h>

void srv_answer_event(void *arg, const struct tr_event *event)
{
    struct srv_answer *a = arg;
    if (event->kind == TR_EVENT_PROMPT && event->position > 0 && event->position < a->n) {
        a->logprobs[event->position - 1] = (double)event->logprob;
        a->best[event->position - 1] = event->n_top ? event->top[0].id : -1;
    }
}

static int ask_engine(struct tr_engine *e, struct srv_answer *a, struct tr_err *err)
{
    struct tr_job *job = srv_ask_job(srv_ask_ids(e, a->n, 0), a->n);
    if (job)
        job->prompt_logprobs = 1;
    int r = srv_ask_submit(&a->ask, e, job, err);
    return r < 0 ? r : srv_ask_wait(&a->ask, err);
}

static struct srv_distance distance(const struct srv_answer *a, const double *logprobs,
                                    const int32_t *best)
{
    struct srv_distance d = {.tokens = a->n - 1};
    for (int i = 0; i < d.tokens; i++) {
        double x = fabs(logprobs[i] - a->logprobs[i]);
        d.worst = isnan(x) ? x : fmax(d.worst, x);
        d.mean += x / d.tokens;
        d.agree += best[i] == a->best[i];
    }
    return d;
}

int srv_answer_compare(struct srv_answer *a, struct tr_engine *e, const char *model, int n,
                       struct srv_distance *ret, struct tr_err *err)
{
    int32_t *tokens = srv_ask_ids(e, n, 0), *best = calloc((size_t)n, sizeof *best);
    double *logprobs = calloc((size_t)n, sizeof *logprobs);
    a->n = n;
    a->logprobs = calloc((size_t)n, sizeof *a->logprobs);
    a->best = calloc((size_t)n, sizeof *a->best);
    int r = tokens && logprobs && best && a->logprobs && a->best
                ? ask_engine(e, a, err)
                : tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    if (r == 0)
        r = tr_engine_reference(model, tr_engine_tokenizer(e), tokens, n, logprobs, best, err);
    if (r == 0)
        *ret = distance(a, logprobs, best);
    free(tokens);
    free(logprobs);
    free(best);
    free(a->logprobs);
    free(a->best);
    return r;
}
