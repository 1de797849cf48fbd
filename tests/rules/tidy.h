/* What clang-tidy does not see from another file, and is shown before each: tr_err_set returns the code it is given. */
#ifndef TR_TESTS_RULES_TIDY_H
#define TR_TESTS_RULES_TIDY_H

#include "config/err.h"

#define tr_err_set(err, code, ...) ((void)(tr_err_set)(err, code, __VA_ARGS__), (code))

#endif
