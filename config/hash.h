/*
 * 128-bit content hashes (XXH3): what page identities, fingerprints and checksums are made of. Not
 * for secrets: the function is fast and public, not cryptographic.
 */
#ifndef TR_CONFIG_HASH_H
#define TR_CONFIG_HASH_H

#include <stdbool.h>

#include "config/base.h"

struct tr_hash {
    uint64_t lo, hi;
};

struct tr_hash tr_hash(const void *bytes, size_t n);
/* The hash of `chain` followed by n bytes: a link of a chain over a growing text. */
struct tr_hash tr_hash_link(struct tr_hash chain, const void *bytes, size_t n);

static inline bool tr_hash_equal(struct tr_hash a, struct tr_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

#endif
