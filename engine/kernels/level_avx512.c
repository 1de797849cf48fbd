/* The tables of the levels "avx512" and "amx", which differ in the panel products only. */
#include "engine/kernels/attn_body.h"
#include "engine/kernels/gemm_float_body.h"
#include "engine/kernels/lanes_body.h"
#include "engine/kernels/levels.h"

#define SHARED                                                                                     \
    .rmsnorm = rmsnorm, .add = add, .combine = combine, .swiglu = swiglu, .sigmoid = sigmoid,      \
    .gate = gate_by, .to_bf16 = to_bf16, .quantize = quantize, .router_f32 = router_f32,           \
    .router_bf16 = router_bf16, .sum_exp = sum_exp,                                                \
    .attn = {[TR_KV_F32] = attn_f32, [TR_KV_BF16] = attn_bf16, [TR_KV_Q8] = attn_q8}

const struct tr_kernels tr__kernels_avx512 = {
    SHARED,
    .level = TR_ISA_AVX512,
    .name = "avx512",
    .gemm = {[TR_W_F16] = gemm_f16,
             [TR_W_BF16] = gemm_bf16,
             [TR_W_Q8_0] = tr__avx512_gemm_q8_0,
             [TR_W_Q4_0] = tr__avx512_gemm_q4_0,
             [TR_W_Q4_K] = tr__avx512_gemm_q4_k,
             [TR_W_Q5_K] = tr__avx512_gemm_q5_k,
             [TR_W_Q6_K] = tr__avx512_gemm_q6_k,
             TR_MORE_QUANTS(TR_GENERIC_GEMM)},
};

const struct tr_kernels tr__kernels_amx = {
    SHARED,
    .level = TR_ISA_AMX,
    .name = "amx",
    .gemm = {[TR_W_F16] = gemm_f16,
             [TR_W_BF16] = tr__amx_gemm_bf16,
             [TR_W_Q8_0] = tr__amx_gemm_q8_0,
             [TR_W_Q4_0] = tr__amx_gemm_q4_0,
             [TR_W_Q4_K] = tr__amx_gemm_q4_k,
             [TR_W_Q5_K] = tr__amx_gemm_q5_k,
             [TR_W_Q6_K] = tr__amx_gemm_q6_k,
             TR_MORE_QUANTS(TR_GENERIC_GEMM)},
};
