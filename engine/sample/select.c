#include "engine/sample/select.h"

enum { RADIX = 256 };

struct histogram {
    double mass[RADIX];
    int count[RADIX];
};

/* The first bucket at which *acc + mass reaches the target; *acc becomes what lies before it.
 * RADIX if none does. */
static int find_bucket(const struct histogram *h, double target, double *acc, int *ret_last)
{
    double sum = *acc, before_last = sum;
    for (int b = 0; b < RADIX; b++) {
        if (h->count[b] == 0)
            continue;
        if (sum + h->mass[b] >= target) {
            *acc = sum;
            return b;
        }
        *ret_last = b;
        before_last = sum;
        sum += h->mass[b];
    }
    *acc = before_last;
    return RADIX;
}

struct tr_cut tr_select(const uint32_t *keys, const float *weights, int n, double target,
                        int *scratch)
{
    struct tr_cut all = {.key = UINT32_MAX, .index = n - 1};
    double acc = 0.0;
    int m = n; /* entries that agree with the cut in the digits seen: all, then scratch[0..m) */
    for (int shift = 24; shift >= 0; shift -= 8) {
        bool first = shift == 24;
        struct histogram h = {0};
        for (int j = 0; j < m; j++) {
            int i = first ? j : scratch[j];
            uint32_t b = keys[i] >> shift & (RADIX - 1);
            h.mass[b] += weights ? (double)weights[i] : 1.0;
            h.count[b]++;
        }
        int last = 0;
        int bucket = find_bucket(&h, target, &acc, &last);
        if (bucket == RADIX) {
            if (first)
                return all;
            /* Sums of parts round otherwise than the sum of the whole did. */
            bucket = last;
        }
        int kept = 0;
        for (int j = 0; j < m; j++) {
            int i = first ? j : scratch[j];
            if ((keys[i] >> shift & (RADIX - 1)) == (uint32_t)bucket)
                scratch[kept++] = i;
        }
        m = kept;
    }
    int j = 0; /* what is left has one key */
    while (j < m - 1 && acc + (weights ? (double)weights[scratch[j]] : 1.0) < target) {
        acc += weights ? (double)weights[scratch[j]] : 1.0;
        j++;
    }
    return (struct tr_cut){.key = keys[scratch[0]], .index = scratch[j]};
}
