#include "tests/bench/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base.h"

void *must_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, TR_ROUND_UP(bytes, 64));
    if (!p) {
        perror("memory");
        exit(1);
    }
    memset(p, 1, bytes);
    return p;
}
