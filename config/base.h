/* Small macros that every folder uses; no functions, no state. */
#ifndef TR_CONFIG_BASE_H
#define TR_CONFIG_BASE_H

#include <stddef.h>
#include <stdint.h>

#define TR_VERSION "0.1.0"

#define TR_ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))
#define TR_NODISCARD                       __attribute__((warn_unused_result))
#define TR_PRINTF(fmt, first)              __attribute__((format(printf, fmt, first)))
#define TR_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define TR_MIN(a, b)                       ((a) < (b) ? (a) : (b))
#define TR_MAX(a, b)                       ((a) > (b) ? (a) : (b))

/* n rounded up to a multiple of m; n + m - 1 must not overflow. */
#define TR_ROUND_UP(n, m) (((n) + (m)-1) / (m) * (m))
#define TR_CEIL_DIV(n, m) (((n) + (m)-1) / (m))

#endif
