/*
 * What the levels with vectors add beside the quantised products. Included by one file a level,
 * which compiles it with that level's flags.
 */
#ifndef TR_ENGINE_KERNELS_LEVEL_BODY_H
#define TR_ENGINE_KERNELS_LEVEL_BODY_H

#include "engine/kernels/attn_body.h"
#include "engine/kernels/gemm_float_body.h"
#include "engine/kernels/lanes_body.h"

#ifdef __AVX2__

static void add_vectors(struct tr_kernels *k)
{
    k->rmsnorm = rmsnorm;
    k->add = add;
    k->combine = combine;
    k->swiglu = swiglu;
    k->sigmoid = sigmoid;
    k->gate = gate_by;
    k->to_bf16 = to_bf16;
    k->quantize = quantize;
    k->router_f32 = router_f32;
    k->router_bf16 = router_bf16;
    k->sum_exp = sum_exp;
    k->gemm[TR_W_F16] = gemm_f16;
    k->gemm[TR_W_BF16] = gemm_bf16;
    k->attn[TR_KV_F32] = attn_f32;
    k->attn[TR_KV_BF16] = attn_bf16;
    k->attn[TR_KV_Q8] = attn_q8;
}

#endif /* __AVX2__ */
#endif
