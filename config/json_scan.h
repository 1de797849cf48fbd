/*
 * What is looked for in a JSON text before jansson reads it: nesting, the memory that the document
 * will take, and integers that no machine word holds. Knows strings, brackets and numbers only;
 * whatever else is wrong with the text, jansson finds.
 */
#ifndef TR_CONFIG_JSON_SCAN_H
#define TR_CONFIG_JSON_SCAN_H

#include <stdbool.h>

#include "config/base.h"
#include "config/buf.h"

struct tr_json_scan {
    size_t too_deep_at; /* where nesting exceeds the bound; n if it does not */
    size_t bytes;       /* what jansson's document will take, at most */
    bool big;           /* there are integers beyond 64 bits */
};

/* s[0, n) may be anything. Linear. */
struct tr_json_scan tr_json_scan(const char *s, size_t n, int max_depth);

/* Appends the text with every integer beyond 64 bits as a string: "\u0001", `mark`, its digits. */
void tr_json_widen(struct tr_buf *out, const char *s, size_t n, const char *mark);

#endif
