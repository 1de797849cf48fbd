/*
 * Which variable a name means, decided once while loading, by Jinja's rules.
 *
 * Jinja compiles each template scope (the template, a loop body, a macro, a set block, ...) to
 * Python locals. A name that a scope assigns is that scope's own; it begins as a copy of the
 * enclosing scope's variable each time the scope is entered. A name that nobody assigns comes from
 * the render's context. Macros and call blocks are functions: what they take from outside is looked
 * up when they run. Scopes of one routine share an activation, so a variable is (activations
 * outward, slot).
 *
 * Each scope is first read as a whole (collect), then its names and its inner scopes are bound.
 */
#include <string.h>

#include "engine/text/template/ast.h"

struct resolver {
    struct tpl_vm *vm;
    struct tr_template *t;
};

static struct tpl_symbol *own(const struct tpl_scope *scope, uint32_t name)
{
    for (struct tpl_symbol *s = scope->symbols; s; s = s->next)
        if (s->name == name)
            return s;
    return NULL;
}

static struct tpl_symbol *find(const struct tpl_scope *scope, uint32_t name, uint32_t *ret_up)
{
    *ret_up = 0;
    for (; scope; scope = scope->parent) {
        struct tpl_symbol *s = own(scope, name);
        if (s)
            return s;
        *ret_up += scope->parent && scope->parent->routine != scope->routine;
    }
    return NULL;
}

static struct tpl_symbol *define(struct resolver *r, struct tpl_scope *scope, uint32_t name,
                                 enum tpl_load load)
{
    struct tpl_symbol *s = own(scope, name);
    if (!s) {
        s = tr_tpl_alloc(r->vm, sizeof *s);
        s->slot = scope->routine->n_slots++;
        s->name = name;
        s->next = scope->symbols;
        scope->symbols = s;
    }
    s->load = load;
    return s;
}

static void load(struct resolver *r, struct tpl_scope *scope, uint32_t name)
{
    uint32_t up;
    if (!find(scope, name, &up))
        define(r, scope, name, TPL_LOAD_CONTEXT);
}

/* `branch`: inside an if, where the name may keep the value it has outside. */
static void store(struct resolver *r, struct tpl_scope *scope, uint32_t name, bool branch)
{
    if (own(scope, name))
        return;
    uint32_t up = 0;
    const struct tpl_symbol *outer = scope->parent ? find(scope->parent, name, &up) : NULL;
    struct tpl_symbol *s = define(r, scope, name,
                                  outer    ? TPL_LOAD_ALIAS
                                  : branch ? TPL_LOAD_CONTEXT
                                           : TPL_LOAD_UNDEFINED);
    if (outer) {
        s->up = up + (scope->parent->routine != scope->routine);
        s->from = outer->slot;
    }
}

static void load_all(struct resolver *r, struct tpl_scope *scope, const struct tpl_node *node)
{
    for (; node; node = node->next) {
        if (node->kind == TPL_N_NAME)
            load(r, scope, node->name);
        load_all(r, scope, node->a);
        load_all(r, scope, node->b);
        load_all(r, scope, node->c);
        load_all(r, scope, node->d);
    }
}

static void store_all(struct resolver *r, struct tpl_scope *scope, const struct tpl_node *target,
                      bool branch)
{
    if (target->kind == TPL_N_NAME)
        store(r, scope, target->name, branch);
    else if (target->kind == TPL_N_NS_ATTR)
        load(r, scope, target->a->name);
    else
        for (const struct tpl_node *item = target->a; item; item = item->next)
            store_all(r, scope, item, branch);
}

static void declare_all(struct resolver *r, struct tpl_scope *scope, const struct tpl_node *target)
{
    if (target->kind == TPL_N_NAME || target->kind == TPL_N_PARAM)
        define(r, scope, target->name, TPL_LOAD_PARAM);
    else
        for (const struct tpl_node *item = target->a; item; item = item->next)
            declare_all(r, scope, item);
}

/* Reads the statements of a scope, inner scopes left out. */
static void collect(struct resolver *r, struct tpl_scope *scope, const struct tpl_node *node,
                    bool branch)
{
    for (; node; node = node->next) {
        switch ((enum tpl_kind)node->kind) {
        case TPL_N_PRINT:
        case TPL_N_CALL_BLOCK:
            load_all(r, scope, node->a);
            break;
        case TPL_N_IF:
            load_all(r, scope, node->a);
            collect(r, scope, node->b, true);
            collect(r, scope, node->c, true);
            break;
        case TPL_N_FOR:
        case TPL_N_WITH:
        case TPL_N_FILTER_BLOCK:
            load_all(r, scope, node->b);
            break;
        case TPL_N_SET:
            load_all(r, scope, node->b);
            store_all(r, scope, node->a, branch);
            break;
        case TPL_N_SET_BLOCK:
        case TPL_N_MACRO:
            store_all(r, scope, node->a, branch);
            break;
        default:
            break;
        }
    }
}

static void bind(struct resolver *r, struct tpl_scope *scope, struct tpl_node *node);

/* Gives the names of expressions and targets their places. */
static void bind_names(const struct tpl_scope *scope, struct tpl_node *node)
{
    for (; node; node = node->next) {
        if (node->kind == TPL_N_NAME)
            node->slot = find(scope, node->name, &node->up)->slot;
        bind_names(scope, node->a);
        bind_names(scope, node->b);
        bind_names(scope, node->c);
        bind_names(scope, node->d);
    }
}

static struct tpl_scope *inner(struct resolver *r, struct tpl_scope *parent)
{
    struct tpl_scope *scope = tr_tpl_alloc(r->vm, sizeof *scope);
    scope->parent = parent;
    scope->routine = parent->routine;
    return scope;
}

static void bind_for(struct resolver *r, struct tpl_scope *scope, struct tpl_node *node)
{
    bind_names(scope, node->b);
    node->scope = inner(r, scope);
    define(r, node->scope, tr_tpl_intern(r->vm, r->t, tr_tpl_literal(r->vm, "loop").u.str),
           TPL_LOAD_PARAM);
    declare_all(r, node->scope, node->a);
    collect(r, node->scope, node->c, false);
    bind_names(node->scope, node->a);
    bind(r, node->scope, node->c);
    node->else_scope = inner(r, scope);
    collect(r, node->else_scope, node->d, false);
    bind(r, node->else_scope, node->d);
    if (node->e) {
        node->test_scope = inner(r, scope);
        declare_all(r, node->test_scope, node->test_target);
        load_all(r, node->test_scope, node->e);
        bind_names(node->test_scope, node->test_target);
        bind_names(node->test_scope, node->e);
    }
}

/* Whether the name is read anywhere in the tree. */
static bool reads(const struct tpl_node *node, uint32_t name)
{
    for (; node; node = node->next) {
        if ((node->kind == TPL_N_NAME && node->name == name) || reads(node->a, name) ||
            reads(node->b, name) || reads(node->c, name) || reads(node->d, name) ||
            reads(node->e, name))
            return true;
    }
    return false;
}

/* The slot of an argument that a routine has only if its body reads it; -1 if not. */
static int32_t implicit(struct resolver *r, struct tpl_routine *routine, const char *word)
{
    uint32_t name = tr_tpl_intern(r->vm, r->t, tr_tpl_literal(r->vm, word).u.str);
    for (const struct tpl_node *param = routine->params; param; param = param->next)
        if (param->name == name) {
            routine->explicit_caller |= strcmp(word, "caller") == 0;
            return -1;
        }
    if (!reads(routine->body, name))
        return -1;
    return (int32_t)define(r, routine->scope, name, TPL_LOAD_PARAM)->slot;
}

static void bind_routine(struct resolver *r, struct tpl_scope *parent, struct tpl_routine *routine)
{
    struct tpl_scope *scope = tr_tpl_alloc(r->vm, sizeof *scope);
    scope->parent = parent;
    scope->routine = routine;
    routine->scope = scope;
    for (struct tpl_node *param = routine->params; param; param = param->next)
        declare_all(r, scope, param);
    routine->caller = routine->kwargs = routine->varargs = -1;
    if (parent) {
        routine->caller = implicit(r, routine, "caller");
        routine->kwargs = implicit(r, routine, "kwargs");
        routine->varargs = implicit(r, routine, "varargs");
    }
    for (struct tpl_node *param = routine->params; param; param = param->next)
        load_all(r, scope, param->a);
    collect(r, scope, routine->body, false);
    for (struct tpl_node *param = routine->params; param; param = param->next) {
        uint32_t up;
        param->slot = find(scope, param->name, &up)->slot;
        bind_names(scope, param->a);
    }
    bind(r, scope, routine->body);
}

/* A block with a scope of its own whose text goes through a filter chain. */
static void bind_block(struct resolver *r, struct tpl_scope *scope, struct tpl_node *node)
{
    node->scope = inner(r, scope);
    collect(r, node->scope, node->c, false);
    load_all(r, node->scope, node->b);
    bind_names(node->scope, node->b);
    bind(r, node->scope, node->c);
}

static void bind_with(struct resolver *r, struct tpl_scope *scope, struct tpl_node *node)
{
    bind_names(scope, node->b);
    node->scope = inner(r, scope);
    for (const struct tpl_node *target = node->a; target; target = target->next)
        declare_all(r, node->scope, target);
    collect(r, node->scope, node->c, false);
    bind_names(node->scope, node->a);
    bind(r, node->scope, node->c);
}

static void bind(struct resolver *r, struct tpl_scope *scope, struct tpl_node *node)
{
    for (; node; node = node->next) {
        switch ((enum tpl_kind)node->kind) {
        case TPL_N_PRINT:
            bind_names(scope, node->a);
            break;
        case TPL_N_IF:
            bind_names(scope, node->a);
            bind(r, scope, node->b);
            bind(r, scope, node->c);
            break;
        case TPL_N_FOR:
            bind_for(r, scope, node);
            break;
        case TPL_N_SET:
            bind_names(scope, node->a);
            bind_names(scope, node->b);
            break;
        case TPL_N_SET_BLOCK:
            bind_names(scope, node->a);
            bind_block(r, scope, node);
            break;
        case TPL_N_FILTER_BLOCK:
            bind_block(r, scope, node);
            break;
        case TPL_N_MACRO:
        case TPL_N_CALL_BLOCK:
            bind_names(scope, node->a);
            bind_routine(r, scope, node->routine);
            break;
        case TPL_N_GENERATION:
            bind_routine(r, scope, node->routine);
            break;
        case TPL_N_WITH:
            bind_with(r, scope, node);
            break;
        default:
            break;
        }
    }
}

void tr_tpl_resolve(struct tpl_vm *vm, struct tr_template *t)
{
    struct resolver r = {vm, t};
    bind_routine(&r, NULL, t->root);
}
