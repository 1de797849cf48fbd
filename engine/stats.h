/* What the engine counts of steps and caches, told with the other numbers (engine.h). */
#ifndef TR_ENGINE_STATS_H
#define TR_ENGINE_STATS_H

#include "engine/types.h"

/* A step's rows are of prompts only, of answers only, or of both. */
enum tr_step_kind { TR_STEP_PREFILL, TR_STEP_DECODE, TR_STEP_MIXED, TR_STEP_KINDS };

/* Bucket i has what is at most first * 2^i and in no bucket before, the last one the rest. */
enum { TR_STEP_EDGES = 14 };
#define TR_STEP_FIRST_SECONDS 0.0005
#define TR_STEP_FIRST_ROWS    1.0
struct tr_step_histogram {
    uint64_t buckets[TR_STEP_EDGES + 1];
    double sum;
};

/* Why prompt tokens that were looked up were not reused. */
enum tr_miss {
    TR_MISS_NEW,     /* no page has them (or had them long ago) */
    TR_MISS_EVICTED, /* the pages had to go for others */
    TR_MISS_WINDOW,  /* global pages are there, the local ones of the window before are not */
    TR_MISS_REST,    /* behind the last whole page, the last token included */
    TR_MISS_ROWS,    /* every row had to be computed: logprobs of the prompt, verification */
    TR_MISSES
};

/* Pages of one kind. */
struct tr_cache_stats {
    uint64_t page_bytes;
    uint64_t evicted, reused; /* cached pages given up for others; found and held again */
};

/* What steps and caches came to since the start. */
struct tr_run_stats {
    struct tr_step_histogram seconds[TR_STEP_KINDS], rows[TR_STEP_KINDS];
    struct tr_cache_stats local, global;
    uint64_t missed[TR_MISSES]; /* tokens */
    /* Bytes a second at which the compute threads read weights when they do nothing else: measured
     * at open, and some times more, for tens of milliseconds, when the engine is idle and somebody
     * looks (view.h); the best. 0 = none to read. */
    double read_limit;
    double decode_bytes_a_second; /* of weights, that steps of decoding read: smoothed */
    /* Of each layer, the first so many: most rows of an expert over the mean, of late; 0 = no
     * experts. */
    float expert_load[128];
};

#endif
