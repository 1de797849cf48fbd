/* The tables of the levels, for kernels.c; everyone else asks tr_kernels_select. */
#ifndef TR_ENGINE_KERNELS_LEVELS_H
#define TR_ENGINE_KERNELS_LEVELS_H

#include "engine/kernels/kernels.h"

/* generic.c, gemm_generic.c, attn_generic.c: plain C, the specification. */
extern const struct tr_kernels tr__kernels_generic;
void tr__generic_gemm_f16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                          float *y, size_t ldy);
void tr__generic_gemm_bf16(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy);
void tr__generic_gemm_q8_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy);
void tr__generic_gemm_q4_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy);
void tr__generic_gemm_q4_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy);
void tr__generic_gemm_q5_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy);
void tr__generic_gemm_q6_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x,
                           int m, float *y, size_t ldy);
void tr__generic_attn_f32(const struct tr_attn_block *block);
void tr__generic_attn_bf16(const struct tr_attn_block *block);
void tr__generic_attn_q8(const struct tr_attn_block *block);

/* level_level_avx2.c, gemm_avx2.c */
extern const struct tr_kernels tr__kernels_avx2;
void tr__avx2_gemm_q8_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                        float *y, size_t ldy);
void tr__avx2_gemm_q4_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                        float *y, size_t ldy);
void tr__avx2_gemm_q4_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                        float *y, size_t ldy);
void tr__avx2_gemm_q5_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                        float *y, size_t ldy);
void tr__avx2_gemm_q6_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                        float *y, size_t ldy);

/* level_level_avx512.c, gemm_avx512.c */
extern const struct tr_kernels tr__kernels_avx512;
void tr__avx512_gemm_q8_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                          float *y, size_t ldy);
void tr__avx512_gemm_q4_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                          float *y, size_t ldy);
void tr__avx512_gemm_q4_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                          float *y, size_t ldy);
void tr__avx512_gemm_q5_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                          float *y, size_t ldy);
void tr__avx512_gemm_q6_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                          float *y, size_t ldy);

/* level_avx512.c, gemm_amx.c, check_amx.c */
extern const struct tr_kernels tr__kernels_amx;
void tr__amx_gemm_bf16(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                       float *y, size_t ldy);
void tr__amx_gemm_q8_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                       float *y, size_t ldy);
void tr__amx_gemm_q4_0(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                       float *y, size_t ldy);
void tr__amx_gemm_q4_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                       float *y, size_t ldy);
void tr__amx_gemm_q5_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                       float *y, size_t ldy);
void tr__amx_gemm_q6_k(const void *panels, int k, int p0, int p1, const struct tr_rows *x, int m,
                       float *y, size_t ldy);
/* Whether the kernel lets this process use tiles, and they give the bits of AVX-512. */
bool tr__amx_usable(void);

#endif
