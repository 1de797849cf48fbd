/* What the level "avx2" adds beside the quantised products (gemm_avx2.c). */
#include "engine/kernels/level_body.h"
#include "engine/kernels/levels.h"

void tr__add_avx2(struct tr_kernels *k)
{
    add_vectors(k);
}
