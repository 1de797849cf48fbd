/* Expressions, in Jinja's own order of binding: each function is one level of it. */
#include "engine/text/template/ast.h"
#include "engine/text/template/call.h"

static void descend(struct tpl_parser *p)
{
    if (++p->depth > TPL_MAX_NESTING)
        tr_tpl_syntax(p, p->tok, "nested deeper than %d", TPL_MAX_NESTING);
}

static const struct tpl_token *expect_name(struct tpl_parser *p)
{
    if (p->tok->type != TPL_T_NAME)
        tr_tpl_syntax(p, p->tok, "expected a name");
    return p->tok++;
}

struct tpl_node *tr_tpl_parse_name(struct tpl_parser *p)
{
    const struct tpl_token *token = expect_name(p);
    struct tpl_node *node = tr_tpl_node(p, TPL_N_NAME, token);
    node->name = tr_tpl_intern(p->vm, p->t, token->value.u.str);
    node->value = token->value;
    return tr_tpl_close(p, node);
}

static struct tpl_node *constant(struct tpl_parser *p, const struct tpl_token *at,
                                 struct tpl_value v)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_CONST, at);
    node->value = v;
    return tr_tpl_close(p, node);
}

/* Adds a node to the end of a chain. */
static struct tpl_node **append(struct tpl_node **end, struct tpl_node *node)
{
    *end = node;
    return &node->next;
}

/* Adjacent string literals are one. */
static struct tpl_node *string(struct tpl_parser *p)
{
    const struct tpl_token *at = p->tok;
    struct tpl_value v = p->tok++->value;
    while (p->tok->type == TPL_T_STRING)
        v = tr_tpl_arithmetic(p->vm, '+', v, p->tok++->value);
    /* A loaded template is never written to: count now, and leave no room to grow into. */
    v.u.str->room = NULL;
    (void)tr_tpl_length(v);
    return constant(p, at, v);
}

static struct tpl_node *list(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_LIST, p->tok++), **end = &node->a;
    while (!tr_tpl_at_op(p, ']')) {
        if (node->a)
            tr_tpl_expect_op(p, ',');
        if (tr_tpl_at_op(p, ']'))
            break;
        end = append(end, tr_tpl_parse_expression(p, true));
    }
    p->tok++;
    return tr_tpl_close(p, node);
}

static struct tpl_node *dict(struct tpl_parser *p)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_DICT, p->tok++), **end = &node->a;
    while (!tr_tpl_at_op(p, '}')) {
        if (node->a)
            tr_tpl_expect_op(p, ',');
        if (tr_tpl_at_op(p, '}'))
            break;
        end = append(end, tr_tpl_parse_expression(p, true));
        tr_tpl_expect_op(p, ':');
        end = append(end, tr_tpl_parse_expression(p, true));
    }
    p->tok++;
    return tr_tpl_close(p, node);
}

static bool tuple_ends(const struct tpl_parser *p, const char *end)
{
    return p->tok->type == TPL_T_PRINT_END || p->tok->type == TPL_T_BLOCK_END ||
           tr_tpl_at_op(p, ')') || (end && tr_tpl_at_name(p, end));
}

enum tuple_of { EXPRESSIONS, CONDITIONLESS, TARGETS, NS_TARGETS };

static struct tpl_node *primary(struct tpl_parser *p, bool with_namespace);

static struct tpl_node *tuple(struct tpl_parser *p, enum tuple_of of, const char *end,
                              bool in_parens)
{
    const struct tpl_token *at = p->tok;
    struct tpl_node *first = NULL, **tail = &first;
    bool is_tuple = false;
    for (;;) {
        if (first)
            tr_tpl_expect_op(p, ',');
        if (tuple_ends(p, end))
            break;
        tail = append(tail, of >= TARGETS ? primary(p, of == NS_TARGETS)
                                          : tr_tpl_parse_expression(p, of == EXPRESSIONS));
        if (!tr_tpl_at_op(p, ','))
            break;
        is_tuple = true;
    }
    if (!is_tuple && first)
        return first;
    if (!first && !in_parens)
        tr_tpl_syntax(p, p->tok, "expected an expression");
    struct tpl_node *node = tr_tpl_node(p, TPL_N_TUPLE, at);
    node->a = first;
    return tr_tpl_close(p, node);
}

struct tpl_node *tr_tpl_parse_tuple(struct tpl_parser *p, bool with_condition, const char *end)
{
    return tuple(p, with_condition ? EXPRESSIONS : CONDITIONLESS, end, false);
}

static void check_target(struct tpl_parser *p, const struct tpl_node *node)
{
    if (node->kind == TPL_N_TUPLE) {
        for (const struct tpl_node *item = node->a; item; item = item->next)
            check_target(p, item);
    } else if (node->kind != TPL_N_NAME && node->kind != TPL_N_NS_ATTR) {
        struct tpl_token at = {.line = node->line, .column = node->column};
        tr_tpl_syntax(p, &at, "cannot assign to this");
    }
}

struct tpl_node *tr_tpl_parse_target(struct tpl_parser *p, bool with_namespace, const char *end)
{
    struct tpl_node *node = tuple(p, with_namespace ? NS_TARGETS : TARGETS, end, false);
    check_target(p, node);
    return node;
}

static struct tpl_node *name_or_constant(struct tpl_parser *p, bool with_namespace)
{
    const struct tpl_token *at = p->tok;
    if (tr_tpl_take_name(p, "true") || tr_tpl_take_name(p, "True"))
        return constant(p, at, tpl_bool(true));
    if (tr_tpl_take_name(p, "false") || tr_tpl_take_name(p, "False"))
        return constant(p, at, tpl_bool(false));
    if (tr_tpl_take_name(p, "none") || tr_tpl_take_name(p, "None"))
        return constant(p, at, tpl_none());
    struct tpl_node *name = tr_tpl_parse_name(p);
    if (!with_namespace || !tr_tpl_take_op(p, '.'))
        return name;
    struct tpl_node *node = tr_tpl_node(p, TPL_N_NS_ATTR, at);
    node->a = name;
    node->value = expect_name(p)->value;
    return tr_tpl_close(p, node);
}

static struct tpl_node *primary(struct tpl_parser *p, bool with_namespace)
{
    const struct tpl_token *at = p->tok;
    descend(p);
    struct tpl_node *node = NULL;
    switch (at->type) {
    case TPL_T_NAME:
        node = name_or_constant(p, with_namespace);
        break;
    case TPL_T_STRING:
        node = string(p);
        break;
    case TPL_T_INT:
    case TPL_T_FLOAT:
        p->tok++;
        node = constant(p, at, at->value);
        break;
    default:
        if (tr_tpl_take_op(p, '(')) {
            node = tuple(p, EXPRESSIONS, NULL, true);
            tr_tpl_expect_op(p, ')');
        } else if (tr_tpl_at_op(p, '[')) {
            node = list(p);
        } else if (tr_tpl_at_op(p, '{')) {
            node = dict(p);
        } else {
            tr_tpl_syntax(p, at, "expected an expression");
        }
    }
    p->depth--;
    return node;
}

static bool slice_ends(const struct tpl_parser *p)
{
    return tr_tpl_at_op(p, ']') || tr_tpl_at_op(p, ':');
}

/* What stands in brackets after `of`; jinja's x[a, b] is refused, no type here has tuple keys. */
static struct tpl_node *subscript(struct tpl_parser *p, struct tpl_node *of)
{
    const struct tpl_token *at = p->tok++;
    struct tpl_node *first = slice_ends(p) ? NULL : tr_tpl_parse_expression(p, true);
    struct tpl_node *node;
    if (!tr_tpl_at_op(p, ':')) {
        if (!first)
            tr_tpl_syntax(p, p->tok, "expected an expression");
        node = tr_tpl_node(p, TPL_N_ITEM, at);
    } else {
        node = tr_tpl_node(p, TPL_N_SLICE, at);
        p->tok++;
        if (!slice_ends(p))
            node->c = tr_tpl_parse_expression(p, true);
        if (tr_tpl_take_op(p, ':') && !slice_ends(p))
            node->d = tr_tpl_parse_expression(p, true);
    }
    node->a = of;
    node->b = first;
    tr_tpl_expect_op(p, ']');
    return tr_tpl_close(p, node);
}

static struct tpl_node *attribute(struct tpl_parser *p, struct tpl_node *of)
{
    const struct tpl_token *at = p->tok++;
    if (p->tok->type == TPL_T_INT) {
        struct tpl_node *node = tr_tpl_node(p, TPL_N_ITEM, at);
        node->a = of;
        node->b = constant(p, p->tok, p->tok->value);
        p->tok++;
        return tr_tpl_close(p, node);
    }
    struct tpl_node *node = tr_tpl_node(p, TPL_N_ATTR, at);
    node->a = of;
    node->value = expect_name(p)->value;
    return tr_tpl_close(p, node);
}

static struct tpl_node *arguments(struct tpl_parser *p)
{
    const struct tpl_token *open = p->tok;
    tr_tpl_expect_op(p, '(');
    struct tpl_node *first = NULL, **end = &first;
    enum tpl_arg latest = TPL_POSITIONAL;
    while (!tr_tpl_at_op(p, ')')) {
        if (first) {
            tr_tpl_expect_op(p, ',');
            if (tr_tpl_at_op(p, ')'))
                break;
        }
        struct tpl_node *arg = tr_tpl_node(p, TPL_N_ARG, p->tok);
        enum tpl_arg kind = TPL_POSITIONAL;
        if (tr_tpl_take_op(p, '*')) {
            kind = TPL_STAR;
        } else if (tr_tpl_take_op(p, 'p')) {
            kind = TPL_DOUBLE_STAR;
        } else if (p->tok->type == TPL_T_NAME && p->tok[1].type == TPL_T_OPERATOR &&
                   p->tok[1].op == '=') {
            kind = TPL_NAMED;
            arg->value = p->tok->value;
            p->tok += 2;
        }
        /* positional, then named, then one *x, then one **x, where *x may also precede named
         * ones */
        if (latest == TPL_DOUBLE_STAR || (kind == TPL_STAR && latest == TPL_STAR) ||
            (kind == TPL_POSITIONAL && latest != TPL_POSITIONAL))
            tr_tpl_syntax(p, open, "invalid syntax for function call expression");
        if (!(latest == TPL_STAR && kind == TPL_NAMED))
            latest = kind;
        arg->op = (uint8_t)kind;
        arg->a = tr_tpl_parse_expression(p, true);
        end = append(end, tr_tpl_close(p, arg));
    }
    p->tok++;
    return first;
}

static struct tpl_node *call(struct tpl_parser *p, struct tpl_node *callee)
{
    struct tpl_node *node = tr_tpl_node(p, TPL_N_CALL, p->tok);
    if (callee->kind == TPL_N_ATTR && !tr_tpl_method_known(callee->value.u.str))
        tr_tpl_syntax(p, p->tok, "no method named '%.*s'", (int)TR_MIN(callee->value.u.str->n, 64u),
                      callee->value.u.str->s);
    node->a = callee;
    node->b = arguments(p);
    return tr_tpl_close(p, node);
}

static struct tpl_node *postfix(struct tpl_parser *p, struct tpl_node *node)
{
    for (;;) {
        if (tr_tpl_at_op(p, '.'))
            node = attribute(p, node);
        else if (tr_tpl_at_op(p, '['))
            node = subscript(p, node);
        else if (tr_tpl_at_op(p, '('))
            node = call(p, node);
        else
            return node;
    }
}

struct tpl_node *tr_tpl_parse_filters(struct tpl_parser *p, struct tpl_node *node,
                                      bool inline_first)
{
    while (inline_first || tr_tpl_take_op(p, '|')) {
        inline_first = false;
        const struct tpl_token *at = expect_name(p);
        struct tpl_node *filter = tr_tpl_node(p, TPL_N_FILTER, at);
        int id = tr_tpl_filter_find(at->value.u.str);
        if (id < 0)
            tr_tpl_syntax(p, at, "no filter named '%.*s'", (int)TR_MIN(at->value.u.str->n, 64u),
                          at->value.u.str->s);
        filter->op = (uint8_t)id;
        filter->a = node;
        if (tr_tpl_at_op(p, '('))
            filter->b = arguments(p);
        node = tr_tpl_close(p, filter);
    }
    return node;
}

static bool starts_argument(const struct tpl_parser *p)
{
    if (p->tok->type == TPL_T_NAME)
        return !tr_tpl_at_name(p, "else") && !tr_tpl_at_name(p, "or") && !tr_tpl_at_name(p, "and");
    return p->tok->type == TPL_T_STRING || p->tok->type == TPL_T_INT ||
           p->tok->type == TPL_T_FLOAT || tr_tpl_at_op(p, '[') || tr_tpl_at_op(p, '{');
}

static struct tpl_node *test(struct tpl_parser *p, struct tpl_node *of)
{
    const struct tpl_token *is = p->tok++;
    bool negated = tr_tpl_take_name(p, "not");
    const struct tpl_token *at = expect_name(p);
    int id = tr_tpl_test_find(at->value.u.str);
    if (id < 0)
        tr_tpl_syntax(p, at, "no test named '%.*s'", (int)TR_MIN(at->value.u.str->n, 64u),
                      at->value.u.str->s);
    struct tpl_node *node = tr_tpl_node(p, TPL_N_TEST, is);
    node->op = (uint8_t)id;
    node->a = of;
    if (tr_tpl_at_op(p, '(')) {
        node->b = arguments(p);
    } else if (starts_argument(p)) {
        if (tr_tpl_at_name(p, "is"))
            tr_tpl_syntax(p, p->tok, "tests cannot be chained with is");
        node->b = tr_tpl_node(p, TPL_N_ARG, p->tok);
        node->b->a = postfix(p, primary(p, false));
        tr_tpl_close(p, node->b);
    }
    tr_tpl_close(p, node);
    if (!negated)
        return node;
    struct tpl_node *not = tr_tpl_node(p, TPL_N_NOT, is);
    not ->a = node;
    return tr_tpl_close(p, not );
}

static struct tpl_node *unary(struct tpl_parser *p, bool with_filters)
{
    const struct tpl_token *at = p->tok;
    struct tpl_node *node;
    descend(p);
    bool minus = tr_tpl_take_op(p, '-');
    if (minus || tr_tpl_take_op(p, '+')) {
        node = tr_tpl_node(p, minus ? TPL_N_NEG : TPL_N_POS, at);
        node->a = unary(p, false);
        tr_tpl_close(p, node);
    } else {
        node = primary(p, false);
    }
    p->depth--;
    node = postfix(p, node);
    while (with_filters) {
        if (tr_tpl_at_op(p, '|'))
            node = tr_tpl_parse_filters(p, node, false);
        else if (tr_tpl_at_name(p, "is"))
            node = test(p, node);
        else if (tr_tpl_at_op(p, '('))
            node = call(p, node);
        else
            break;
    }
    return node;
}

static struct tpl_node *binary(struct tpl_parser *p, enum tpl_kind kind, const struct tpl_token *at,
                               struct tpl_node *a, struct tpl_node *b)
{
    struct tpl_node *node = tr_tpl_node(p, kind, at);
    node->op = (uint8_t)at->op;
    node->a = a;
    node->b = b;
    return tr_tpl_close(p, node);
}

static struct tpl_node *power(struct tpl_parser *p)
{
    struct tpl_node *left = unary(p, true);
    while (tr_tpl_at_op(p, 'p')) {
        const struct tpl_token *at = p->tok++;
        left = binary(p, TPL_N_ARITH, at, left, unary(p, true));
    }
    return left;
}

static struct tpl_node *product(struct tpl_parser *p)
{
    struct tpl_node *left = power(p);
    while (tr_tpl_at_op(p, '*') || tr_tpl_at_op(p, '/') || tr_tpl_at_op(p, 'f') ||
           tr_tpl_at_op(p, '%')) {
        const struct tpl_token *at = p->tok++;
        left = binary(p, TPL_N_ARITH, at, left, power(p));
    }
    return left;
}

static struct tpl_node *concatenation(struct tpl_parser *p)
{
    const struct tpl_token *at = p->tok;
    struct tpl_node *first = product(p);
    if (!tr_tpl_at_op(p, '~'))
        return first;
    struct tpl_node *node = tr_tpl_node(p, TPL_N_CONCAT, at), **end = append(&node->a, first);
    while (tr_tpl_take_op(p, '~'))
        end = append(end, product(p));
    return tr_tpl_close(p, node);
}

static struct tpl_node *sum(struct tpl_parser *p)
{
    struct tpl_node *left = concatenation(p);
    while (tr_tpl_at_op(p, '+') || tr_tpl_at_op(p, '-')) {
        const struct tpl_token *at = p->tok++;
        left = binary(p, TPL_N_ARITH, at, left, concatenation(p));
    }
    return left;
}

/* Takes a comparison operator if there is one. */
static bool relation(struct tpl_parser *p, enum tpl_relation *ret)
{
    static const struct {
        char op;
        enum tpl_relation relation;
    } relations[] = {{'e', TPL_EQ}, {'n', TPL_NE}, {'<', TPL_LT},
                     {'l', TPL_LE}, {'>', TPL_GT}, {'g', TPL_GE}};
    for (size_t i = 0; i < TR_ARRAY_LEN(relations); i++) {
        if (tr_tpl_take_op(p, relations[i].op)) {
            *ret = relations[i].relation;
            return true;
        }
    }
    if (tr_tpl_take_name(p, "in")) {
        *ret = TPL_IN;
        return true;
    }
    if (tr_tpl_at_name(p, "not") && p->tok[1].type == TPL_T_NAME &&
        tr_tpl_str_is(p->tok[1].value, "in")) {
        p->tok += 2;
        *ret = TPL_NOT_IN;
        return true;
    }
    return false;
}

static struct tpl_node *comparison(struct tpl_parser *p)
{
    const struct tpl_token *at = p->tok;
    struct tpl_node *first = sum(p), *node = NULL, **end = NULL;
    for (;;) {
        const struct tpl_token *op = p->tok;
        enum tpl_relation r;
        if (!relation(p, &r))
            return node ? tr_tpl_close(p, node) : first;
        if (!node) {
            node = tr_tpl_node(p, TPL_N_COMPARE, at);
            node->a = first;
            end = &node->b;
        }
        struct tpl_node *operand = tr_tpl_node(p, TPL_N_OPERAND, op);
        operand->op = (uint8_t)r;
        operand->a = sum(p);
        end = append(end, tr_tpl_close(p, operand));
    }
}

static struct tpl_node *negation(struct tpl_parser *p)
{
    if (!tr_tpl_at_name(p, "not"))
        return comparison(p);
    struct tpl_node *node = tr_tpl_node(p, TPL_N_NOT, p->tok++);
    descend(p);
    node->a = negation(p);
    p->depth--;
    return tr_tpl_close(p, node);
}

static struct tpl_node *conjunction(struct tpl_parser *p)
{
    struct tpl_node *left = negation(p);
    while (tr_tpl_at_name(p, "and")) {
        const struct tpl_token *at = p->tok++;
        left = binary(p, TPL_N_AND, at, left, negation(p));
    }
    return left;
}

static struct tpl_node *disjunction(struct tpl_parser *p)
{
    struct tpl_node *left = conjunction(p);
    while (tr_tpl_at_name(p, "or")) {
        const struct tpl_token *at = p->tok++;
        left = binary(p, TPL_N_OR, at, left, conjunction(p));
    }
    return left;
}

struct tpl_node *tr_tpl_parse_expression(struct tpl_parser *p, bool with_condition)
{
    descend(p);
    struct tpl_node *node = disjunction(p);
    while (with_condition && tr_tpl_at_name(p, "if")) {
        struct tpl_node *choice = tr_tpl_node(p, TPL_N_COND, p->tok++);
        choice->b = node;
        choice->a = disjunction(p);
        if (tr_tpl_take_name(p, "else"))
            choice->c = tr_tpl_parse_expression(p, true);
        node = tr_tpl_close(p, choice);
    }
    p->depth--;
    return node;
}
