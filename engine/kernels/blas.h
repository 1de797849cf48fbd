/*
 * OpenBLAS under the numeric contract: fixed-M calls, one thread per call, columns cut at fixed
 * places.
 *
 * A BLAS picks its kernel, and with it the order of its sums, by the shape of the call. Here every
 * call has M = 8 rows (zero-padded) and the same column cuts whatever the batch, so a row's bits
 * depend on the row alone.
 */
#ifndef TR_ENGINE_KERNELS_BLAS_H
#define TR_ENGINE_KERNELS_BLAS_H

#include "engine/kernels/kernels.h"

/* Sets OpenBLAS to one thread, the caller's, and ends those that it began when it was loaded.
 * Only the first call does anything: before any thread multiplies. */
void tr_blas_init(void);
/* "SkylakeX", "Haswell", ... as the library reports it. */
const char *tr_blas_core(void);
/* Whether the library chose a core type that wastes this processor (e.g. Prescott on a recent
 * Xeon); the name of the right one, else NULL. The library reads OPENBLAS_CORETYPE when it is
 * loaded: the program must re-exec itself. */
const char *tr_blas_better_core(void);

/* y[r][n0..n1) = x[r] . w[n0..n1)^T for r < m; w is [n][k] row-major; n0 and n1 are cuts of
 * tr_blas_cut. scratch: room for 8 rows of k and 8 rows of a cut. */
void tr_blas_matmul(const float *w, int n, int k, int n0, int n1, const float *x, size_t ldx, int m,
                    float *y, size_t ldy, float *scratch);
/* y [m][n] = x [m][k] . w^T in one call: for the reference pass, where bits may depend on the
 * shape. */
void tr_blas_dense(const float *w, int n, int k, const float *x, int m, float *y);
/* The fixed width of a column cut. */
enum { TR_BLAS_CUT = 256, TR_BLAS_M = 8 };

#endif
