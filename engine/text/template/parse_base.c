/* What all of the parser uses: nodes, names, and looking at the next token. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/text/template/ast.h"

_Noreturn void tr_tpl_syntax(struct tpl_parser *p, const struct tpl_token *at, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->vm->line = at->line;
    p->vm->column = at->column;
    tr_tpl_fail(p->vm, "%s", text);
}

struct tpl_node *tr_tpl_node(struct tpl_parser *p, enum tpl_kind kind, const struct tpl_token *at)
{
    if (++p->n_nodes > TPL_MAX_NODES)
        tr_tpl_syntax(p, at, "template limit: more than %d nodes", TPL_MAX_NODES);
    struct tpl_node *node = tr_tpl_alloc(p->vm, sizeof *node);
    node->kind = (uint8_t)kind;
    node->line = at->line;
    node->column = at->column;
    return node;
}

struct tpl_node *tr_tpl_close(struct tpl_parser *p, struct tpl_node *node)
{
    const struct tpl_node *children[] = {node->a, node->b, node->c, node->d, node->e};
    int depth = 0;
    for (size_t i = 0; i < TR_ARRAY_LEN(children); i++)
        for (const struct tpl_node *c = children[i]; c; c = c->next)
            depth = TR_MAX(depth, c->depth);
    if (depth >= TPL_MAX_NESTING) {
        struct tpl_token at = {.line = node->line, .column = node->column};
        tr_tpl_syntax(p, &at, "nested deeper than %d", TPL_MAX_NESTING);
    }
    node->depth = (uint16_t)(depth + 1);
    return node;
}

bool tr_tpl_at_op(const struct tpl_parser *p, char op)
{
    return p->tok->type == TPL_T_OPERATOR && p->tok->op == op;
}

bool tr_tpl_at_name(const struct tpl_parser *p, const char *name)
{
    return p->tok->type == TPL_T_NAME && tr_tpl_str_is(p->tok->value, name);
}

bool tr_tpl_take_op(struct tpl_parser *p, char op)
{
    bool found = tr_tpl_at_op(p, op);
    p->tok += found;
    return found;
}

bool tr_tpl_take_name(struct tpl_parser *p, const char *name)
{
    bool found = tr_tpl_at_name(p, name);
    p->tok += found;
    return found;
}

void tr_tpl_expect_op(struct tpl_parser *p, char op)
{
    if (!tr_tpl_take_op(p, op))
        tr_tpl_syntax(p, p->tok, "expected '%c'", op);
}

uint32_t tr_tpl_intern(struct tpl_vm *vm, struct tr_template *t, struct tpl_str *name)
{
    for (uint32_t i = 0; i < t->n_names; i++)
        if (t->names[i]->n == name->n && memcmp(t->names[i]->s, name->s, name->n) == 0)
            return i;
    if (t->n_names == t->cap_names) {
        uint32_t cap = t->cap_names ? 2 * t->cap_names : 64;
        if (cap > 4096)
            tr_tpl_fail(vm, "template limit: more than 4096 names");
        struct tpl_str **grown = tr_tpl_alloc_n(vm, cap, sizeof(struct tpl_str *));
        if (t->n_names)
            memcpy(grown, t->names, t->n_names * sizeof(struct tpl_str *));
        t->names = grown;
        t->cap_names = cap;
    }
    t->names[t->n_names] = name;
    return t->n_names++;
}
