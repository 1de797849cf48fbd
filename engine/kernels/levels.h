/* The tables of the levels, for kernels.c; everyone else asks tr_kernels_select. */
#ifndef TR_ENGINE_KERNELS_LEVELS_H
#define TR_ENGINE_KERNELS_LEVELS_H

#include "engine/kernels/kernels.h"

/* The quantised types, by the ends of a function's name and of the type's. */
#define TR_QUANTS(X) X(q8_0, Q8_0) X(q4_0, Q4_0) X(q4_k, Q4_K) X(q5_k, Q5_K) X(q6_k, Q6_K)
#define TR_MORE_QUANTS(X)                                                                          \
    X(q4_1, Q4_1)                                                                                  \
    X(q5_0, Q5_0)                                                                                  \
    X(q5_1, Q5_1)                                                                                  \
    X(iq4_nl, IQ4_NL) X(mxfp4, MXFP4) X(nvfp4, NVFP4) X(q2_k, Q2_K) X(q3_k, Q3_K)                  \
        X(iq4_xs, IQ4_XS) X(iq3_xxs, IQ3_XXS) X(iq3_s, IQ3_S) X(iq2_xxs, IQ2_XXS)                  \
            X(iq2_xs, IQ2_XS) X(iq2_s, IQ2_S) X(iq1_s, IQ1_S) X(iq1_m, IQ1_M) X(tq1_0, TQ1_0)      \
                X(tq2_0, TQ2_0) X(q1_0, Q1_0) X(q2_0, Q2_0)

/* See struct tr_kernels. */
#define TR_GEMM_ARGS                                                                               \
    const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m, float *y, size_t ldy
#define GENERIC(name, type) void tr__generic_gemm_##name(TR_GEMM_ARGS);
#define AVX2(name, type)    void tr__avx2_gemm_##name(TR_GEMM_ARGS);
#define AVX512(name, type)  void tr__avx512_gemm_##name(TR_GEMM_ARGS);
#define AMX(name, type)     void tr__amx_gemm_##name(TR_GEMM_ARGS);

/* The entries of a level's table that plain C has to serve. */
#define TR_GENERIC_GEMM(name, type) [TR_W_##type] = tr__generic_gemm_##name,

/* generic.c, gemm_generic.c, attn_generic.c: plain C, the specification. */
extern const struct tr_kernels tr__kernels_generic;
void tr__generic_gemm_f16(TR_GEMM_ARGS);
void tr__generic_gemm_bf16(TR_GEMM_ARGS);
TR_QUANTS(GENERIC)
TR_MORE_QUANTS(GENERIC)
void tr__generic_attn_f32(const struct tr_attn_block *block);
void tr__generic_attn_bf16(const struct tr_attn_block *block);
void tr__generic_attn_q8(const struct tr_attn_block *block);

/* level_avx2.c, gemm_avx2.c */
extern const struct tr_kernels tr__kernels_avx2;
TR_QUANTS(AVX2)

/* level_avx512.c, gemm_avx512.c */
extern const struct tr_kernels tr__kernels_avx512;
TR_QUANTS(AVX512)

/* level_avx512.c, gemm_amx.c, check_amx.c */
extern const struct tr_kernels tr__kernels_amx;
void tr__amx_gemm_bf16(TR_GEMM_ARGS);
TR_QUANTS(AMX)
/* Whether the kernel lets this process use tiles, and they give the bits of AVX-512. */
bool tr__amx_usable(void);

#endif
