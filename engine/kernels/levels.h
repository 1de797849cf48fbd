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

/* Layouts of quantised panels, named by a type that has it; and the types with their layouts. */
/* clang-format off */
#define TR__LAYOUTS(X)                                                                             \
    X(Q8_0) X(Q4_0) X(Q4_K) X(Q5_K) X(Q6_K) X(Q4_1) X(Q5_0) X(Q5_1) X(IQ4_NL) X(MXFP4) X(NVFP4)    \
    X(Q2_K) X(Q3_K) X(IQ4_XS) X(IQ3_S) X(IQ2_S) X(TQ2_0)
#define TR__QUANTS(X)                                                                              \
    X(Q8_0, Q8_0) X(Q4_0, Q4_0) X(Q4_K, Q4_K) X(Q5_K, Q5_K) X(Q6_K, Q6_K) X(Q4_1, Q4_1)            \
    X(Q5_0, Q5_0) X(Q5_1, Q5_1) X(IQ4_NL, IQ4_NL) X(MXFP4, MXFP4) X(NVFP4, NVFP4) X(Q2_K, Q2_K)    \
    X(Q3_K, Q3_K) X(IQ4_XS, IQ4_XS) X(IQ3_XXS, IQ4_XS) X(IQ3_S, IQ3_S) X(IQ2_XXS, IQ2_S)          \
    X(IQ2_XS, IQ2_S) X(IQ2_S, IQ2_S) X(IQ1_S, IQ2_S) X(IQ1_M, IQ2_S) X(TQ1_0, TQ2_0)               \
    X(TQ2_0, TQ2_0) X(Q1_0, TQ2_0) X(Q2_0, TQ2_0)
/* clang-format on */

/* Is it worth code of its own for every number of rows? The files that most people have are made of
 * these; more code would make the kernels' files slow to compile. */
static inline bool tr__common(enum tr_wtype type)
{
    return type >= TR_W_Q8_0 && type <= TR_W_Q6_K;
}

/* Defines layout_NAME(values, ...), the product of the panels of a layout, from the file's own
 * `gemm` over any. */
#define TR__LAYOUT_OF(name)                                                                        \
    static void layout_##name(struct values v, const void *panels, int k, int p0, int p1,          \
                              const struct tr_rows *x, int m, float *y, size_t ldy)                \
    {                                                                                              \
        gemm(TR_W_##name, v, panels, k, p0, p1, x, m, y, ldy);                                     \
    }
/* Defines gemm_NAME(...), the product of the type TR_W_NAME, from that of its layout: types that
 * differ in the file's own struct values alone share one. */
#define TR__GEMM_OF(name, layout)                                                                  \
    static void gemm_##name(const void *panels, int k, int p0, int p1, const struct tr_rows *x,    \
                            int m, float *y, size_t ldy)                                           \
    {                                                                                              \
        layout_##layout(values_of(TR_W_##name), panels, k, p0, p1, x, m, y, ldy);                  \
    }
/* Puts it on the table k. */
#define TR__ADD_GEMM(name, layout) k->gemm[TR_W_##name] = gemm_##name;

/* check_amx.c: whether the kernel lets this process use tiles, and they give the bits of
 * AVX-512. */
bool tr__amx_usable(const struct tr_kernels *avx512, const struct tr_kernels *amx);

#endif
