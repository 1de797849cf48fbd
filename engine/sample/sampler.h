/*
 * From a row of logits to a token: penalties, masks, filters, one draw, logprobs.
 *
 * Order: repetition, frequency and presence penalties, bias; allowed ids, bad words, min_tokens and
 * the caller's mask; temperature, top_k, typical_p, top_p, min_p; one draw by inverse CDF in
 * ascending id order. Every filter keeps a prefix of "best first, lowest id among equals", so no
 * filter sorts the vocabulary: candidates are found through the maxima of runs of 64 logits and cut
 * by radix selection. The result is a function of the row, the request and the position alone, with
 * the same bits on every x86.
 *
 * Logprobs are of the raw row: before all of the above, but without the ids that have no token
 * string.
 */
#ifndef TR_ENGINE_SAMPLE_SAMPLER_H
#define TR_ENGINE_SAMPLE_SAMPLER_H

#include "engine/job.h"
#include "engine/kernels/kernels.h"

enum { TR_MAX_LOGPROBS = 128 }; /* largest n_logprobs and prompt_logprobs */

/* Sets of ids: bit id % 64 of word id / 64. */
static inline size_t tr_idset_words(int vocab)
{
    return TR_CEIL_DIV((size_t)vocab, 64);
}
static inline bool tr_idset_has(const uint64_t *set, int32_t id)
{
    return set[id >> 6] >> (id & 63) & 1;
}
static inline void tr_idset_add(uint64_t *set, int32_t id)
{
    set[id >> 6] |= UINT64_C(1) << (id & 63);
}

/* Ranges of all fields, and that every id named is a member of `valid` (vocab bits). TR_EINVAL
 * with the field's name in err->param. */
TR_NODISCARD int tr_sampling_check(const struct tr_sampling *p, int vocab, const uint64_t *valid,
                                   struct tr_err *err);

/* Scratch of one thread that samples. */
struct tr_sampler;
/* valid (borrowed, must outlive the sampler): ids that have a token string; others are never
 * chosen or listed. */
TR_NODISCARD int tr_sampler_open(struct tr_sampler **ret, const struct tr_kernels *kernels,
                                 int vocab, const uint64_t *valid);
struct tr_sampler *tr_sampler_close(struct tr_sampler *s); /* NULL ok; returns NULL */

/* What one choice of a job remembers: counts of ids for the penalties, the tail for bad words,
 * the position. */
struct tr_choice;
/* The job (borrowed, must outlive the choice) has passed tr_sampling_check. max_new bounds how
 * many ids can be accepted, unless tr_choice_reserve raises that; eog (borrowed) are masked, like
 * the job's stop ids, while fewer than min_tokens were accepted. All memory is allocated here. */
TR_NODISCARD int tr_choice_open(struct tr_choice **ret, const struct tr_job *job, int choice,
                                int max_new, int vocab, const int32_t *eog, int n_eog);
struct tr_choice *tr_choice_close(struct tr_choice *c); /* NULL ok; returns NULL */
/* Room for max_new ids in all. TR_ENOMEM: nothing has changed. */
TR_NODISCARD int tr_choice_reserve(struct tr_choice *c, int max_new);
/* What it has allocated, and the most that any choice does for prompt and answer of max_ids (with
 * bad words no longer than that). */
uint64_t tr_choice_bytes(const struct tr_choice *c);
uint64_t tr_choice_most_bytes(int max_ids, int vocab);
/* The id that was chosen (or a draft that was confirmed) becomes part of the answer. */
void tr_choice_accept(struct tr_choice *c, int32_t id);

/* Whether tr_sample would choose that id under a mask of it alone, whatever its logit; never if
 * logprobs are asked for. */
bool tr_choice_takes(const struct tr_choice *c, int32_t id);

struct tr_sample {
    int32_t id;
    float logprob; /* raw; 0 if logprobs are not asked for */
    /* n_top best raw, descending, lowest id first among equals; valid until the next call */
    const struct tr_top *top;
    int n_top;
};

/* Chooses the next token of `c` from logits [vocab] (not modified). mask: ids allowed here by a
 * grammar, NULL = all; without logprobs no logit but theirs makes a difference. Allocates nothing.
 * TR_EINTERNAL: a logit is NaN or +infinite; TR_EINVAL: the masks leave no id. */
TR_NODISCARD int tr_sample(struct tr_sampler *s, const struct tr_choice *c, const float *logits,
                           const uint64_t *mask, struct tr_sample *ret);
/* The raw logprob of a given valid id and the n_top best: for prompt tokens. TR_EINTERNAL as
 * above. */
TR_NODISCARD int tr_sample_score(struct tr_sampler *s, const float *logits, int32_t id, int n_top,
                                 struct tr_sample *ret);

/* The draw of (seed, choice, position): uniform in [0, 1), 53 bits. Philox 4x32-10, integer
 * operations only. */
double tr_uniform(uint64_t seed, uint32_t choice, uint64_t position);

#endif
