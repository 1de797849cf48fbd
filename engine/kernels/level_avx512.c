/* What the level "avx512" adds beside the quantised products (gemm_avx512.c). */
#include "engine/kernels/level_body.h"
#include "engine/kernels/levels.h"

void tr__add_avx512(struct tr_kernels *k)
{
    add_vectors(k);
}
