/*
 * A test double of the engine: the functions of engine/engine.h, with the demo's tokenizer and no model.
 *
 * Choice c of a job answers with its prompt again and again, beginning at token c; a token that ends generation ends
 * the answer. One token a choice and step. What a real engine does once in a year is asked for by `mock`.
 */
#ifndef TR_TESTS_UNIT_SERVER_MOCK_ENGINE_H
#define TR_TESTS_UNIT_SERVER_MOCK_ENGINE_H

#include "engine/engine.h"

struct mock {
    int step_us;     /* length of a step */
    int fail_after;  /* tokens after which a job fails; 0 = never */
    int max_queue;   /* jobs that may be open; beyond it TR_EQUEUE; 0 = no bound */
    int hold_queue;  /* jobs that run at once, the others wait; 0 = all run */
    int context;     /* 0 = 1 << 20 */
    int load_us;     /* how long a load takes after the checkpoint was found good */
    bool load_fails; /* and then it fails */
    bool stuck;      /* the engine's thread stands still: no heartbeat */
};
extern struct mock mock; /* set before the engine is opened */

#endif
