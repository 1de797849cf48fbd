/*
 * The running side of a grammar: configurations, and the step from one to the next by a byte.
 *
 * A configuration is all the machine can be in after a text: a set of items, each a byte node with
 * its rule's counter and the stack below. A stack is a set of edges (node to go on with, its
 * counter, stack below), so one stack stands for many; both are hash-consed, and a configuration
 * has at most one item for a (node, counter), the stacks of equal ones united. Equal places in
 * equal surroundings are one configuration, whatever text led there: steps and masks are
 * remembered by configuration, which makes a lazy automaton of the whole grammar.
 *
 * All of it lives in one block of words with a bound; a reference is an offset into it. When the
 * block is full, what the live states reach is copied to a fresh one and the rest is forgotten.
 */
#ifndef TR_ENGINE_GRAMMAR_MACHINE_INTERNAL_H
#define TR_ENGINE_GRAMMAR_MACHINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/nodes.h"

/* Counters of items far from their bounds, used for masks only: every token leaves them so. */
enum { TR__FREE = 0x7FFFFFFE, TR__LOW = 0x7FFFFFFD };

/* An item, a stack's edge, or something to do: three words. */
struct tr__item {
    uint32_t node, count, stack;
};

struct tr__stack {
    uint32_t hash, n, depth;
    uint32_t far;   /* the same with far counters forgotten, 0 = not known */
    uint32_t names; /* some edge, or one below, has a record of names */
    struct tr__item edges[];
};

struct tr__config {
    uint32_t hash, n;
    uint32_t far;        /* as of a stack */
    uint32_t mask;       /* offset of its mask, 0 = none yet */
    uint32_t accept;     /* the text may end here */
    uint32_t allowed[8]; /* bytes that some item takes */
    struct tr__item items[];
};

/* In nodes of stacks that are no stacks, but cells of records (names.c). */
#define TR__CELL 0x80000000u

/* Stack of the root rule, and "no configuration": nothing of the block has these offsets. */
enum { TR__ROOT = 0, TR__DEAD = 0 };

struct tr__table { /* open addressing, 0 = free */
    uint32_t *slots;
    uint32_t cap, used;
};

struct tr__moves { /* key = offset of a configuration << 8 | byte; 0 = free */
    struct tr__move {
        uint32_t key, to;
    } * slots;
    uint32_t cap, used;
};

struct tr__store {
    uint32_t *words;
    uint32_t used, cap;
    struct tr__table stacks, configs;
    struct tr__moves moves;
};

struct tr__items { /* growing array */
    struct tr__item *at;
    uint32_t n, cap;
};

struct tr_grammar_state {
    struct tr_grammar *grammar;
    struct tr_grammar_state *next, **link; /* the grammar's states */
    uint32_t config;
    uint32_t past[TR_GRAMMAR_ROLLBACK]; /* ring: configurations before the last steps */
    int n_past, last;
};

struct tr_grammar {
    atomic_int refs;
    struct tr__node *nodes; /* read-only from here ... */
    struct tr__rule *rules;
    uint16_t *height;
    uint32_t n_nodes, n_rules, root;
    const struct tr_grammar_vocab *vocab;
    uint32_t longest; /* bytes of the vocabulary's longest token */
    bool few_names;   /* of some rule */
    bool tags;        /* ... to here: names stand between < and > */

    pthread_mutex_t lock; /* of all below */
    struct tr__store store;
    uint32_t begin; /* configuration */
    struct tr_grammar_state *states;
    int64_t fuel; /* steps left to the call under way */
    int r;        /* sticky error of the call under way */

    /* Scratch of a step. */
    struct tr__items todo, found, calls, edges;
    struct tr__table seen; /* indexes into todo + 1 */
    uint32_t *call_next;   /* per call: the next call of the same rule, + 1 */
    uint32_t call_cap;
    uint32_t *rule_calls; /* per rule: its first call + 1 */
    uint32_t *heap;       /* rules to be entered, by rank */
    uint32_t n_heap;
    bool accept;
    uint64_t *bits;        /* scratch of a mask: words of the vocabulary */
    struct tr__rows *rows; /* steps of the walk under way, by configuration and byte */
};

/* A cache in front of the remembered steps: a walk asks the same few configurations all the
 * time. */
enum { TR__ROWS = 64, TR__UNKNOWN = 0xFFFFFF };

struct tr__rows {
    uint32_t config[TR__ROWS];
    uint32_t to[TR__ROWS][256]; /* TR__UNKNOWN until asked */
};

enum {
    TR__STORE_WORDS = 1 << 20, /* 4 MiB */
    TR__STORE_MOVES = 1 << 17, /* 1 MiB */
    TR__MAX_ITEMS = 1 << 15,   /* of a configuration while it is made */
    TR__CALL_FUEL = 8000000    /* some 50 ms */
};

/* Takes the table of b (emptied). TR_EINVAL: no text at all; TR_EUNSUPPORTED, TR_ENOMEM. */
TR_NODISCARD int tr__grammar_new(struct tr_grammar **ret, struct tr__nodes *b, uint32_t root,
                                 const struct tr_grammar_vocab *vocab);

/* ---- store.c: caller holds the lock ---- */

static inline struct tr__stack *tr__stack_at(const struct tr_grammar *g, uint32_t at)
{
    return (struct tr__stack *)(void *)(g->store.words + at);
}

static inline struct tr__config *tr__config_at(const struct tr_grammar *g, uint32_t at)
{
    return (struct tr__config *)(void *)(g->store.words + at);
}

TR_NODISCARD int tr__store_init(struct tr__store *s);
void tr__store_done(struct tr__store *s);
/* n words, 0 if there is no room (sticky error "full"). */
uint32_t tr__store_take(struct tr_grammar *g, uint32_t n);
/* The stack of edges, which are sorted and united; depth is that of the deepest below + 1. */
uint32_t tr__stack_intern(struct tr_grammar *g, const struct tr__item *edges, uint32_t n);
/* Sorts items, unites those of one (node, counter); the configuration, TR__DEAD for nothing. */
uint32_t tr__config_intern(struct tr_grammar *g, struct tr__items *items, bool accept);
/* Sorts by node and counter and unites stacks. */
void tr__unite_items(struct tr_grammar *g, struct tr__items *items);
/* Forgets what no state reaches. Offsets change: of the grammar's begin and states only are they
 * kept. TR_EUNSUPPORTED: that alone is too much; TR_ENOMEM. */
TR_NODISCARD int tr__store_collect(struct tr_grammar *g);
/* A remembered step; 0 if none. */
uint32_t tr__move_find(const struct tr_grammar *g, uint32_t key);
void tr__move_add(struct tr_grammar *g, uint32_t key, uint32_t to);

bool tr__items_add(struct tr_grammar *g, struct tr__items *a, struct tr__item item);

/* ---- step.c ---- */

/* The configuration after `byte`, TR__DEAD if none (look at g->r). */
uint32_t tr__step(struct tr_grammar *g, uint32_t config, unsigned byte);
/* That of the empty text. */
uint32_t tr__begin(struct tr_grammar *g);

static inline bool tr__allows(const struct tr__config *c, unsigned byte)
{
    return c->allowed[byte >> 5] >> (byte & 31) & 1;
}

/* ---- names.c: records are counts of items whose rule is named ---- */

/* What x, a byte of or beside a name, makes of a record; false: the byte may not come. */
bool tr__name_step(struct tr_grammar *g, const struct tr__node *x, unsigned byte, uint32_t *count);
bool tr__name_room(struct tr_grammar *g, const struct tr__node *x, uint32_t count);
uint32_t tr__name_count(const struct tr_grammar *g, uint32_t record);
uint32_t tr__name_add_property(struct tr_grammar *g, uint32_t record);
/* The record with names forgotten as far as tokens allow that hold no whole name. */
uint32_t tr__name_relaxed(struct tr_grammar *g, const struct tr__rule *rule, uint32_t record);
bool tr__name_under_way(const struct tr_grammar *g, uint32_t record);

/* ---- state.c ---- */

/* After an error of a call: collects if the store was full. 0: begin the call again. */
int tr__retry(struct tr_grammar *g);

/* ---- mask.c ---- */

/* The offset of a configuration's mask, made if need be; 0 upon an error. */
uint32_t tr__mask_at(struct tr_grammar *g, uint32_t config);

/* ---- relax.c ---- */

/* The configuration with counters forgotten that no token can bring to a bound. */
uint32_t tr__relax(struct tr_grammar *g, uint32_t config);

#endif
