/* The ranges of sampling parameters: the sampler itself trusts them. */
#include <math.h>

#include "engine/sample/sampler.h"

static bool known(int32_t id, int vocab, const uint64_t *valid)
{
    return id >= 0 && id < vocab && tr_idset_has(valid, id);
}

static int check_number(const char *name, float x, float min, float max, struct tr_err *err)
{
    if (x >= min && x <= max)
        return 0;
    if (max == INFINITY)
        return tr_err_set(err, TR_EINVAL, name, "%s must be %g or more", name, (double)min);
    return tr_err_set(err, TR_EINVAL, name, "%s must be from %g to %g", name, (double)min,
                      (double)max);
}

static int check_ids(const struct tr_sampling *p, int vocab, const uint64_t *valid,
                     struct tr_err *err)
{
    for (int i = 0; i < p->n_bias; i++) {
        int32_t id = p->bias[i].id;
        if (!known(id, vocab, valid) || (i && id <= p->bias[i - 1].id))
            return tr_err_set(err, TR_EINVAL, "logit_bias", "logit_bias: there is no token %d", id);
        int r = check_number("logit_bias", p->bias[i].value, -100.0F, 100.0F, err);
        if (r < 0)
            return r;
    }
    for (int i = 0; i < p->n_allowed; i++)
        if (!known(p->allowed[i], vocab, valid) || (i && p->allowed[i] < p->allowed[i - 1]))
            return tr_err_set(err, TR_EINVAL, "allowed_token_ids",
                              "allowed_token_ids: there is no token %d", p->allowed[i]);
    for (int i = 0; i < p->n_bad_words; i += 1 + p->bad_words[i]) {
        int n = p->bad_words[i];
        if (n < 1 || n >= p->n_bad_words - i)
            return tr_err_set(err, TR_EINVAL, "bad_words", "bad_words: an empty word");
        for (int j = i + 1; j <= i + n; j++)
            if (!known(p->bad_words[j], vocab, valid))
                return tr_err_set(err, TR_EINVAL, "bad_words", "bad_words: there is no token %d",
                                  p->bad_words[j]);
    }
    return 0;
}

int tr_sampling_check(const struct tr_sampling *p, int vocab, const uint64_t *valid,
                      struct tr_err *err)
{
    const struct {
        const char *name;
        float value, min, max;
    } numbers[] = {
        {"temperature", p->temperature, 0.0F, INFINITY},
        {"top_p", p->top_p, 0.0F, 1.0F},
        {"min_p", p->min_p, 0.0F, 1.0F},
        {"typical_p", p->typical_p, 0.0F, 1.0F},
        {"presence_penalty", p->presence_penalty, -2.0F, 2.0F},
        {"frequency_penalty", p->frequency_penalty, -2.0F, 2.0F},
    };
    for (size_t i = 0; i < TR_ARRAY_LEN(numbers); i++) {
        int r =
            check_number(numbers[i].name, numbers[i].value, numbers[i].min, numbers[i].max, err);
        if (r < 0)
            return r;
    }
    if (p->temperature == INFINITY)
        return tr_err_set(err, TR_EINVAL, "temperature", "temperature must be finite");
    if (!(p->repetition_penalty > 0.0F && p->repetition_penalty < INFINITY))
        return tr_err_set(err, TR_EINVAL, "repetition_penalty",
                          "repetition_penalty must be above 0");
    if (p->top_k < 0)
        return tr_err_set(err, TR_EINVAL, "top_k", "top_k must be 0 or more");
    if (p->n_logprobs < -1 || p->n_logprobs > TR_MAX_LOGPROBS)
        return tr_err_set(err, TR_EINVAL, "logprobs", "logprobs must be at most %d",
                          TR_MAX_LOGPROBS);
    return check_ids(p, vocab, valid, err);
}
