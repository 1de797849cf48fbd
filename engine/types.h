/*
 * What the rooms of the engine agree on before anything is loaded: levels of instructions, types of
 * weights and of the cache, and what is recommended for sampling.
 */
#ifndef TR_ENGINE_TYPES_H
#define TR_ENGINE_TYPES_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"

enum tr_kv_type { TR_KV_F32, TR_KV_BF16, TR_KV_Q8 };

/* What `weights` may ask for: keep as stored, or convert at load. */
enum tr_weights_choice {
    TR_WEIGHTS_AUTO,
    TR_WEIGHTS_F32,
    TR_WEIGHTS_BF16,
    TR_WEIGHTS_Q8_0,
    TR_WEIGHTS_Q4_0
};

/* Ordered: a level includes those before it. */
enum tr_isa { TR_ISA_GENERIC, TR_ISA_AVX2, TR_ISA_AVX512, TR_ISA_AMX, TR_ISA_AUTO };

/* What the checkpoint recommends where a request is silent. NAN, top_k -1: it does not say. */
struct tr_sampling_defaults {
    float temperature, top_p, min_p, repetition_penalty;
    int top_k; /* 0 = off */
};

/* Of constrained answers, counted since the start. */
struct tr_bound_stats {
    uint64_t tokens;
    uint64_t forced;    /* of them, that nothing else could stand for: appended without a draw */
    uint64_t part_rows; /* head rows of which only the logits of few ids were computed */
    uint64_t mask_ns;   /* spent on masks */
};

/* A page pool in at most so many cells: cell i counts what the pages [i << shift, (i + 1) << shift)
 * are; those of the first `touched` pages that it does not count are free. */
enum { TR_PAGE_CELLS = 1024 };
struct tr_page_cell {
    int used, cached; /* held by sequences; held by nobody, reusable */
};
struct tr_page_map {
    int touched; /* pages that were ever used; the others lie behind them */
    int shift;
    struct tr_page_cell cells[TR_PAGE_CELLS];
};

/* A tensor of a checkpoint; everything is borrowed for the call that tells it. */
struct tr_tensor_facts {
    const char *name, *file;
    const char *stored; /* the format's word for its type */
    /* The type in memory; two of a table that is head as well: "bf16+q8_0". "part": of a quantised
     * matrix. "unused": no weight is read from it, and its values were not looked at. */
    const char *kept;
    const uint64_t *dims; /* [n_dims], outermost first */
    int n_dims;
    bool zero; /* every value, of what is not a bias */
    uint64_t nans, infinities;
};
typedef void (*tr_tensor_fn)(void *arg, const struct tr_tensor_facts *facts);

/* How far a load is: done and total bytes. Called on the thread that loads. */
typedef void (*tr_progress_fn)(void *arg, uint64_t done, uint64_t total);
/* The checkpoint is good; its weights will take so many bytes of memory, of which so many are left.
 * false: they are not read, and loading ends with TR_ECANCELED. */
typedef bool (*tr_checked_fn)(void *arg, uint64_t weight_bytes, uint64_t memory_left);

#endif
