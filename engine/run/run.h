/*
 * The engine's insides, shared by the files of engine/run/: open and close, what other threads ask
 * for, one job, and the engine thread's step.
 *
 * Locks: inbox.mutex guards the lists of requests and their wishes, stats_mutex the published
 * numbers. Neither is ever taken while the other is held. Everything else that changes belongs to
 * the engine thread.
 */
#ifndef TR_ENGINE_RUN_RUN_H
#define TR_ENGINE_RUN_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/forward/forward.h"
#include "engine/grammar/grammar.h"
#include "engine/machine/pace.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/ngram.h"
#include "engine/schedule/schedule.h"
#include "engine/text/tokenizer.h"
#include "engine/view.h"

/* One sample of a job. The first one's sequence computes the prompt; the others are forked off
 * it. */
struct choice {
    struct tr_seq seq;
    struct tr_choice *sampling;       /* owned; made when the sequence first has rows, like */
    struct tr_ngram drafts;           /* this, if the engine speculates */
    int room;                         /* of its sequence, that `sampling` was made for */
    struct tr_grammar_state *grammar; /* likewise, of a constrained job: the answer so far, or */
    bool unbound;   /* its begin, for the job's grammar_after has not come, of which */
    int n_matched;  /* so many bytes stand at the answer's end */
    uint64_t bytes; /* of these buffers */
    struct request *request;
    int index;
    int n_tokens;  /* sampled so far */
    bool open;     /* CHOICE_DONE is still to come */
    bool entered;  /* the sequence is in the schedule */
    bool canceled; /* a wish; under inbox.mutex */
    bool stop;     /* the same, seen by the engine thread */
};

/* A job that was accepted. */
struct request {
    struct tr_list link; /* in inbox.arrived or inbox.live */
    uint64_t id;
    struct tr_job *job; /* owned */
    struct tr_usage usage;
    struct tr_err err;
    int64_t submit_ns, admit_ns, first_ns, last_ns; /* CLOCK_MONOTONIC; 0 = not yet */
    int n;                                          /* choices */
    int n_open;                                     /* of those, not done */
    int n_scored;                /* prompt positions whose logprob was delivered */
    uint64_t last_step;          /* in which a token was made */
    enum tr_finish first_finish; /* of choice 0 */
    bool paused;                 /* a wish; under inbox.mutex */
    bool waiting;                /* counted in inbox.waiting */
    bool counted;                /* its prompt is in the statistics */
    struct tr_group group;       /* of the choices' sequences */
    struct choice *choices;      /* [n]; owned */
};

/* A function to run on the engine thread between two steps; its caller waits. */
struct call {
    void (*run)(struct tr_engine *e, void *arg);
    void *arg;
    struct call *next;
    bool done;
};

/* What other threads want from the engine thread. */
struct inbox {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct tr_list arrived; /* list head: not seen by the engine thread yet */
    struct tr_list live;    /* list head, oldest first: written by the engine thread, under mutex */
    uint64_t next_id;
    int waiting;        /* requests that were not admitted yet */
    int seats;          /* places that the last plan left; 0 if it was short of memory */
    struct call *calls; /* to run on the engine thread */
    pthread_cond_t called;
    bool changed; /* there is something to apply */
    bool look;    /* somebody wants to see the engine */
    bool draining, closing;
};

/* A choice's row of logits, or a prompt token's, and what came of it. */
struct sample_work {
    struct choice *choice;
    int row;          /* in the group of head rows */
    int n_rows;       /* more than 1: drafts to verify */
    int32_t score_id; /* >= 0: score this id instead of sampling */
    int64_t mask_ns;  /* spent on the constraint's masks */
    int status;       /* TR_E…, and */
    const char *why;  /* what that means; NULL: it is the sampler's */
    bool ended;       /* behind the results nothing fits the grammar */
    int n;            /* results, */
    int n_drawn;      /* and how many of them were drawn: what follows was certain */
    struct tr_sample samples[1 + TR_MAX_DRAFTS];
    struct tr_top *top; /* [1 + TR_MAX_DRAFTS][TR_MAX_LOGPROBS]: the samples' lists */
};

/* Ids of a mask that is a list, with the ids that end a text. */
enum { TR_MASK_LIST = TR_GRAMMAR_LIST_MAX + 64 };

enum { TOPS_PER_WORK = (1 + TR_MAX_DRAFTS) * TR_MAX_LOGPROBS };

/* What one planned sequence wants of its head rows: prompt tokens to score, then at most one place
 * to sample at, with the drafts behind it. */
struct head_rows {
    struct choice *choice;
    int64_t position; /* of the first row */
    int n_score;
    int n_tail;  /* rows behind those */
    bool sample; /* the tail is sampled; else it is the unused row of a prompt without answer */
    bool first;  /* all choices of the job sample it */
};

/* What is kept for who looks, and the three drawings that go round. */
struct view {
    struct tr_view_step steps[TR_VIEW_STEPS]; /* step i at i % TR_VIEW_STEPS */
    struct tr_view_times times;               /* sample alone */
    uint64_t read_bytes;                      /* without experts */
    int n_limits;                             /* measurements of the read limit since the start, */
    int64_t limit_ns;                         /* the last at that time */
    uint64_t number;
    struct tr_engine_view drawings[3];
    int mine, theirs;   /* the engine thread's drawing, and the reader's */
    atomic_int between; /* the third */
};

struct tr_engine {
    struct tr_engine_options options; /* strings not kept */
    struct tr_engine_info info;
    char *name, *warnings, *snapshot_dir;
    char fingerprint[33];

    struct tr_pool *pool;
    struct tr_pace pace; /* how many of its threads a step takes */
    struct tr_weights *weights;
    struct tr_tokenizer *tokenizer;
    const struct tr_kernels *kernels;
    struct tr_kv_layout local_layout, global_layout;
    struct tr_pages *pages;
    struct tr_schedule_options limits; /* of the schedule */
    struct tr_schedule *schedule;
    struct tr_forward *forward;
    uint64_t *valid; /* idset of ids that have a token string */
    const int32_t *eog;
    int n_eog;
    int max_head_rows;

    /* Buffers of a step. */
    struct tr_span *spans;    /* [max_sequences] */
    struct head_rows *heads;  /* [max_sequences] */
    struct sample_work *work; /* [max_work] */
    struct tr_top *tops;      /* [max_work][TOPS_PER_WORK] */
    int n_work, max_work;
    struct tr_head_part *parts;    /* [max_head_rows]: what the group that is sampled wants; */
    int32_t *part_ids;             /* [max_head_rows][TR_MASK_LIST]: its ids */
    struct tr_sampler **samplers;  /* [threads] */
    struct tr_grammar_mask *masks; /* [threads] */
    uint64_t *mask_bits;           /* [threads][tr_idset_words(vocab)] */
    pthread_mutex_t vocab_mutex;
    struct tr_grammar_vocab *vocab; /* NULL until somebody asks; under vocab_mutex */

    struct inbox inbox;
    bool has_inbox;
    pthread_t thread;
    bool started;
    bool worked;       /* since memory was given back, */
    int64_t worked_ns; /* and when last */
    struct view view;

    pthread_mutex_t stats_mutex;
    struct tr_engine_stats stats;  /* published */
    struct tr_engine_stats now;    /* the engine thread's own */
    double answer_tokens;          /* mean length of recent answers */
    double open_mean, open_spread; /* of those without a length: the same, and how far from it */
};

/* ---- request.c ---- */
/* Checks a job and makes the request; what its choices need is allocated when they are admitted. */
TR_NODISCARD int tr__request_make(struct request **ret, struct tr_engine *e, struct tr_job *job,
                                  struct tr_err *err);
/* Frees the request and its job. NULL ok; returns NULL. */
struct request *tr__request_free(struct request *r);

/* ---- choice.c ---- */
/* What an answer without a length is taken to need before any was seen. */
void tr__expect_first(struct tr_engine *e);
/* Allocates what the choice needs to sample, for its sequence's room. TR_ENOMEM. */
TR_NODISCARD int tr__choice_prepare(struct tr_engine *e, struct choice *c);
/* Takes the choice's sequence out of the schedule and frees its buffers. */
void tr__leave(struct tr_engine *e, struct choice *c);
/* An answer without a length ended: the next ones are promised what such answers need. */
void tr__learn_length(struct tr_engine *e, int n_tokens);
/* Bytes of all that a running choice needs beside its pages, at most. */
uint64_t tr__choice_most_bytes(const struct tr_engine *e);

/* ---- constrain.c ---- */
TR_NODISCARD int tr__constrain_init(struct tr_engine *e);
void tr__constrain_done(struct tr_engine *e);
/* The state of a choice whose job is constrained. TR_ENOMEM. */
TR_NODISCARD int tr__constrain_open(struct choice *c);
/* The ids that may come next: an idset in m->bits. 1: nothing may, the answer is complete.
 * TR_EINVAL, TR_EUNSUPPORTED, TR_ENOMEM with the reason in *ret_why. */
TR_NODISCARD int tr__constrain_mask(const struct tr_engine *e, const struct choice *c,
                                    struct tr_grammar_mask *m, const char **ret_why);
/* The ids whose logits make a difference to the next sample, ascending, ids [TR_MASK_LIST]. Returns
 * their number, -1 where all may. */
int tr__constrain_few(const struct tr_engine *e, const struct choice *c, int32_t *ids);
/* The only id that the choice can go on with, -1 if there may be several. */
int32_t tr__constrain_only(const struct choice *c);
/* The id has become part of the answer. Errors as above. */
TR_NODISCARD int tr__constrain_follow(const struct tr_engine *e, struct choice *c, int32_t id,
                                      const char **ret_why);

/* ---- inbox.c ---- */
TR_NODISCARD int tr__inbox_init(struct inbox *in);
void tr__inbox_done(struct inbox *in);
/* The engine thread is to end. */
void tr__inbox_close(struct inbox *in);
/* Runs a function on the engine thread between two steps and waits for it. False: the engine
 * closes, the function will not run. */
bool tr__inbox_call(struct inbox *in, void (*run)(struct tr_engine *e, void *arg), void *arg);
/* Takes in what was asked for since the last call. False: the engine closes. */
bool tr__inbox_apply(struct tr_engine *e);
/* Somebody wants to see the engine. */
void tr__inbox_look(struct inbox *in);
/* Sleeps until something is asked for, at most until `until` (CLOCK_MONOTONIC). Returns whether
 * that is work. */
bool tr__inbox_wait(struct inbox *in, int64_t until);
/* A request is not waiting any more. */
void tr__inbox_admitted(struct inbox *in, struct request *r);
void tr__inbox_set_seats(struct inbox *in, int seats);
/* Takes a finished request out. */
void tr__inbox_remove(struct inbox *in, struct request *r);

/* ---- step.c ---- */
void *tr__engine_thread(void *engine);

/* ---- count.c ---- */
/* Facts that the numbers begin with; measures how fast the weights can be read. Before the thread
 * runs. */
void tr__count_open(struct tr_engine *e);
/* A step of n sequences has ended that took ns; before: the numbers when it began. */
void tr__count_step(struct tr_engine *e, const struct tr_engine_stats *before, int64_t ns, int n);
/* Once its prompt is computed. */
void tr__count_prompt(struct tr_engine *e, struct request *r);

/* ---- deliver.c ---- */
/* Ends one choice: CHOICE_DONE, and with the last one DONE, after which the request is gone. */
void tr__finish(struct tr_engine *e, struct choice *c, enum tr_finish finish, int32_t stop_id);
void tr__deliver_admitted(struct tr_engine *e, struct request *r);
void tr__deliver_first_prompt_token(struct tr_engine *e, struct request *r);
/* Delivers what sampling found and appends it to the sequence; the step had `rows` rows. */
void tr__deliver(struct tr_engine *e, struct sample_work *w, int64_t now, int rows);

/* ---- view.c ---- */
void tr__view_init(struct view *v);
/* The step whose statistics were `before` ended after so long; it had n sequences. */
void tr__view_step(struct tr_engine *e, const struct tr_engine_stats *before, int64_t ns, int n);
/* What a step reads for e->spans[0, n_spans), experts aside; head: logits, too. */
void tr__view_reads(struct tr_engine *e, int n_spans, bool head);
void tr__view_draw(struct tr_engine *e);
/* Bytes a second at which all threads together read the weights, in some tens of milliseconds; 0 =
 * none in memory. While no step runs. */
double tr__measure_limit(const struct tr_engine *e);

/* ---- sample_step.c ---- */
/* Logits, tokens and events of e->heads[0, n_heads); the step had step_rows rows. */
void tr__sample_step(struct tr_engine *e, int n_heads, int step_rows);

#endif
