/* Runs statements and macros. */
#include <string.h>

#include "engine/text/template/render.h"
#include "engine/text/template/text.h"

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum flow run(struct tpl_render *r, struct tpl_activation *act, const struct tpl_node *node);

static void enter_scope(struct tpl_render *r, struct tpl_activation *act,
                        const struct tpl_scope *scope)
{
    for (const struct tpl_symbol *s = scope->symbols; s; s = s->next) {
        const struct tpl_activation *from = act;
        switch (s->load) {
        case TPL_LOAD_ALIAS:
            for (uint32_t up = s->up; up; up--)
                from = from->up;
            act->slots[s->slot] = from->slots[s->from];
            break;
        case TPL_LOAD_CONTEXT:
            act->slots[s->slot] = r->context[s->name];
            break;
        case TPL_LOAD_UNDEFINED:
            act->slots[s->slot] = tpl_undefined(TPL_NO_NAME, r->t->names[s->name]);
            break;
        case TPL_LOAD_PARAM:
            break;
        }
    }
}

static struct tpl_activation *activate(struct tpl_render *r, const struct tpl_routine *routine,
                                       struct tpl_activation *up)
{
    size_t bytes = sizeof(struct tpl_activation) + routine->n_slots * sizeof(struct tpl_value);
    struct tpl_activation *act = tr_tpl_alloc(&r->vm, bytes);
    act->up = up;
    return act;
}

static enum flow run_for(struct tpl_render *r, struct tpl_activation *act,
                         const struct tpl_node *node)
{
    struct tpl_value iterable = tr_tpl_eval(r, act, node->b);
    r->vm.line = node->line;
    if (node->test_scope)
        enter_scope(r, act, node->test_scope);
    struct tpl_value loop = tr_tpl_loop_start(r, act, node, iterable), v;
    /* The scope's first symbol to be defined, and so the last of its chain, is `loop`. */
    const struct tpl_symbol *self = node->scope->symbols;
    while (self->next)
        self = self->next;
    bool finished_one = false;
    while (tr_tpl_loop_next(&r->vm, loop, &v)) {
        tr_tpl_assign(r, act, node->a, v);
        act->slots[self->slot] = loop;
        enter_scope(r, act, node->scope);
        enum flow flow = run(r, act, node->c);
        if (flow == FLOW_BREAK)
            return FLOW_ON;
        finished_one |= flow == FLOW_ON;
    }
    if (!finished_one && node->d) {
        enter_scope(r, act, node->else_scope);
        return run(r, act, node->d);
    }
    return FLOW_ON;
}

/* Runs a block whose text is the input of a filter chain (or, with none, the result). */
static enum flow run_block(struct tpl_render *r, struct tpl_activation *act,
                           const struct tpl_node *node, struct tpl_value *ret)
{
    struct tpl_vm *vm = &r->vm;
    size_t mark = vm->text.len;
    enter_scope(r, act, node->scope);
    enum flow flow = run(r, act, node->c);
    *ret = tr_tpl_cut(vm, mark);
    if (flow == FLOW_ON && node->b) {
        struct tpl_value outer = r->captured;
        r->captured = *ret;
        *ret = tr_tpl_eval(r, act, node->b);
        r->captured = outer;
    }
    return flow;
}

static struct tpl_value make_macro(struct tpl_render *r, struct tpl_activation *act,
                                   const struct tpl_routine *routine)
{
    struct tpl_macro *macro = tr_tpl_alloc(&r->vm, sizeof *macro);
    *macro = (struct tpl_macro){.routine = routine, .up = act};
    return (struct tpl_value){.type = TPL_MACRO, .u.macro = macro};
}

static void run_call_block(struct tpl_render *r, struct tpl_activation *act,
                           const struct tpl_node *node)
{
    struct tpl_value callee = tr_tpl_eval(r, act, node->a->a);
    struct tpl_args args = tr_tpl_eval_args(r, act, node->a->b);
    struct tpl_pair *named = tr_tpl_alloc_n(&r->vm, args.n_named + 1u, sizeof *named);
    for (uint32_t i = 0; i < args.n_named; i++)
        named[i] = args.named[i];
    named[args.n_named++] =
        (struct tpl_pair){tr_tpl_literal(&r->vm, "caller"), make_macro(r, act, node->routine)};
    args.named = named;
    r->vm.line = node->line;
    tr_tpl_put_value(&r->vm, tr_tpl_call(&r->vm, callee, &args));
}

static void run_with(struct tpl_render *r, struct tpl_activation *act, const struct tpl_node *node)
{
    enter_scope(r, act, node->scope);
    const struct tpl_node *value = node->b;
    for (const struct tpl_node *target = node->a; target; target = target->next) {
        tr_tpl_assign(r, act, target, tr_tpl_eval(r, act, value));
        value = value->next;
    }
}

static enum flow run_one(struct tpl_render *r, struct tpl_activation *act,
                         const struct tpl_node *node)
{
    struct tpl_vm *vm = &r->vm;
    struct tpl_value v;
    enum flow flow;
    switch ((enum tpl_kind)node->kind) {
    case TPL_N_TEXT:
        tr_tpl_put_str(vm, node->value.u.str);
        return FLOW_ON;
    case TPL_N_PRINT:
        tr_tpl_put_value(vm, tr_tpl_eval(r, act, node->a));
        return FLOW_ON;
    case TPL_N_IF:
        return run(r, act, tr_tpl_truth(vm, tr_tpl_eval(r, act, node->a)) ? node->b : node->c);
    case TPL_N_FOR:
        return run_for(r, act, node);
    case TPL_N_SET:
        tr_tpl_assign(r, act, node->a, tr_tpl_eval(r, act, node->b));
        return FLOW_ON;
    case TPL_N_SET_BLOCK:
        flow = run_block(r, act, node, &v);
        if (flow == FLOW_ON)
            tr_tpl_assign(r, act, node->a, v);
        return flow;
    case TPL_N_FILTER_BLOCK:
        flow = run_block(r, act, node, &v);
        if (flow == FLOW_ON)
            tr_tpl_put_value(vm, v);
        return flow;
    case TPL_N_MACRO:
        tr_tpl_assign(r, act, node->a, make_macro(r, act, node->routine));
        return FLOW_ON;
    case TPL_N_CALL_BLOCK:
        run_call_block(r, act, node);
        return FLOW_ON;
    case TPL_N_GENERATION:
        v = tr_tpl_macro_call(vm, make_macro(r, act, node->routine), &(struct tpl_args){0});
        tr_tpl_put_value(vm, v);
        return FLOW_ON;
    case TPL_N_WITH:
        run_with(r, act, node);
        return run(r, act, node->c);
    case TPL_N_BREAK:
        return FLOW_BREAK;
    case TPL_N_CONTINUE:
    default:
        return FLOW_CONTINUE;
    }
}

static enum flow run(struct tpl_render *r, struct tpl_activation *act, const struct tpl_node *node)
{
    enum flow flow = FLOW_ON;
    tr_tpl_enter(&r->vm);
    for (; node && flow == FLOW_ON; node = node->next) {
        tr_tpl_spend(&r->vm, 1);
        r->vm.line = node->line;
        flow = run_one(r, act, node);
    }
    tr_tpl_leave(&r->vm);
    return flow;
}

void tr_tpl_run(struct tpl_render *r)
{
    struct tpl_activation *act = activate(r, r->t->root, NULL);
    enter_scope(r, act, r->t->root->scope);
    run(r, act, r->t->root->body);
}

struct tpl_str *tr_tpl_macro_name(struct tpl_value macro)
{
    return macro.u.macro->routine->name;
}

/* The named argument of that name, marked as taken; TPL_ABSENT if there is none. */
static struct tpl_value take_named(const struct tpl_args *args, bool *taken, const char *s,
                                   size_t n)
{
    for (uint32_t i = 0; i < args->n_named; i++) {
        const struct tpl_str *key = args->named[i].key.u.str;
        if (!taken[i] && key->n == n && memcmp(key->s, s, n) == 0) {
            taken[i] = true;
            return args->named[i].value;
        }
    }
    return (struct tpl_value){.type = TPL_ABSENT};
}

static const struct tpl_str anonymous = {.s = "anonymous", .n = 9, .chars = 9};

/* What varargs and kwargs are, or an error if there is something for them and nobody takes it. */
static void take_rest(struct tpl_vm *vm, const struct tpl_routine *routine,
                      struct tpl_activation *act, const struct tpl_args *args, const bool *taken)
{
    const struct tpl_str *name = routine->name ? routine->name : &anonymous;
    struct tpl_pair *pairs = tr_tpl_alloc_n(vm, args->n_named, sizeof *pairs);
    size_t n = 0;
    for (uint32_t i = 0; i < args->n_named; i++)
        if (!taken[i])
            pairs[n++] = args->named[i];
    if (routine->kwargs >= 0)
        act->slots[routine->kwargs] = tr_tpl_dict(vm, pairs, n);
    else if (n)
        tr_tpl_fail(vm, "macro '%.*s' takes no keyword argument '%.*s'", (int)TR_MIN(name->n, 64u),
                    name->s, (int)TR_MIN(pairs->key.u.str->n, 64u), pairs->key.u.str->s);
    uint32_t extra = args->n > routine->n_params ? args->n - routine->n_params : 0;
    if (routine->varargs >= 0) {
        struct tpl_value rest = tr_tpl_list(vm, extra, TPL_TUPLE);
        for (uint32_t i = 0; i < extra; i++)
            rest.u.list->v[i] = args->v[routine->n_params + i];
        act->slots[routine->varargs] = rest;
    } else if (extra) {
        tr_tpl_fail(vm, "macro '%.*s' takes not more than %u argument(s)",
                    (int)TR_MIN(name->n, 64u), name->s, routine->n_params);
    }
}

struct tpl_value tr_tpl_macro_call(struct tpl_vm *vm, struct tpl_value macro,
                                   const struct tpl_args *args)
{
    struct tpl_render *r = tpl_render_of(vm);
    const struct tpl_routine *routine = macro.u.macro->routine;
    if (++vm->calls > TPL_MAX_CALLS)
        tr_tpl_fail(vm, "template limit: calls nested deeper than %d", TPL_MAX_CALLS);
    struct tpl_activation *act = activate(r, routine, macro.u.macro->up);
    bool *taken = tr_tpl_alloc(vm, args->n_named);
    uint32_t i = 0;
    for (const struct tpl_node *param = routine->params; param; param = param->next, i++)
        act->slots[param->slot] =
            i < args->n ? args->v[i]
                        : take_named(args, taken, param->value.u.str->s, param->value.u.str->n);
    if (routine->caller >= 0) {
        struct tpl_value caller = take_named(args, taken, "caller", 6);
        act->slots[routine->caller] =
            tpl_set(caller) ? caller
                            : tpl_undefined(TPL_NO_NAME, tr_tpl_literal(vm, "caller").u.str);
    }
    take_rest(vm, routine, act, args, taken);
    enter_scope(r, act, routine->scope);
    for (const struct tpl_node *param = routine->params; param; param = param->next)
        if (!tpl_given(act->slots[param->slot]))
            act->slots[param->slot] = param->a ? tr_tpl_eval(r, act, param->a)
                                               : tpl_undefined(TPL_NO_NAME, param->value.u.str);
    size_t mark = vm->text.len;
    run(r, act, routine->body);
    vm->calls--;
    return tr_tpl_cut(vm, mark);
}
