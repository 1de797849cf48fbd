/* How far the engine's answers are from those of a dense pass in fp32. */
#ifndef TR_SERVER_COMMANDS_COMPARE_H
#define TR_SERVER_COMMANDS_COMPARE_H

#include "server/commands/ask.h"

/* Prompt logprobs as the engine delivers them; begins as SRV_ANSWER_INIT. */
struct srv_answer {
    struct srv_ask ask; /* the engine's (srv_ask_open); its mutex guards the rest */
    int n;
    double *logprobs; /* [n - 1] of each next token */
    int32_t *best;    /* [n - 1] */
};
#define SRV_ANSWER_INIT(a)                                                                         \
    {                                                                                              \
        .ask = SRV_ASK_INIT(srv_answer_event, a)                                                   \
    }
void srv_answer_event(void *arg, const struct tr_event *event);

struct srv_distance {
    int tokens;         /* compared */
    double mean, worst; /* of the logprobs */
    int agree;          /* best tokens that are the same */
};
/* Of a prompt of n >= 2 arbitrary tokens. Opens the checkpoint again, in fp32. */
TR_NODISCARD int srv_answer_compare(struct srv_answer *a, struct tr_engine *e, const char *model,
                                    int n, struct srv_distance *ret, struct tr_err *err);

#endif
