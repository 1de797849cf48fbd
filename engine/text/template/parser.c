/* Statements. Tags that chat templates do not use are refused here, with their place. */
#include <string.h>

#include "engine/text/template/ast.h"

static struct tpl_node *body(struct tpl_parser *p, const char *const *ends);

static void expect_block_end(struct tpl_parser *p)
{
    if (p->tok->type != TPL_T_BLOCK_END)
        tr_tpl_syntax(p, p->tok, "expected the end of the tag");
    p->tok++;
}

static bool at_any(const struct tpl_parser *p, const char *const *names)
{
    for (; *names; names++)
        if (tr_tpl_at_name(p, *names))
            return true;
    return false;
}

/* The statements up to a tag that begins with one of the names, which is the next token then. */
static struct tpl_node *statements(struct tpl_parser *p, const char *const *ends)
{
    tr_tpl_take_op(p, ':');
    expect_block_end(p);
    if (++p->depth > TPL_MAX_NESTING)
        tr_tpl_syntax(p, p->tok, "nested deeper than %d", TPL_MAX_NESTING);
    struct tpl_node *first = body(p, ends);
    p->depth--;
    return first;
}

#define ENDS(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static struct tpl_node *parse_if(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_IF, p->tok++);
    node->a = tr_tpl_parse_tuple(p, false, NULL);
    node->b = statements(p, ENDS("elif", "else", "endif"));
    if (tr_tpl_at_name(p, "elif")) {
        if (++p->depth > TPL_MAX_NESTING)
            tr_tpl_syntax(p, p->tok, "more than %d elif", TPL_MAX_NESTING);
        node->c = parse_if(p);
        p->depth--;
    } else if (tr_tpl_take_name(p, "else")) {
        node->c = statements(p, ENDS("endif"));
        p->tok++;
    } else {
        p->tok++;
    }
    return tr_tpl_close(p, node);
}

static void refuse_loop_target(struct tpl_parser *p, const struct tpl_node *target)
{
    if (target->kind == TPL_N_TUPLE) {
        for (const struct tpl_node *item = target->a; item; item = item->next)
            refuse_loop_target(p, item);
    } else if (target->kind == TPL_N_NAME && tr_tpl_str_is(target->value, "loop")) {
        struct tpl_token at = {.line = target->line, .column = target->column};
        tr_tpl_syntax(p, &at, "cannot assign to the loop variable");
    }
}

static struct tpl_node *copy_target(struct tpl_parser *p, const struct tpl_node *target)
{
    struct tpl_token at = {.line = target->line, .column = target->column};
    struct tpl_node *copy = tr_tpl_node(p, target->kind, &at), **end = &copy->a;
    copy->name = target->name;
    copy->value = target->value;
    for (const struct tpl_node *item = target->a; item; item = item->next) {
        *end = copy_target(p, item);
        end = &(*end)->next;
    }
    return tr_tpl_close(p, copy);
}

static struct tpl_node *parse_for(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_FOR, p->tok++);
    node->a = tr_tpl_parse_target(p, false, "in");
    refuse_loop_target(p, node->a);
    if (!tr_tpl_take_name(p, "in"))
        tr_tpl_syntax(p, p->tok, "expected 'in'");
    node->b = tr_tpl_parse_tuple(p, false, "recursive");
    if (tr_tpl_take_name(p, "if")) {
        node->e = tr_tpl_parse_expression(p, true);
        node->test_target = copy_target(p, node->a);
    }
    if (tr_tpl_at_name(p, "recursive"))
        tr_tpl_syntax(p, p->tok, "recursive loops are not supported");
    bool outer = p->else_loop;
    p->else_loop = false;
    p->loops++;
    node->c = statements(p, ENDS("endfor", "else"));
    p->loops--;
    bool breaks = p->else_loop;
    p->else_loop = outer;
    if (tr_tpl_at_name(p, "else")) {
        if (breaks)
            tr_tpl_syntax(p, p->tok, "else of a loop that breaks is not supported");
        p->tok++;
        node->d = statements(p, ENDS("endfor"));
    }
    p->tok++;
    return tr_tpl_close(p, node);
}

static struct tpl_node *parse_set(struct tpl_parser *p)
{
    const struct tpl_token *at = p->tok++;
    struct tpl_node *target = tr_tpl_parse_target(p, true, NULL);
    if (p->loops)
        refuse_loop_target(p, target);
    struct tpl_node *node;
    if (tr_tpl_take_op(p, '=')) {
        node = tr_tpl_node(p, TPL_N_SET, at);
        node->b = tr_tpl_parse_tuple(p, true, NULL);
    } else {
        node = tr_tpl_node(p, TPL_N_SET_BLOCK, at);
        if (tr_tpl_at_op(p, '|'))
            node->b = tr_tpl_parse_filters(
                p, tr_tpl_close(p, tr_tpl_node(p, TPL_N_CAPTURED, p->tok)), false);
        node->c = statements(p, ENDS("endset"));
        p->tok++;
    }
    node->a = target;
    return tr_tpl_close(p, node);
}

/* The parameter list of a macro or call block, parentheses included. */
static struct tpl_node *signature(struct tpl_parser *p)
{
    struct tpl_node *first = NULL, **end = &first;
    bool defaults = false;
    tr_tpl_expect_op(p, '(');
    while (!tr_tpl_at_op(p, ')')) {
        if (first)
            tr_tpl_expect_op(p, ',');
        struct tpl_node *param = tr_tpl_node(p, TPL_N_PARAM, p->tok);
        const struct tpl_node *name = tr_tpl_parse_name(p);
        param->name = name->name;
        param->value = name->value;
        if (tr_tpl_take_op(p, '=')) {
            param->a = tr_tpl_parse_expression(p, true);
            defaults = true;
        } else if (defaults) {
            tr_tpl_syntax(p, p->tok, "non-default argument follows default argument");
        }
        *end = tr_tpl_close(p, param);
        end = &param->next;
    }
    p->tok++;
    return first;
}

/* The body of a macro or block with an activation of its own, where a break of an outer loop does
 * not reach. */
static void parse_routine(struct tpl_parser *p, struct tpl_node *node, struct tpl_node *params,
                          const char *end)
{
    struct tpl_routine *routine = tr_tpl_alloc(p->vm, sizeof *routine);
    routine->params = params;
    for (const struct tpl_node *param = params; param; param = param->next)
        routine->n_params++;
    int loops = p->loops;
    p->loops = 0;
    routine->body = statements(p, ENDS(end));
    p->loops = loops;
    p->tok++;
    node->routine = routine;
    node->c = routine->body; /* for the depth */
    node->d = params;
    tr_tpl_close(p, node);
}

static struct tpl_node *parse_macro(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_MACRO, p->tok++);
    node->a = tr_tpl_parse_name(p);
    if (p->loops)
        refuse_loop_target(p, node->a);
    struct tpl_node *params = signature(p);
    parse_routine(p, node, params, "endmacro");
    node->routine->name = node->a->value.u.str;
    return node;
}

static struct tpl_node *parse_call_block(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_CALL_BLOCK, p->tok++);
    struct tpl_node *params = tr_tpl_at_op(p, '(') ? signature(p) : NULL;
    const struct tpl_token *at = p->tok;
    node->a = tr_tpl_parse_expression(p, true);
    if (node->a->kind != TPL_N_CALL)
        tr_tpl_syntax(p, at, "expected a call");
    parse_routine(p, node, params, "endcall");
    return node;
}

static struct tpl_node *parse_generation(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_GENERATION, p->tok++);
    parse_routine(p, node, NULL, "endgeneration");
    return node;
}

static struct tpl_node *parse_filter_block(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_FILTER_BLOCK, p->tok++);
    struct tpl_node *captured = tr_tpl_close(p, tr_tpl_node(p, TPL_N_CAPTURED, p->tok));
    node->b = tr_tpl_parse_filters(p, captured, true);
    node->c = statements(p, ENDS("endfilter"));
    p->tok++;
    return tr_tpl_close(p, node);
}

static struct tpl_node *parse_with(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_WITH, p->tok++);
    struct tpl_node **targets = &node->a, **values = &node->b;
    while (p->tok->type != TPL_T_BLOCK_END) {
        if (node->a)
            tr_tpl_expect_op(p, ',');
        *targets = tr_tpl_parse_target(p, false, NULL);
        targets = &(*targets)->next;
        tr_tpl_expect_op(p, '=');
        *values = tr_tpl_parse_expression(p, true);
        values = &(*values)->next;
    }
    node->c = statements(p, ENDS("endwith"));
    p->tok++;
    return tr_tpl_close(p, node);
}

static struct tpl_node *parse_jump(struct tpl_parser *p, enum tpl_kind kind)
{
    if (p->loops == 0)
        tr_tpl_syntax(p, p->tok, "outside of a loop");
    p->else_loop |= kind == TPL_N_BREAK;
    return tr_tpl_close(p, tr_tpl_node(p, kind, p->tok++));
}

static struct tpl_node *statement(struct tpl_parser *p)
{
    if (p->tok->type != TPL_T_NAME)
        tr_tpl_syntax(p, p->tok, "tag name expected");
    static const struct {
        const char *tag;
        struct tpl_node *(*parse)(struct tpl_parser *p);
    } tags[] = {{"if", parse_if},
                {"for", parse_for},
                {"set", parse_set},
                {"macro", parse_macro},
                {"call", parse_call_block},
                {"generation", parse_generation},
                {"filter", parse_filter_block},
                {"with", parse_with}};
    for (size_t i = 0; i < TR_ARRAY_LEN(tags); i++)
        if (tr_tpl_at_name(p, tags[i].tag))
            return tags[i].parse(p);
    if (tr_tpl_at_name(p, "break"))
        return parse_jump(p, TPL_N_BREAK);
    if (tr_tpl_at_name(p, "continue"))
        return parse_jump(p, TPL_N_CONTINUE);
    tr_tpl_syntax(p, p->tok, "unknown or misplaced tag '%.*s'",
                  (int)TR_MIN(p->tok->value.u.str->n, 64u), p->tok->value.u.str->s);
}

/* Statements up to one of `ends` (NULL: up to the end of the source). */
static struct tpl_node *body(struct tpl_parser *p, const char *const *ends)
{
    struct tpl_node *first = NULL, **end = &first;
    for (;;) {
        const struct tpl_token *at = p->tok;
        struct tpl_node *node;
        if (at->type == TPL_T_EOF) {
            if (ends)
                tr_tpl_syntax(p, at, "the template ends where '%s' was expected", *ends);
            return first;
        }
        p->tok++;
        if (at->type == TPL_T_TEXT) {
            node = tr_tpl_node(p, TPL_N_TEXT, at);
            node->value = at->value;
            tr_tpl_close(p, node);
        } else if (at->type == TPL_T_PRINT_BEGIN) {
            node = tr_tpl_node(p, TPL_N_PRINT, at);
            node->a = tr_tpl_parse_tuple(p, true, NULL);
            if (p->tok->type != TPL_T_PRINT_END)
                tr_tpl_syntax(p, p->tok, "expected '}}'");
            p->tok++;
            tr_tpl_close(p, node);
        } else {
            if (ends && at_any(p, ends))
                return first;
            node = statement(p);
            expect_block_end(p);
        }
        *end = node;
        end = &node->next;
    }
}

void tr_tpl_parse(struct tpl_parser *p)
{
    struct tpl_routine *root = tr_tpl_alloc(p->vm, sizeof *root);
    root->body = body(p, NULL);
    p->t->root = root;
}
