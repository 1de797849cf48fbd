/*
 * From Oniguruma's regular expressions to PCRE2's.
 */
#ifndef TR_ENGINE_TEXT_REGEX_H
#define TR_ENGINE_TEXT_REGEX_H

#include "config/base.h"
#include "config/buf.h"
#include "config/err.h"

/* Appends what means to PCRE2 (UTF, UCP, MULTILINE) what regex means to Oniguruma in its Ruby
 * syntax. TR_EFORMAT: a construct that cannot be rewritten, err says which; or no expression at all
 * (errors of syntax are left to PCRE2, as far as they are the same). */
TR_NODISCARD int tr_regex_rewrite(const char *regex, size_t n, struct tr_buf *out,
                                  struct tr_err *err);

#endif
