/*
 * A second forward pass to check the first one against: dense, unpaged, one sequence, whole
 * matrices through OpenBLAS.
 *
 * It shares nothing with forward.c but the weights and the equations: no pages, panels, batches or
 * kernels, attention and routing in double precision, and the C library's exp, sin and cos.
 */
#ifndef TR_ENGINE_FORWARD_REFERENCE_H
#define TR_ENGINE_FORWARD_REFERENCE_H

#include "engine/checkpoint/weights.h"

/* Logits [n][vocab_size] after each of the n tokens. Every matrix of the weights must be TR_W_F32
 * (TR_WEIGHTS_F32), else TR_EUNSUPPORTED. TR_ENOMEM. */
TR_NODISCARD int tr_reference_logits(const struct tr_weights *w, const int32_t *tokens, int n,
                                     float *logits);

#endif
