/*
 * The engine at work, for whoever wants to look at it.
 *
 * Whoever looks asks, and takes what was drawn when it is there. The engine thread draws between
 * two steps, only when asked, and neither side ever waits for the other: there are three drawings,
 * one of each side and one that changes hands. The work is bounded by the sizes below, however
 * large the cache is and however many requests there are.
 */
#ifndef TR_ENGINE_VIEW_H
#define TR_ENGINE_VIEW_H

#include "engine/engine.h"

enum {
    TR_VIEW_SEQUENCES =
        128,            /* those that run come first, then those that wait, each oldest first */
    TR_VIEW_STEPS = 128 /* the last ones */
};

enum tr_view_state { TR_VIEW_WAITING, TR_VIEW_PREFILL, TR_VIEW_DECODE, TR_VIEW_PAUSED };

/* One sample of a job. */
struct tr_view_sequence {
    uint64_t id;
    int choice;
    enum tr_view_state state;
    int prompt, cached;            /* tokens of the prompt, of these taken from others' pages */
    int computed;                  /* tokens whose keys and values are in the cache */
    int tokens;                    /* prompt and answer so far */
    int most;                      /* what they can become */
    int first_local;               /* number of the first local page that it still holds */
    int local_pages, global_pages; /* held */
};

struct tr_view_step {
    uint64_t number; /* 1 = the engine's first */
    int64_t end_ns;  /* CLOCK_MONOTONIC */
    int64_t ns;      /* it took */
    int prefill_rows, decode_rows, sequences;
};

/* Nanoseconds since the start, by what they were spent on. */
struct tr_view_times {
    int64_t local, global; /* attention of the kind, its projections included */
    int64_t mlp;           /* dense layers, router, experts */
    int64_t head, sample;
    int64_t steps; /* all of it, and what is none of these */
};

struct tr_engine_view {
    uint64_t number;              /* of the drawing; grows by one */
    int64_t now_ns;               /* CLOCK_MONOTONIC */
    struct tr_engine_stats stats; /* as published last */
    struct tr_view_times times;
    /* Bytes of weights and of the cache that all steps have read; weights once a step. */
    uint64_t read_bytes;
    size_t local_page_bytes, global_page_bytes; /* what a page costs */
    struct tr_page_map local, global;
    int n_sequences, n_open; /* told, and all there are */
    struct tr_view_sequence sequences[TR_VIEW_SEQUENCES];
    int n_steps;
    struct tr_view_step steps[TR_VIEW_STEPS]; /* ascending */
};

/* Asks for a drawing: it is there after the step that is under way. Any thread. */
void tr_engine_look(struct tr_engine *e);
/* The last drawing, valid until the next call. One thread at a time. */
const struct tr_engine_view *tr_engine_view(struct tr_engine *e);
/* For each layer whether it is global. */
bool tr_engine_layer_is_global(const struct tr_engine *e, int layer);

/* Opens a checkpoint beside whatever serves, reads every value and tells what its tensors are, in
 * the order of their names. `kept` is as `weights` asks. */
TR_NODISCARD int tr_engine_survey(const char *model, enum tr_weights_choice weights,
                                  tr_tensor_fn fn, void *arg, struct tr_err *err);

#endif
