/*
 * A schedule without a model: sequences have numbers, and a step computes what was planned.
 */
#ifndef TESTS_UNIT_SCHEDULE_STEPS_H
#define TESTS_UNIT_SCHEDULE_STEPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/schedule/schedule.h"

enum { STEPS_PAGE = 16, STEPS_SEQS = 512 };

struct steps_seq {
    struct tr_seq seq; /* max_ids is 0 where there is none */
    struct tr_group group;
    int32_t *prompt; /* owned */
    int first_step;  /* in which it got its first token; 0 = not yet */
    int last_step;   /* in which it had rows last, or was added */
    int gap;         /* most steps between two of them */
};

extern struct tr_schedule *steps_schedule;
extern struct steps_seq steps_seqs[STEPS_SEQS];
extern int steps_now; /* steps so far */

void steps_open(int max_rows, int max_sequences, int budget_pages);
/* The same for a model without layers of one kind. */
void steps_open_kinds(int max_rows, int max_sequences, int budget_pages, bool local, bool global);
/* Takes everything out and asserts that no page is left. */
void steps_close(void);
/* As many tokens of an answer without a known end (`open_ended`) are promised at first. */
void steps_expect(int tokens);
void steps_add_open(int k, int n_prompt, int answer, uint64_t tenant);
void steps_add(int k, int n_prompt, int answer, uint64_t tenant, int priority);
/* The same with samples k + 1, ... that are forked off it. */
void steps_add_samples(int k, int n, int n_prompt, int answer, uint64_t tenant);
void steps_leave(int k);
/* One step; complete sequences get another id until they are full, and leave. Returns its rows. */
int steps_run(void);

#endif
