/*
 * A checkpoint that is served: its engine, and what the server has made of it.
 *
 * Whoever works with one beyond a turn of the loop holds a reference. References belong to the loop
 * thread; what they lead to does not change, and may be read on any thread.
 */
#ifndef TR_SERVER_MODEL_H
#define TR_SERVER_MODEL_H

#include "config/list.h"
#include "config/options.h"
#include "engine/engine.h"
#include "engine/text/chat.h"
#include "engine/text/tokenizer.h"

struct srv;

struct srv_model {
    int refs;
    struct tr_list link; /* srv.models, of those that serve or have served */
    struct srv *srv;     /* whose list it is */
    /* Takes it over when its last reference goes; NULL: it is freed. */
    void (*unused)(struct srv_model *m);
    uint64_t number;          /* of the process, from 1 */
    char *path;               /* what the path led to; owned */
    uint64_t stamp;           /* srv_model_stamp of it */
    struct tr_engine *engine; /* NULL once it was stopped */
    const struct tr_engine_info *info;
    const struct tr_tokenizer *tokenizer;
    struct tr_chat *chat;    /* NULL: the checkpoint has no chat template */
    char *name;              /* the one served; owned */
    struct tr_strings names; /* ids that it answers to, owned; "*": any */
    /* of request fields: what the checkpoint recommends, or the option says */
    struct json_t *defaults;
    char fingerprint[64];              /* system_fingerprint */
    struct tr_grammar_cache *grammars; /* of constrained answers */
    uint64_t page_mismatches;          /* of the engine's, those that were logged */
};

/* Loads what the options name, with one reference; eo: the engine's options, of which this sets
 * none. Any thread; err says what is wrong. */
TR_NODISCARD int srv_model_open(struct srv_model **ret, const struct tr_options *o,
                                const struct tr_engine_options *eo, struct tr_err *err);
/* A number that changes when the path leads to something else, or to files that were replaced. */
uint64_t srv_model_stamp(const char *path, const char *chat_template);
/* Logs what it is and what memory it takes. */
void srv_model_log(const struct srv_model *m, const struct tr_options *o);
struct srv_model *srv_model_use(struct srv_model *m); /* one more reference; returns m */
void srv_model_unref(struct srv_model *m);            /* NULL ok; the last one ends it */
void srv_model_free(struct srv_model *m);             /* ends what runs */
/* Ends what runs; its events are delivered. */
void srv_model_stop(struct srv_model *m);

#endif
