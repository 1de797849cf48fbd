/* A choice: the way of an answer from token ids to text that may be shown. */
#ifndef TR_SERVER_CALL_CHOICE_H
#define TR_SERVER_CALL_CHOICE_H

#include "engine/engine.h"
#include "engine/text/detokenizer.h"
#include "engine/text/stops.h"
#include "server/call/logprobs.h"
#include "server/call/turn.h"

struct srv_call;
struct srv_job;

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

/* Takes a TOKEN event; afterwards ch->stop says whether it was the last. */
void srv_choice_token(struct srv_choice *ch, const struct tr_event *e);
/* Ends a choice as the engine says that it ended. */
void srv_choice_end(struct srv_choice *ch, enum tr_finish finish, int32_t stop_id);
/* Those of a call, which then owns them. TR_ENOMEM. */
TR_NODISCARD int srv_choices_make(struct srv_call *c);
void srv_choices_free(struct srv_call *c);
/* "stop", "length", or NULL. */
const char *srv_choice_reason(const struct srv_choice *ch);
/* Forgets what has been written. */
void srv_choice_written(struct srv_choice *ch);

#endif
