/* Looking for a tag in text that is still growing. */
#ifndef TR_ENGINE_TEXT_TAGS_H
#define TR_ENGINE_TEXT_TAGS_H

#include <stdbool.h>
#include <string.h>

#include "config/base.h"

/* Whether s begins with the tag. *ret_partial: it does not, but is the beginning of one. */
static inline bool tr_tag_at(const char *s, size_t n, const char *tag, bool *ret_partial)
{
    size_t len = strlen(tag);
    bool same = memcmp(s, tag, TR_MIN(n, len)) == 0;
    *ret_partial = same && n < len;
    return same && n >= len;
}

/* Where the first tag is in s (*ret_found), else where its beginning at the end of s is; n if s
 * does not end with one. */
static inline size_t tr_tag_search(const char *s, size_t n, const char *tag, bool *ret_found)
{
    size_t len = strlen(tag);
    const char *found = n ? memmem(s, n, tag, len) : NULL;
    *ret_found = found != NULL;
    if (found)
        return (size_t)(found - s);
    for (size_t at = n >= len ? n - len + 1 : 0; at < n; at++) {
        if (memcmp(s + at, tag, n - at) == 0)
            return at;
    }
    return n;
}

#endif
