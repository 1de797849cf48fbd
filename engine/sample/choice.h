/* What one choice of a job does to its logits. Private to engine/sample/. */
#ifndef TR_ENGINE_SAMPLE_CHOICE_H
#define TR_ENGINE_SAMPLE_CHOICE_H

#include "engine/sample/sampler.h"

struct tr_choice {
    const struct tr_job *job; /* borrowed */
    uint32_t choice;
    uint64_t position;  /* ids accepted so far */
    const int32_t *eog; /* borrowed, [n_eog] */
    int n_eog;
    int vocab;

    /* Occurrences, kept only if a penalty is on: entries in order of first appearance, found
     * through an open-addressing table of entry numbers + 1. */
    struct tr_occurrence {
        int32_t id;
        int32_t generated; /* 0: in the prompt only */
    } * seen;
    int n_seen, most_seen; /* entries; those that there is room for */
    int32_t *slots;        /* [slot_mask + 1] */
    uint32_t slot_mask;

    int32_t *tail; /* the last ids accepted, at most cap_tail: what a bad word can continue */
    int n_tail, cap_tail;
};

/* Whether tr_choice_apply would change anything at this position. */
bool tr_choice_changes(const struct tr_choice *c);
/* Penalties and bias, then -inf for what must not come: row [vocab]. */
void tr_choice_apply(const struct tr_choice *c, float *row);

#endif
