/* One render under way. */
#ifndef TR_ENGINE_TEXT_TEMPLATE_RENDER_H
#define TR_ENGINE_TEXT_TEMPLATE_RENDER_H

#include "engine/text/template/ast.h"
#include "engine/text/template/call.h"

/* The variables of one run of a routine. Macros keep the one they were defined in. */
struct tpl_activation {
    struct tpl_activation *up;
    struct tpl_value slots[];
};

struct tpl_macro {
    const struct tpl_routine *routine;
    struct tpl_activation *up;
};

struct tpl_render {
    struct tpl_vm vm;
    const struct tr_template *t;
    struct tpl_value *context; /* by index in t->names */
    struct tpl_value captured; /* what a TPL_N_CAPTURED means now */
    struct tpl_str *continued; /* content that the text is to end with; NULL = none */
    int64_t now;               /* seconds since 1970 */
};

static inline struct tpl_render *tpl_render_of(struct tpl_vm *vm)
{
    return TR_CONTAINER_OF(vm, struct tpl_render, vm);
}

struct tpl_value tr_tpl_eval(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node);
/* Assigns to a target in its own scope. */
void tr_tpl_assign(struct tpl_render *r, struct tpl_activation *act, const struct tpl_node *target,
                   struct tpl_value v);
/* The arguments of a call. */
struct tpl_args tr_tpl_eval_args(struct tpl_render *r, struct tpl_activation *act,
                                 const struct tpl_node *list);
/* Runs the root routine: its text is the output. */
void tr_tpl_run(struct tpl_render *r);

/* A for loop being walked, which is what `loop` is. */
struct tpl_loop;
struct tpl_value tr_tpl_loop_start(struct tpl_render *r, struct tpl_activation *act,
                                   const struct tpl_node *node, struct tpl_value iterable);
bool tr_tpl_loop_next(struct tpl_vm *vm, struct tpl_value loop, struct tpl_value *ret);

#endif
