/*
 * One sequence of tokens on its way through the engine: a prompt, the answer so far, and the pages
 * that hold what was computed of it.
 *
 * Nothing here distinguishes prefill, decoding and recomputation: ids[0, n_ids) are known,
 * ids[0, n_computed) are in the cache, and a step computes some of the rest. Once all is computed,
 * the last row's logits give the next id.
 */
#ifndef TR_ENGINE_SCHEDULE_SEQUENCE_H
#define TR_ENGINE_SCHEDULE_SEQUENCE_H

#include "config/list.h"
#include "engine/cache/prefix.h"

/* The sequences of one request: they share its turns. */
struct tr_group {
    /* Written by the schedule. */
    int running;   /* of its sequences, paused ones aside */
    int claiming;  /* these, and forks that wait or are to come */
    int dealt;     /* places dealt out in the step that is being planned */
    uint64_t last; /* step in which one of them had a place last */
};

struct tr_seq {
    struct tr_list link; /* in the schedule's waiting or running list */

    /* Fixed by tr_seq_init. */
    const int32_t *prompt; /* borrowed */
    int n_prompt;
    int max_ids; /* prompt and answer can't exceed this */

    /* Fixed by the owner, before the sequence is added. */
    bool open_ended;        /* nobody knows where the answer ends: memory is promised bit by bit */
    int priority;           /* lower first, among those of the tenant */
    bool across;            /* its priority counts against other tenants' requests, too */
    uint64_t tenant;        /* fairness key */
    int weight;             /* the tenant's share against others'; 0 counts as 1 */
    struct tr_group *group; /* borrowed; NULL: the sequence is its request's only one */
    uint64_t order;         /* age: set by the schedule */
    bool share;             /* take and leave prefix pages */
    bool recompute; /* do not take prefix pages (prompt logprobs need every row), only leave them */

    /* Written by the schedule. */
    int32_t *ids; /* owned; [cap_ids]: known ids, then room for drafts; NULL while it waits */
    int cap_ids;
    int room;  /* ids that it was promised memory for: the owner appends no more than that */
    int n_ids; /* the owner appends sampled ids between steps */
    int n_computed;
    int n_cached; /* prompt tokens taken from pages of others */
    int n_forks; /* samples that will be forked off at the prompt's end: their pages are promised */
    int n_ahead; /* so many ids before the last known one were appended without a row that led to
                  * them: they are computed with it, by steps of decoding; set by the owner */
    int n_drafts;   /* ids[n_ids, n_ids + n_drafts) are guesses to verify in the next step */
    bool running;   /* in the running list: may hold pages */
    bool paused;    /* holds its pages, gets no rows */
    bool forked;    /* off one of its request: its seat is claimed while it waits, too */
    bool preempted; /* lost its pages to an older one, waits to be recomputed */
    bool deferred;  /* this step computes what it needs next: it takes no rows */
    int n_preempted;
    uint64_t salt[2]; /* of its prefix pages */
    struct tr_local_table local;
    struct tr_global_table global;
    struct tr_prefix chain;
    int64_t branch;  /* resume point seen at admission, see tr_prefix_adopt */
    bool evicted;    /* the page behind it was there, not long before */
    int64_t look_at; /* pages to have computed before others' are looked for again */
    bool failed;     /* there was no memory for its buffers: it can't go on */
    uint64_t buffer_bytes;
    int planned;         /* rows in the step that is being planned */
    bool seated;         /* has a place in it */
    uint64_t last;       /* step in which it had rows last */
    struct tr_group own; /* its group if the owner gave none */
};

/* Most drafts of one step. */
enum { TR_MAX_DRAFTS = 16 };

#endif
