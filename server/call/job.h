/*
 * Prompts to engine jobs: what a client asked for, in the engine's terms, and the choices that will
 * answer.
 */
#ifndef TR_SERVER_CALL_JOB_H
#define TR_SERVER_CALL_JOB_H

#include "engine/text/tokenizer.h"
#include "server/call/logprobs.h"
#include "server/call/outbox.h"
#include "server/call/params.h"

struct srv_call;

/* One prompt. */
struct srv_job {
    struct srv_sink sink; /* first: the engine's events find the job by it */
    struct srv_call *call;
    struct tr_job *job; /* until it is submitted */
    uint64_t id;        /* the engine's */
    bool open;          /* submitted, DONE has not come */
    bool admitted;
    int32_t *prompt; /* copy of the ids; NULL if nobody asks for them */
    int n_prompt;
    struct tr_buf echo; /* the prompt's text, if it is to be repeated */
    size_t echo_chars;
    size_t *offsets; /* of every prompt token in echo, in characters; NULL if not needed */
    struct srv_logprobs logprobs;  /* of the prompt, for echo */
    struct tr_buf prompt_logprobs; /* elements of the prompt_logprobs array */
    struct tr_usage usage;
};

/* Room for n prompts: then one job each, in order. */
TR_NODISCARD int srv_jobs_init(struct srv_call *c, size_t n, struct tr_err *err);
/* Cuts the prompt as asked for, judges its length, makes its job. 1 <= ids->n, which are taken
 * over, also on failure. more: it has more than c->max_ids, which are not there. */
TR_NODISCARD int srv_job_add(struct srv_call *c, struct tr_ids *ids, bool more, struct tr_err *err);
void srv_job_done(struct srv_job *j);
/* The salt of the prefix pages of requests with this cache_salt (may be absent) and tenant. */
TR_NODISCARD int srv_job_salt(const struct tr_json *cache_salt, uint64_t tenant,
                              const uint64_t hash_key[2], uint64_t ret[2], struct tr_err *err);

#endif
