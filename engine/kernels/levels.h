/* The rungs of the ladder, for kernels.c; everyone else asks tr_kernels_select. */
#ifndef TR_ENGINE_KERNELS_LEVELS_H
#define TR_ENGINE_KERNELS_LEVELS_H

#include "engine/kernels/kernels.h"

/* Each puts its kernels on the table, in the place of those of the level below. Only for a
 * processor that has the level's instructions: these functions are compiled with them, too. */
void tr__add_generic(struct tr_kernels *k);      /* generic.c */
void tr__add_generic_gemm(struct tr_kernels *k); /* gemm_generic.c */
void tr__add_generic_attn(struct tr_kernels *k); /* attn_generic.c */
void tr__add_avx2(struct tr_kernels *k);         /* level_avx2.c */
void tr__add_avx2_gemm(struct tr_kernels *k);    /* gemm_avx2.c */
void tr__add_avx512(struct tr_kernels *k);       /* level_avx512.c */
void tr__add_avx512_gemm(struct tr_kernels *k);  /* gemm_avx512.c */
void tr__add_amx_gemm(struct tr_kernels *k);     /* gemm_amx.c */

/* Defines gemm_NAME(...), the product of the type TR_W_NAME, from the file's own `gemm` over any
 * quantised type. */
#define TR__GEMM_OF(name)                                                                          \
    static void gemm_##name(const void *panels, int k, int p0, int p1, const struct tr_rows *x,    \
                            int m, float *y, size_t ldy)                                           \
    {                                                                                              \
        gemm(TR_W_##name, panels, k, p0, p1, x, m, y, ldy);                                        \
    }

/* check_amx.c: whether the kernel lets this process use tiles, and they give the bits of
 * AVX-512. */
bool tr__amx_usable(const struct tr_kernels *avx512, const struct tr_kernels *amx);

#endif
