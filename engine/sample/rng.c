/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): a block cipher
 * on the counter, so that the draw of any position is known without those before it. */
#include "engine/sample/sampler.h"

static void philox_round(uint32_t x[4], const uint32_t key[2])
{
    uint64_t a = (uint64_t)0xD2511F53U * x[0];
    uint64_t b = (uint64_t)0xCD9E8D57U * x[2];
    uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ key[0];
    uint32_t y2 = (uint32_t)(a >> 32) ^ x[3] ^ key[1];
    x[0] = y0;
    x[1] = (uint32_t)b;
    x[2] = y2;
    x[3] = (uint32_t)a;
}

double tr_uniform(uint64_t seed, uint32_t choice, uint64_t position)
{
    uint32_t x[4] = {(uint32_t)position, (uint32_t)(position >> 32), choice, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        philox_round(x, key);
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    uint64_t bits = (uint64_t)x[1] << 32 | x[0];
    return (double)(bits >> 11) * 0x1p-53;
}
