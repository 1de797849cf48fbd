/*
 * A call: one request for generated text, from its parameters to its last token, whatever the API.
 *
 * The call owns the engine jobs (one a prompt) and the choices (n a prompt), feeds events into the
 * choices, and lets its API write what a client reads. Completions, chat and the rest are such
 * APIs: they read a document and write frames; nothing else differs.
 */
#ifndef TR_SERVER_CALL_CALL_H
#define TR_SERVER_CALL_CALL_H

#include "config/options.h"
#include "server/call/choice.h"
#include "server/call/job.h"
#include "server/http/request.h"
#include "server/http/work.h"

struct srv_call;

struct srv_api {
    const char *id_prefix;
    int64_t default_max_tokens; /* -1: what the context leaves */
    /* The document, fields taken, to jobs (srv_job_add). On a worker or the loop thread. */
    int (*read)(struct srv_call *c, struct tr_err *err);
    /* Appends the log probability of a token (offset: its place in the text). */
    void (*logprob)(struct srv_call *c, struct srv_logprobs *to, const struct tr_event *e,
                    size_t offset);
    /* Stream, of the APIs that have turns: a step of one of its parts. */
    srv_part_fn part;
    /* Stream: what a choice has gathered, as a frame in req->out. */
    void (*chunk)(struct srv_choice *ch);
    void (*end)(struct srv_call *c); /* Stream: what follows the last chunk. */
    /* Stream: the error event, and what follows it. */
    void (*fault)(struct srv_call *c, const struct tr_err *err);
    void (*answer)(struct srv_call *c); /* No stream: the body, to req->out. */
};

/* What the daemon and the request are, as far as reading needs it; plain values, so that a worker
 * may use them. */
struct srv_context {
    struct tr_engine *engine;          /* for the vocabulary of grammars; NULL: none runs */
    struct tr_grammar_cache *grammars; /* NULL with it */
    const struct tr_tokenizer *tokenizer;
    const struct tr_chat *chat; /* NULL = the checkpoint has no template */
    const char *model;          /* the id that answers bear */
    struct tr_strings names;    /* ids that are answered to besides, borrowed; "*": any */
    struct json_t *defaults; /* fields that hold where a request is silent; borrowed, only read */
    int context_length, max_choices, max_queue;
    bool strict, reasoning_alias;
    int64_t timeout_ms; /* 0 = none */
    uint64_t tenant;    /* hash of the key the client showed */
    bool across;        /* whose requests' priority counts before other keys' */
    bool background;    /* the call comes after all others */
    int weight;         /* of the key, */
    int best_priority;  /* and the lowest number that counts */
    uint64_t hash_key[2];
    int64_t begun_ns; /* CLOCK_MONOTONIC of the request */
    uint64_t random;  /* the seed if the client gives none */
};

struct srv_call {
    struct srv *srv;
    struct srv_req *req; /* a reference */
    const struct srv_api *api;
    struct tr_list link; /* srv.calls */
    struct srv_context context;
    struct srv_params params;
    struct srv_turn_rules rules; /* before the first job is added */
    char id[SRV_ID_BYTES + 16];
    int64_t created; /* unix seconds */

    struct tr_job *asked; /* its lists are borrowed by each prompt's job; NULL before the first */
    struct srv_job *jobs; /* n_jobs of n_prompts */
    int n_jobs, n_prompts, n_open;
    size_t max_ids;             /* of a prompt, that may be needed of the tokenizer; 0 = all */
    int n_answers;              /* that are asked for: params.n for each job */
    struct srv_choice *choices; /* n_choices, prompt-major */
    int n_choices;              /* n_answers, once the first job is admitted; 0 before */
    struct tr_stops *stops;
    struct tr_buf *stop_texts; /* quoted, n_stops */
    int n_stops;
    struct tr_buf scratch;
    struct tr_buf head;     /* how its answer or each chunk begins, once it was made */
    char *model;            /* the id that the request has asked for, if it is another; owned */
    struct tr_buf repeated; /* of responses: fields of the request that the answer repeats */
    int n_events;           /* of event streams that count them or have a first one */

    struct tr_err err;      /* code != 0: the call has failed */
    long long prompt_spent; /* tokens that its key was charged; 0: the engine has none of it */
    bool begun;             /* the stream's head has been sent */
    bool dead;              /* nobody listens any more */
    bool paused;
    size_t kept, grown; /* bytes counted, those of the answer among them: see kept.h */
    const struct tr_grammar *counted;
    int64_t first_ns, last_ns; /* of tokens, CLOCK_MONOTONIC; 0 = none yet */
    struct srv_work work;      /* aside, the loop thread touches nothing but `dead` */
};

/* An srv_handler: the route's API answers, later. */
void srv_call_start(struct srv_req *req);
/* Frees what srv_call_read made. */
void srv_call_done(struct srv_call *c);
/* Loop thread: what the outbox holds, but for more than a turn of the loop has time for; that comes
 * with the next one. true: there is more. */
bool srv_call_events(struct srv *s);
/* Ends a call from the daemon's side, with the reason. */
void srv_call_abort(struct srv_call *c, int code, const char *why);

#endif
