/* An engine, jobs for it, and waiting for their end: what the commands besides `serve` share. */
#ifndef TR_SERVER_COMMANDS_ASK_H
#define TR_SERVER_COMMANDS_ASK_H

#include <pthread.h>

#include "config/options.h"
#include "engine/engine.h"

/* What jobs leave behind, from the engine's thread to the main thread; begins as SRV_ASK_INIT. */
struct srv_ask {
    pthread_mutex_t mutex; /* guards all of this, and what on_event writes */
    /* Once no job is open, and when on_event says so: who wakes takes a processor from the compute
     * threads. */
    pthread_cond_t changed;
    int n_open;            /* jobs submitted that have not ended */
    enum tr_finish finish; /* of the job that ended last, as is usage */
    struct tr_usage usage;
    struct tr_err err; /* code 0: no job has failed */
    /* NULL ok: sees every event, under the mutex. */
    void (*on_event)(void *arg, const struct tr_event *event);
    void *arg;
};
#define SRV_ASK_INIT(fn, fn_arg)                                                                   \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .on_event = fn,   \
        .arg = fn_arg                                                                              \
    }

/* Opens the engine that o describes, whose events go to a. As srv_engine_open. */
TR_NODISCARD int srv_ask_open(struct tr_engine **ret, const struct tr_options *o, struct srv_ask *a,
                              struct tr_err *err);
/* n arbitrary ids, none without a token; the same for the same number. The caller frees; NULL: no
 * memory. */
int32_t *srv_ask_ids(const struct tr_engine *e, int n, int number);
/* A greedy job of one answer without logprobs; takes the ids over. NULL: no memory, or no ids. */
struct tr_job *srv_ask_job(int32_t *ids, int n);
/* Takes the job over, whatever comes of it; NULL: TR_ENOMEM. */
TR_NODISCARD int srv_ask_submit(struct srv_ask *a, struct tr_engine *e, struct tr_job *job,
                                struct tr_err *err);
/* Until no job is open: 0, or what one failed of. */
TR_NODISCARD int srv_ask_wait(struct srv_ask *a, struct tr_err *err);

#endif
