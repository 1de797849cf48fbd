/* The two homes of filters: of single values, and of sequences. */
#ifndef TR_ENGINE_TEXT_TEMPLATE_FILTERS_H
#define TR_ENGINE_TEXT_TEMPLATE_FILTERS_H

#include "engine/text/template/call.h"

/* A filter: what it is called, the parameters behind the value (see tr_tpl_bind; NULL: it takes the
 * arguments as they are) and the function that does it. */
struct tpl_filter {
    const char *name, *params;
    int required;
    struct tpl_value (*run)(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a);
    struct tpl_value (*run_raw)(struct tpl_vm *vm, struct tpl_value v, const struct tpl_args *args);
};

extern const struct tpl_filter tr_tpl_sequence_filters[];
extern const size_t tr_tpl_n_sequence_filters;

#endif
