/*
 * The only file that knows OpenBLAS.
 *
 * Debian's 0.3.21 picks its kernels by a table of processor models; one it doesn't know gets SSE3
 * code. The name of the core type it chose gives that away.
 */
#include "engine/kernels/blas.h"

#include <cblas.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

/* Exported by builds with threads of their own, but declared nowhere: the library calls it itself
 * before a fork. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

static void end_threads(void)
{
    openblas_set_num_threads(1); /* would begin them anew if it came later */
    if (blas_thread_shutdown_)
        (void)blas_thread_shutdown_();
}

void tr_blas_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, end_threads);
}

const char *tr_blas_core(void)
{
    return openblas_get_corename();
}

const char *tr_blas_better_core(void)
{
    /* Core types of OpenBLAS by the instructions they use; others are older still. */
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "Sapphirerapids"};
    static const char *const avx2[] = {"Haswell", "Zen"};
    const char *core = tr_blas_core();
    for (size_t i = 0; i < TR_ARRAY_LEN(avx512); i++) {
        if (strcasecmp(core, avx512[i]) == 0)
            return NULL;
    }
    enum tr_isa isa = tr_isa_detect();
    if (isa >= TR_ISA_AVX512)
        return "SkylakeX";
    for (size_t i = 0; i < TR_ARRAY_LEN(avx2); i++) {
        if (strcasecmp(core, avx2[i]) == 0)
            return NULL;
    }
    return isa >= TR_ISA_AVX2 ? "Haswell" : NULL;
}

/* Eight rows, always. Fewer are padded with zeros, and the results of those are dropped. */
void tr_blas_matmul(const float *w, int n, int k, int n0, int n1, const float *x, size_t ldx, int m,
                    float *y, size_t ldy, float *scratch)
{
    float *rows = scratch;
    float *out = scratch + (size_t)TR_BLAS_M * (size_t)k;
    for (int r = 0; r < m; r += TR_BLAS_M) {
        int here = TR_MIN(TR_BLAS_M, m - r);
        for (int i = 0; i < TR_BLAS_M; i++) {
            float *row = rows + (size_t)i * k;
            if (i < here)
                memcpy(row, x + (size_t)(r + i) * ldx, (size_t)k * sizeof *row);
            else
                memset(row, 0, (size_t)k * sizeof *row);
        }
        for (int c = n0; c < n1; c += TR_BLAS_CUT) {
            int width = TR_MIN(TR_BLAS_CUT, n - c);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, TR_BLAS_M, width, k, 1.0F, rows, k,
                        w + (size_t)c * k, k, 0.0F, out, width);
            for (int i = 0; i < here; i++)
                memcpy(y + (size_t)(r + i) * ldy + c, out + (size_t)i * width,
                       (size_t)width * sizeof *y);
        }
    }
}

void tr_blas_dense(const float *w, int n, int k, const float *x, int m, float *y)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0F, x, k, w, k, 0.0F, y, n);
}
