/*
 * One sequence through the forward pass on pages of its own, without the engine's pools; and golden files.
 *
 * Pages are filled with NaN before they are written, so that a key which was never stored can't hide.
 */
#ifndef TR_TESTS_GOLDEN_RUN_H
#define TR_TESTS_GOLDEN_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/json.h"
#include "engine/forward/forward.h"

/* A document of tests/golden with a prompt. */
struct golden {
    struct json_t *doc;
    struct tr_json root;
    char path[256];
    int32_t prompt[4096];
    int n;
};

void golden_read(struct golden *g,
                 const char *name); /* tests/golden/NAME.json; prompt if the root has one */
void golden_prompt(struct golden *g, const struct tr_json *object);
void golden_done(struct golden *g);
double golden_number(const struct tr_json *v);

enum { MAX_TOKENS = 96 };

struct run_options {
    const char *path; /* below the repository's root */
    int max_tokens;
    int threads;
    int page; /* tokens */
    enum tr_weights_choice choice;
    enum tr_isa isa;
    enum tr_kv_type kv;
};

struct run {
    struct tr_pool *pool;
    struct tr_weights *weights;
    struct tr_forward *forward;
    struct tr_kv_layout local_layout, global_layout;
    struct tr_local_table local;
    struct tr_global_table global;
    int max_tokens;
    float *logits; /* [max_tokens][vocab] */
    float *hidden; /* [layers][d] of the last row seen */
    float *gate;   /* [layers][heads * head_dim], sigmoid applied */
};

void run_open(struct run *r, const struct run_options *o);
/* tests/golden/NAME with an fp32 cache and room for MAX_TOKENS. */
void run_open_golden(struct run *r, const char *name, int threads, int page,
                     enum tr_weights_choice choice);
void run_close(struct run *r);
/* Tokens [pos, pos + n) in one step; their logits land in r->logits. */
void run_step(struct run *r, const int32_t *tokens, int pos, int n);
/* The first n tokens, `chunk` at a time. */
void run_prefill(struct run *r, const int32_t *tokens, int n, int chunk);
int argmax(const float *x, int n);

#endif
