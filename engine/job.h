/*
 * What goes into the engine and what comes out: one request for samples of a prompt, the events
 * that answer it, and what it cost.
 */
#ifndef TR_ENGINE_JOB_H
#define TR_ENGINE_JOB_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

struct tr_grammar; /* engine/grammar/grammar.h */

struct tr_bias {
    int32_t id;  /* token id */
    float value; /* added to the logit */
};

/* How to choose the next token. Order of the filters: penalties and bias, allowed ids and bad
 * words, temperature, top_k, typical_p, top_p, min_p, one draw. */
struct tr_sampling {
    float temperature;       /* 0 = argmax, lowest id on a tie */
    int top_k;               /* 0 = off */
    float top_p;             /* 1 = off; 0 = best token only */
    float min_p;             /* 0 = off */
    float typical_p;         /* 1 = off */
    float presence_penalty;  /* per generated id that occurs, this choice only */
    float frequency_penalty; /* times the number of its occurrences, this choice only */
    /* 1 = off; prompt and generated; divides positive, multiplies negative logits */
    float repetition_penalty;
    uint64_t seed; /* the draw is a function of (seed, choice, position) */
    /* The lists belong to the job unless it borrows them: then they outlive it. */
    struct tr_bias *bias; /* ascending ids */
    int n_bias;
    int32_t *allowed; /* ascending ids; n_allowed 0 = every id */
    int n_allowed;
    int32_t *bad_words; /* sequences of ids, each preceded by its length */
    int n_bad_words;    /* length of the array, not number of sequences */
    int n_logprobs;     /* -1 none, 0 the chosen token's only, k the k best as well */
};

/* One request for `n` samples of one prompt. Made by malloc/calloc; tr_job_free frees it with all
 * it owns. */
struct tr_job {
    int32_t *prompt; /* owned; n_prompt >= 1 ids, each in [0, vocab) */
    int n_prompt;
    int max_tokens; /* >= 0; what the context leaves is the other bound. 0: prompt logprobs only */
    /* Nobody set max_tokens: it bounds the answer, but memory is promised for what such answers
     * need as a rule, and the cache may bound the answer further. */
    bool open_ended;
    int min_tokens; /* end-of-generation and stop ids are masked before this many */
    int n;          /* parallel samples, >= 1; choice indices 0..n-1 */
    struct tr_sampling sampling;
    int32_t *stop_ids; /* as the lists of the sampling */
    int n_stop_ids;
    bool borrows; /* the lists */
    bool ignore_eos;
    /* The answer is a text of it, as far as it gets; NULL = any. A reference of the job's own; its
     * vocabulary is tr_engine_grammar_vocab. End-of-generation ids end the answer where the text
     * may end, and only there, whatever ignore_eos says. */
    struct tr_grammar *grammar;
    /* The constraint holds behind the first of these in the answer, line breaks aside, and no end
     * comes before it; NULL = at once. Borrowed; outlives the job. */
    const char *grammar_after;
    /* -1 none; k: the logprob of every prompt token after the first, and the k best */
    int prompt_logprobs;
    int priority;           /* lower runs earlier, 0 default: among the tenant's own jobs, */
    bool priority_across;   /* or before other tenants', too */
    uint64_t tenant;        /* fairness key: hash of the API key, 0 = none */
    int weight;             /* the tenant's share against others', 1 to 1000; 0 counts as 1 */
    uint64_t cache_salt[2]; /* prefix pages are shared only between equal salts */
    bool cache_prompt;      /* false: neither reuse nor keep prefix pages */
    int64_t deadline_ns;    /* CLOCK_MONOTONIC; 0 = none */
    void *user;             /* handed back in every event */
};

struct tr_job *tr_job_free(struct tr_job *job); /* NULL ok; returns NULL */

enum tr_finish {
    TR_FINISH_NONE,     /* still running */
    TR_FINISH_EOS,      /* an end-of-generation id of the checkpoint was sampled, or nothing else
                         * may follow in the grammar: then without a token, stop_id -1 */
    TR_FINISH_STOP_ID,  /* one of the job's stop ids was sampled */
    TR_FINISH_LENGTH,   /* max_tokens reached, or the context is full */
    TR_FINISH_CANCELED, /* tr_engine_cancel */
    TR_FINISH_DEADLINE, /* the job's deadline passed, queued or running */
    TR_FINISH_ERROR     /* the engine failed on this job; err says why */
};

struct tr_top {
    int32_t id;
    float logprob; /* raw softmax (before bias, penalties, temperature, filters), >= -9999 */
};

/* What a job cost; complete in DONE. */
struct tr_usage {
    int prompt_tokens;
    int completion_tokens; /* of all choices */
    int cached_tokens;     /* prompt tokens whose keys and values were reused */
    int64_t queue_ns;      /* submit to admission */
    int64_t prefill_ns;    /* admission to the first token */
    int64_t decode_ns;     /* first to last token */
    int64_t decode_steps;  /* engine steps that made a token of this job */
    int64_t batch_rows;    /* sum of rows of those steps: batch_rows / decode_steps = mean batch */
    int64_t prefill_computed; /* prompt tokens run through the model, recomputation included */
    int64_t preemptions;      /* times the job lost its pages and was recomputed */
    int64_t draft_tokens;     /* proposed by speculation */
    int64_t accepted_tokens;  /* of those, accepted */
};

enum tr_event_kind {
    TR_EVENT_ADMITTED, /* left the queue; comes once, before anything else */
    /* one prompt token's logprob (only if prompt_logprobs >= 0), in order, choice 0 */
    TR_EVENT_PROMPT,
    /* one sampled token of one choice, the one that ends it included: `finish` says so already,
     * CHOICE_DONE follows */
    TR_EVENT_TOKEN,
    TR_EVENT_CHOICE_DONE, /* this choice is finished, `finish` says why */
    TR_EVENT_DONE         /* all choices are finished: the last event of the job, usage complete */
};

struct tr_event {
    enum tr_event_kind kind;
    uint64_t id; /* what tr_engine_submit returned */
    void *user;
    int choice;
    int position;             /* PROMPT: index in the prompt; TOKEN: 0-based index in the answer */
    int32_t token;            /* PROMPT, TOKEN */
    float logprob;            /* PROMPT, TOKEN if asked for; NAN for the first prompt token */
    const struct tr_top *top; /* n_top best, descending logprob, ties ascending id */
    int n_top;
    enum tr_finish finish;        /* TOKEN, CHOICE_DONE; in DONE: the first choice's */
    int32_t stop_id;              /* the id that matched, for EOS and STOP_ID; else -1 */
    const struct tr_usage *usage; /* ADMITTED (cached_tokens known) and DONE */
    const struct tr_err *err;     /* with TR_FINISH_ERROR */
};

typedef void (*tr_event_fn)(void *arg, const struct tr_event *event);

#endif
