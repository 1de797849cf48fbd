#define XXH_INLINE_ALL
#include "config/hash.h"

#include <xxhash.h>

static struct tr_hash from_xxh(XXH128_hash_t h)
{
    return (struct tr_hash){.lo = h.low64, .hi = h.high64};
}

struct tr_hash tr_hash(const void *bytes, size_t n)
{
    return from_xxh(XXH3_128bits(bytes, n));
}

struct tr_hash tr_hash_link(struct tr_hash chain, const void *bytes, size_t n)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &chain, sizeof chain);
    XXH3_128bits_update(&state, bytes, n);
    return from_xxh(XXH3_128bits_digest(&state));
}
