/* Evaluates expressions. One short function per kind of node keeps the C stack of a deep tree
 * small. */
#include "engine/text/template/render.h"
#include "engine/text/template/text.h"

static struct tpl_value *place(struct tpl_activation *act, const struct tpl_node *name)
{
    for (uint32_t up = name->up; up; up--)
        act = act->up;
    return &act->slots[name->slot];
}

static void unpack(struct tpl_render *r, struct tpl_activation *act, const struct tpl_node *target,
                   struct tpl_value v)
{
    struct tpl_vm *vm = &r->vm;
    uint32_t want = 0, n = 0;
    for (const struct tpl_node *item = target->a; item; item = item->next)
        want++;
    if (!tr_tpl_iterable(v))
        tr_tpl_fail(vm, "cannot unpack non-iterable %s object", tr_tpl_type_name(v));
    struct tpl_value *values = tr_tpl_alloc_n(vm, want, sizeof *values), extra;
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    while (n < want && tr_tpl_next(vm, &c, &values[n]))
        n++;
    if (n < want)
        tr_tpl_fail(vm, "not enough values to unpack (expected %u, got %u)", want, n);
    if (tr_tpl_next(vm, &c, &extra))
        tr_tpl_fail(vm, "too many values to unpack (expected %u)", want);
    n = 0;
    for (const struct tpl_node *item = target->a; item; item = item->next)
        tr_tpl_assign(r, act, item, values[n++]);
}

void tr_tpl_assign(struct tpl_render *r, struct tpl_activation *act, const struct tpl_node *target,
                   struct tpl_value v)
{
    if (target->kind == TPL_N_NAME) {
        *place(act, target) = v;
    } else if (target->kind == TPL_N_TUPLE) {
        unpack(r, act, target, v);
    } else {
        struct tpl_value ns = *place(act, target->a);
        if (ns.type != TPL_NAMESPACE)
            tr_tpl_fail(&r->vm, "cannot assign attribute on non-namespace object");
        tr_tpl_namespace_set(&r->vm, ns.u.ns, target->value, v);
    }
}

static uint32_t count(const struct tpl_node *list)
{
    uint32_t n = 0;
    for (; list; list = list->next)
        n++;
    return n;
}

static struct tpl_value sequence(struct tpl_render *r, struct tpl_activation *act,
                                 const struct tpl_node *node, enum tpl_type type)
{
    struct tpl_value v = tr_tpl_list(&r->vm, count(node->a), type);
    uint32_t i = 0;
    for (const struct tpl_node *item = node->a; item; item = item->next)
        v.u.list->v[i++] = tr_tpl_eval(r, act, item);
    return v;
}

static struct tpl_value dict(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node)
{
    uint32_t n = count(node->a) / 2, i = 0;
    struct tpl_pair *pairs = tr_tpl_alloc_n(&r->vm, n, sizeof *pairs);
    for (const struct tpl_node *key = node->a; key; key = key->next->next, i++) {
        pairs[i].key = tr_tpl_eval(r, act, key);
        pairs[i].value = tr_tpl_eval(r, act, key->next);
    }
    return tr_tpl_dict(&r->vm, pairs, n);
}

static struct tpl_value slice(struct tpl_render *r, struct tpl_activation *act,
                              const struct tpl_node *node)
{
    struct tpl_value of = tr_tpl_eval(r, act, node->a);
    struct tpl_value at[3];
    const struct tpl_node *bounds[3] = {node->b, node->c, node->d};
    for (int i = 0; i < 3; i++)
        at[i] = bounds[i] ? tr_tpl_eval(r, act, bounds[i]) : tpl_none();
    return tr_tpl_slice(&r->vm, of, at);
}

static struct tpl_value sign(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node)
{
    struct tpl_value v = tr_tpl_eval(r, act, node->a);
    if (!tpl_is_number(v))
        tr_tpl_fail_type(&r->vm, v, "bad operand type for unary sign:");
    if (v.type == TPL_FLOAT) /* 0 - x would lose the sign of zero */
        return tpl_float(node->kind == TPL_N_NEG ? -v.u.f : v.u.f);
    return tr_tpl_arithmetic(&r->vm, node->kind == TPL_N_NEG ? '-' : '+', tpl_int(0), v);
}

static struct tpl_value arithmetic(struct tpl_render *r, struct tpl_activation *act,
                                   const struct tpl_node *node)
{
    struct tpl_value a = tr_tpl_eval(r, act, node->a);
    struct tpl_value b = tr_tpl_eval(r, act, node->b);
    r->vm.line = node->line;
    return tr_tpl_arithmetic(&r->vm, (char)node->op, a, b);
}

static struct tpl_value concatenation(struct tpl_render *r, struct tpl_activation *act,
                                      const struct tpl_node *node)
{
    struct tpl_vm *vm = &r->vm;
    struct tpl_value v = tr_tpl_to_str(vm, tr_tpl_eval(r, act, node->a));
    v = tr_tpl_with_markup(vm, v, false);
    for (const struct tpl_node *part = node->a->next; part; part = part->next) {
        struct tpl_value next = tr_tpl_to_str(vm, tr_tpl_eval(r, act, part));
        v = tr_tpl_concat(vm, v, tr_tpl_with_markup(vm, next, false));
    }
    return v;
}

static bool related(struct tpl_vm *vm, enum tpl_relation relation, struct tpl_value a,
                    struct tpl_value b)
{
    switch (relation) {
    case TPL_EQ:
        return tr_tpl_equal(vm, a, b);
    case TPL_NE:
        return !tr_tpl_equal(vm, a, b);
    case TPL_LT:
        return tr_tpl_compare(vm, a, b, "<") == -1;
    case TPL_LE: {
        int c = tr_tpl_compare(vm, a, b, "<=");
        return c == -1 || c == 0;
    }
    case TPL_GT:
        return tr_tpl_compare(vm, a, b, ">") == 1;
    case TPL_GE: {
        int c = tr_tpl_compare(vm, a, b, ">=");
        return c == 1 || c == 0;
    }
    case TPL_IN:
        return tr_tpl_contains(vm, b, a);
    case TPL_NOT_IN:
    default:
        return !tr_tpl_contains(vm, b, a);
    }
}

static struct tpl_value comparison(struct tpl_render *r, struct tpl_activation *act,
                                   const struct tpl_node *node)
{
    struct tpl_value left = tr_tpl_eval(r, act, node->a);
    for (const struct tpl_node *operand = node->b; operand; operand = operand->next) {
        struct tpl_value right = tr_tpl_eval(r, act, operand->a);
        r->vm.line = operand->line;
        if (!related(&r->vm, operand->op, left, right))
            return tpl_bool(false);
        left = right;
    }
    return tpl_bool(true);
}

static struct tpl_value choice(struct tpl_render *r, struct tpl_activation *act,
                               const struct tpl_node *node)
{
    if (tr_tpl_truth(&r->vm, tr_tpl_eval(r, act, node->a)))
        return tr_tpl_eval(r, act, node->b);
    if (node->c)
        return tr_tpl_eval(r, act, node->c);
    return tpl_undefined(
        TPL_NO_ITEM,
        tr_tpl_literal(&r->vm, "the inline if-expression was false and has no else").u.str);
}

/* Values given by *list and **dict are counted first, then laid out. */
struct tpl_args tr_tpl_eval_args(struct tpl_render *r, struct tpl_activation *act,
                                 const struct tpl_node *list)
{
    struct tpl_vm *vm = &r->vm;
    uint32_t n = count(list), n_values = 0, n_named = 0, i = 0;
    struct tpl_value *given = tr_tpl_alloc_n(vm, n, sizeof *given);
    for (const struct tpl_node *arg = list; arg; arg = arg->next, i++) {
        given[i] = tr_tpl_eval(r, act, arg->a);
        if (arg->op == TPL_STAR)
            given[i] = tr_tpl_to_list(vm, given[i]);
        if (arg->op == TPL_DOUBLE_STAR && given[i].type != TPL_DICT)
            tr_tpl_fail_type(vm, given[i], "argument after ** must be a mapping, not");
        n_values += arg->op == TPL_STAR ? given[i].u.list->n : arg->op == TPL_POSITIONAL;
        n_named += arg->op == TPL_DOUBLE_STAR ? given[i].u.dict->n : arg->op == TPL_NAMED;
    }
    if (n_values == n) /* the usual case */
        return (struct tpl_args){.v = given, .n = n};
    struct tpl_value *values = tr_tpl_alloc_n(vm, n_values, sizeof *values);
    struct tpl_pair *named = tr_tpl_alloc_n(vm, n_named, sizeof *named);
    struct tpl_args args = {.v = values, .named = named};
    i = 0;
    for (const struct tpl_node *arg = list; arg; arg = arg->next, i++) {
        if (arg->op == TPL_POSITIONAL)
            values[args.n++] = given[i];
        else if (arg->op == TPL_NAMED)
            named[args.n_named++] = (struct tpl_pair){arg->value, given[i]};
        for (uint32_t k = 0; arg->op == TPL_STAR && k < given[i].u.list->n; k++)
            values[args.n++] = given[i].u.list->v[k];
        for (uint32_t k = 0; arg->op == TPL_DOUBLE_STAR && k < given[i].u.dict->n; k++) {
            if (given[i].u.dict->v[k].key.type != TPL_STR)
                tr_tpl_fail(vm, "keywords must be strings");
            named[args.n_named++] = given[i].u.dict->v[k];
        }
    }
    for (uint32_t a = 0; a < args.n_named; a++)
        for (uint32_t b = a + 1; b < args.n_named; b++)
            if (tr_tpl_equal(vm, named[a].key, named[b].key))
                tr_tpl_fail(vm, "got multiple values for keyword argument '%.*s'",
                            (int)TR_MIN(named[a].key.u.str->n, 64u), named[a].key.u.str->s);
    return args;
}

static struct tpl_value call(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node)
{
    struct tpl_value callee = tr_tpl_eval(r, act, node->a);
    struct tpl_args args = tr_tpl_eval_args(r, act, node->b);
    r->vm.line = node->line;
    return tr_tpl_call(&r->vm, callee, &args);
}

static struct tpl_value filter(struct tpl_render *r, struct tpl_activation *act,
                               const struct tpl_node *node)
{
    struct tpl_value v = tr_tpl_eval(r, act, node->a);
    struct tpl_args args = tr_tpl_eval_args(r, act, node->b);
    r->vm.line = node->line;
    return tr_tpl_filter(&r->vm, node->op, v, &args);
}

static struct tpl_value test(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node)
{
    struct tpl_value v = tr_tpl_eval(r, act, node->a);
    struct tpl_args args = tr_tpl_eval_args(r, act, node->b);
    r->vm.line = node->line;
    return tpl_bool(tr_tpl_test(&r->vm, node->op, v, &args));
}

static struct tpl_value item(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node)
{
    struct tpl_value of = tr_tpl_eval(r, act, node->a);
    struct tpl_value key = tr_tpl_eval(r, act, node->b);
    r->vm.line = node->line;
    return tr_tpl_item(&r->vm, of, key);
}

static struct tpl_value attribute(struct tpl_render *r, struct tpl_activation *act,
                                  const struct tpl_node *node)
{
    struct tpl_value of = tr_tpl_eval(r, act, node->a);
    r->vm.line = node->line;
    return tr_tpl_attr(&r->vm, of, node->value);
}

static struct tpl_value dispatch(struct tpl_render *r, struct tpl_activation *act,
                                 const struct tpl_node *node)
{
    switch ((enum tpl_kind)node->kind) {
    case TPL_N_CONST:
        return node->value;
    case TPL_N_CAPTURED:
        return r->captured;
    case TPL_N_NAME:
        return *place(act, node);
    case TPL_N_LIST:
        return sequence(r, act, node, TPL_LIST);
    case TPL_N_TUPLE:
        return sequence(r, act, node, TPL_TUPLE);
    case TPL_N_DICT:
        return dict(r, act, node);
    case TPL_N_ATTR:
        return attribute(r, act, node);
    case TPL_N_ITEM:
        return item(r, act, node);
    case TPL_N_SLICE:
        return slice(r, act, node);
    case TPL_N_NOT:
        return tpl_bool(!tr_tpl_truth(&r->vm, tr_tpl_eval(r, act, node->a)));
    case TPL_N_NEG:
    case TPL_N_POS:
        return sign(r, act, node);
    case TPL_N_ARITH:
        return arithmetic(r, act, node);
    case TPL_N_CONCAT:
        return concatenation(r, act, node);
    case TPL_N_COMPARE:
        return comparison(r, act, node);
    case TPL_N_AND: {
        struct tpl_value v = tr_tpl_eval(r, act, node->a);
        return tr_tpl_truth(&r->vm, v) ? tr_tpl_eval(r, act, node->b) : v;
    }
    case TPL_N_OR: {
        struct tpl_value v = tr_tpl_eval(r, act, node->a);
        return tr_tpl_truth(&r->vm, v) ? v : tr_tpl_eval(r, act, node->b);
    }
    case TPL_N_COND:
        return choice(r, act, node);
    case TPL_N_CALL:
        return call(r, act, node);
    case TPL_N_FILTER:
        return filter(r, act, node);
    case TPL_N_TEST:
        return test(r, act, node);
    default:
        return tpl_none(); /* no expression: the parser makes none */
    }
}

struct tpl_value tr_tpl_eval(struct tpl_render *r, struct tpl_activation *act,
                             const struct tpl_node *node)
{
    tr_tpl_enter(&r->vm);
    tr_tpl_spend(&r->vm, 1);
    struct tpl_value v = dispatch(r, act, node);
    tr_tpl_leave(&r->vm);
    return v;
}
