/*
 * A call: one request for generated text, from its parameters to its last token, whatever the API.
 *
 * The call owns the engine jobs (one a prompt) and the choices (n a prompt), feeds events into the choices, and lets
 * its API write what a client reads. Completions, chat and the rest are such APIs: they read a document and write
 * frames; nothing else differs.
 */
#ifndef TR_SERVER_CALL_CALL_H
#define TR_SERVER_CALL_CALL_H

#include "engine/engine.h"
#include "engine/text/detokenizer.h"
#include "engine/text/stops.h"
#include "server/call/outbox.h"
#include "server/call/params.h"
#include "server/call/turn.h"
#include "server/http/request.h"

struct srv_call;
struct srv_choice;

#define SRV_LOGPROB_PARTS 4

/* Written JSON of log probabilities: comma-separated elements of as many arrays as the API's shape has. */
struct srv_logprobs {
    struct tr_buf part[SRV_LOGPROB_PARTS];
    int n; /* elements in each */
};

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

enum srv_stop_kind { SRV_STOP_NONE, SRV_STOP_END, SRV_STOP_ID, SRV_STOP_STRING, SRV_STOP_LENGTH };

/* One answer: tokens in, text out. */
struct srv_choice {
    struct srv_call *call;
    struct srv_job *job;
    int index;  /* in the answer */
    int sample; /* in the job */
    struct tr_detok detok;
    struct tr_stop_scan scan;
    struct tr_buf text; /* not written yet: since the last chunk of a stream, or all of it */
    struct srv_logprobs logprobs; /* likewise */
    struct tr_ids ids;            /* likewise, if asked for */
    struct srv_turn turn;         /* of the APIs that have turns: takes over what comes into text */
    int n_tokens;
    enum srv_stop_kind stop; /* SRV_STOP_NONE = running */
    int stop_value;          /* the id, or the index of the string */
    bool begun;              /* its first chunk is written */
    bool spoke;              /* of chats: the last token has its chunk */
};

struct srv_api {
    const char *path; /* the route, for metrics */
    const char *id_prefix;
    const struct srv_table *const *tables; /* fields of a request */
    size_t n_tables;
    int64_t default_max_tokens; /* -1: what the context leaves */
    /* The document, fields taken, to jobs (srv_call_add_job). On a worker or the loop thread. */
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

struct srv_call {
    struct srv *srv;
    struct srv_req *req; /* a reference */
    const struct srv_api *api;
    struct srv_call *prev, *next;
    struct srv_limits limits;
    struct srv_params params;
    struct srv_turn_rules rules; /* before the first job is added */
    char id[SRV_ID_BYTES + 16];
    int64_t created; /* unix seconds */

    struct srv_job *jobs; /* n_jobs of n_prompts */
    int n_jobs, n_prompts, n_open;
    struct srv_choice *choices; /* n_prompts * params.n, prompt-major */
    int n_choices;
    struct tr_stops *stops;
    struct tr_buf *stop_texts; /* quoted, n_stops */
    int n_stops;
    struct tr_buf scratch;
    struct tr_buf repeated; /* of responses: fields of the request that the answer repeats */
    int n_events;           /* of event streams that count them or have a first one */

    struct tr_err err; /* code != 0: the call has failed */
    bool begun;        /* the stream's head has been sent */
    bool reading;      /* a worker has it: the loop thread touches nothing but `dead` */
    bool dead;         /* nobody listens any more */
    bool paused;
    int64_t first_ns, last_ns; /* of tokens, CLOCK_MONOTONIC; 0 = none yet */
    uv_work_t work;
};

/* Handles a request by an API: replies later. */
void srv_call_start(struct srv_req *req, const struct srv_api *api);
/* Bytes of a request to parameters, jobs and choices, or c->err; needs api and limits only, on any thread. */
int srv_call_read(struct srv_call *c, const char *bytes, size_t n);
/* Frees what srv_call_read made. */
void srv_call_done(struct srv_call *c);
/* In api->read: room for n prompts; then one job each, in order. The ids are taken over, also on failure. */
TR_NODISCARD int srv_call_prompts(struct srv_call *c, size_t n, struct tr_err *err);
TR_NODISCARD int srv_call_add_job(struct srv_call *c, struct tr_ids *ids, struct tr_err *err);
/* Loop thread: everything the outbox holds. */
void srv_call_events(struct srv *s);
/* Ends a call from the daemon's side, with the reason. */
void srv_call_abort(struct srv_call *c, int code, const char *why);

/* choice.c: takes a TOKEN event; afterwards ch->stop says whether it was the last. */
void srv_choice_token(struct srv_choice *ch, const struct tr_event *e);
/* Ends a choice as the engine says that it ended. */
void srv_choice_end(struct srv_choice *ch, enum tr_finish finish, int32_t stop_id);
TR_NODISCARD int srv_choice_init(struct srv_choice *ch, struct srv_call *c, struct srv_job *job,
                                 int sample);
void srv_choice_done(struct srv_choice *ch);
/* "stop", "length", or NULL. */
const char *srv_choice_reason(const struct srv_choice *ch);
/* Forgets what has been written. */
void srv_choice_written(struct srv_choice *ch);
void srv_logprobs_done(struct srv_logprobs *l);

/* usage.c: tokens of all prompts and choices so far. */
struct srv_usage {
    long long prompt, cached, completion,
        reasoning; /* cached: of the prompt; reasoning: of the completion */
};
struct srv_usage srv_usage_of(const struct srv_call *c);
/* Appends {"prompt_tokens":...} and {"queue_ms":...}. */
void srv_usage_object(struct tr_buf *out, const struct srv_call *c);
void srv_timings_object(struct tr_buf *out, const struct srv_call *c);

#endif
