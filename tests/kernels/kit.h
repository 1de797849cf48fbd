/* What the kernel tests share: levels to compare, random and hostile numbers, guarded memory. */
#ifndef TR_TESTS_KERNELS_KIT_H
#define TR_TESTS_KERNELS_KIT_H

/* cmocka.h wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/kernels/kernels.h"

/* The plain C level, and the number i of those above it that this machine has; NULL: no more. */
const struct tr_kernels *kit_generic(void);
const struct tr_kernels *kit_level(int i);

/* One sequence a process, from the seed in the environment (SEED=NUMBER, SEED=random; else 1). */
uint32_t kit_random(void);
int kit_between(int low, int high); /* both included */
float kit_uniform(void);            /* [-1, 1) */
float kit_hostile(void); /* zeros of both signs, denormals, tiny, huge but finite, ordinary */

/* bytes at a 64-byte border plus `offset`, filled with a pattern, between guards. */
void *kit_alloc(size_t bytes, size_t offset);
/* Fails the test if a guard was written to; then frees. NULL ok. */
void kit_free(void *p);

/* Fails unless both have the same bits; any NaN equals any NaN. */
void kit_same(const float *a, const float *b, size_t n, const char *what, ...)
    __attribute__((format(printf, 4, 5)));

/* A matrix of a type in file format and packed, with random weights of about 1 / sqrt(k). */
struct kit_matrix {
    struct tr_matrix m;
    uint8_t *file; /* [n] rows */
    void *packed;
};
void kit_matrix_init(struct kit_matrix *w, enum tr_wtype type, int n, int k);
void kit_matrix_repack(struct kit_matrix *w); /* after a change to file */
/* Gives a block of a quantised type scales that make weights of about `size`. */
void kit_sound_scales(enum tr_wtype type, uint8_t *block, float size);
void kit_matrix_done(struct kit_matrix *w);
/* Element (row, i), read straight from the format's definition, in double. */
double kit_weight(const struct kit_matrix *w, int row, int i);

/* m rows of k with every form filled by kn from values of `value`. */
void kit_rows_init(struct tr_rows *x, const struct tr_kernels *kn, int m, int k,
                   float (*value)(void));
void kit_rows_done(struct tr_rows *x);

#endif
