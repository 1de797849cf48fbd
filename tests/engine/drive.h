/*
 * Drives a real engine in tests: submits jobs, collects what the events say, waits.
 *
 * A test compares answers by their ids and by the bits of their logprobs, so that "the same" means
 * the same to the last bit.
 */
#ifndef TESTS_ENGINE_DRIVE_H
#define TESTS_ENGINE_DRIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"

enum { DRIVE_MAX_IDS = 4096, DRIVE_MAX_CHOICES = 8 };

/* What one choice got. */
struct answer {
    int32_t ids[DRIVE_MAX_IDS];
    float logprobs[DRIVE_MAX_IDS];
    int n;
    enum tr_finish told, finish; /* by the last token, by the end */
    int32_t told_id, stop_id;
    bool done;
};

/* What one job got. */
struct outcome {
    uint64_t id;
    struct answer choices[DRIVE_MAX_CHOICES];
    float prompt_logprobs[DRIVE_MAX_IDS];
    int n_prompt_logprobs;
    bool admitted, done;
    struct tr_usage usage;
    char error[512];
};

/* Options of a small engine on tests/golden/NAME, or a folder by its absolute path, with F32 weights and caches. */
struct tr_engine_options drive_options(const char *name);
/* A copy of tests/golden/plain in a folder of its own, with another window and a context of 4096:
 * its path, valid until the next call; removed by drive_remove. */
const char *drive_variant(int window);
void drive_remove(const char *path);
/* Opens; fails the test with the error's text. */
struct tr_engine *drive_open(struct tr_engine_options o);

/* A greedy job with logprobs; the caller may change it before it is submitted. */
struct tr_job *drive_job(const int32_t *prompt, int n, int max_tokens);
/* Submits; the outcome must live until it is done. Fails the test if it is refused. */
void drive_submit(struct tr_engine *e, struct tr_job *job, struct outcome *o);
void drive_wait(struct outcome *o);
/* Until choice 0 has n tokens, or the job is done. */
void drive_wait_tokens(struct outcome *o, int n);
/* Tokens of choice 0 so far. */
int drive_tokens(struct outcome *o);
/* Submits and waits. */
void drive(struct tr_engine *e, struct tr_job *job, struct outcome *o);

/* Fails the test unless all choices have the same ids, ends and logprob bits. */
void assert_same(const struct outcome *a, const struct outcome *b, const char *what);
/* Statistics when the engine has nothing left to do. */
struct tr_engine_stats drive_idle(struct tr_engine *e);

/* The id list that the golden cases and the bug cases use: deterministic ids of a 285-word
 * vocabulary without control tokens. */
void drive_ids(int32_t *ids, int n, uint32_t seed);

#endif
