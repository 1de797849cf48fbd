/*
 * A parsed template: a tree of nodes in the template's arena, immutable once loaded, so that any
 * number of renders may walk it at the same time.
 */
#ifndef TR_ENGINE_TEXT_TEMPLATE_AST_H
#define TR_ENGINE_TEXT_TEMPLATE_AST_H

#include "engine/text/template/value.h"

/* What a..e hold; "list" is a chain through `next`. */
enum tpl_kind {
    /* statements */
    TPL_N_TEXT,         /* value */
    TPL_N_PRINT,        /* a expression */
    TPL_N_IF,           /* a test, b body list, c else list */
    TPL_N_FOR,          /* a target, b iterable, c body, d else, e test; scope, else_scope;
                          test_scope and test_target, as the test runs ahead of the body */
    TPL_N_SET,          /* a target, b expression */
    TPL_N_SET_BLOCK,    /* a target, b filter chain over TPL_N_CAPTURED or NULL, c body; scope */
    TPL_N_FILTER_BLOCK, /* b filter chain over TPL_N_CAPTURED, c body; scope */
    TPL_N_MACRO,        /* a target name, c body, d params; routine */
    TPL_N_CALL_BLOCK,   /* a call, c body, d params; routine */
    TPL_N_GENERATION,   /* c body; routine */
    TPL_N_WITH,         /* a target list, b expression list, c body; scope */
    TPL_N_BREAK,
    TPL_N_CONTINUE,
    /* expressions */
    TPL_N_CONST,    /* value */
    TPL_N_CAPTURED, /* the text of the block a filter chain applies to */
    TPL_N_NAME,     /* name, up, slot */
    TPL_N_NS_ATTR,  /* target only: a namespace name, value attribute */
    TPL_N_LIST,     /* a list */
    TPL_N_TUPLE,    /* a list; as target too */
    TPL_N_DICT,     /* a list: key, value, key, value ... */
    TPL_N_ATTR,     /* a object, value name */
    TPL_N_ITEM,     /* a object, b key */
    TPL_N_SLICE,    /* a object, b start, c stop, d step; each may be NULL */
    TPL_N_NOT,      /* a */
    TPL_N_NEG,      /* a */
    TPL_N_POS,      /* a */
    TPL_N_ARITH,    /* op (see tr_tpl_arithmetic), a, b */
    TPL_N_CONCAT,   /* a list */
    TPL_N_COMPARE,  /* a first, b list of TPL_N_OPERAND */
    TPL_N_OPERAND,  /* op enum tpl_relation, a */
    TPL_N_AND,      /* a, b */
    TPL_N_OR,       /* a, b */
    TPL_N_COND,     /* a test, b value, c other value or NULL */
    TPL_N_CALL,     /* a callee, b argument list */
    TPL_N_FILTER,   /* op id, a, b argument list */
    TPL_N_TEST,     /* op id, a, b argument list */
    TPL_N_ARG,      /* op enum tpl_arg, a, value = name of a named one */
    TPL_N_PARAM     /* name, slot, a default or NULL */
};

enum tpl_relation { TPL_EQ, TPL_NE, TPL_LT, TPL_LE, TPL_GT, TPL_GE, TPL_IN, TPL_NOT_IN };
enum tpl_arg { TPL_POSITIONAL, TPL_NAMED, TPL_STAR, TPL_DOUBLE_STAR };

/* How a variable of a scope gets its value when the scope is entered. Jinja decides this while it
 * compiles, so it is decided while loading. */
enum tpl_load { TPL_LOAD_PARAM, TPL_LOAD_ALIAS, TPL_LOAD_CONTEXT, TPL_LOAD_UNDEFINED };

struct tpl_symbol {
    struct tpl_symbol *next;
    uint32_t name; /* index in the template's names */
    uint32_t slot; /* in the activation of the scope's routine */
    enum tpl_load load;
    uint32_t up, from; /* ALIAS: how many activations outward, and the slot there */
};

struct tpl_scope {
    struct tpl_scope *parent;
    struct tpl_routine *routine;
    struct tpl_symbol *symbols;
};

/* What has its own activation: the template, a macro, a call block, a generation block. */
struct tpl_routine {
    struct tpl_node *params; /* list of TPL_N_PARAM */
    struct tpl_node *body;
    struct tpl_scope *scope;
    struct tpl_str *name; /* of a macro, NULL for the others */
    uint32_t n_params, n_slots;
    int32_t caller, varargs, kwargs; /* slots, -1 = the body does not use it */
    bool explicit_caller;            /* `caller` is among the params */
};

struct tpl_node {
    uint8_t kind; /* enum tpl_kind */
    uint8_t op;
    uint16_t depth; /* of the tree below */
    uint32_t line, column;
    struct tpl_node *next;
    struct tpl_node *a, *b, *c, *d, *e;
    struct tpl_value value;
    uint32_t name;     /* index in the template's names */
    uint32_t up, slot; /* where a name's value is */
    struct tpl_scope *scope, *else_scope, *test_scope;
    struct tpl_node *test_target;
    struct tpl_routine *routine;
};

struct tr_template {
    struct tpl_arena arena;
    struct tpl_routine *root;
    struct tpl_str **names; /* interned identifiers */
    uint32_t n_names, cap_names;
};

/* The tokens of a source. */
enum tpl_token_type {
    TPL_T_EOF,
    TPL_T_TEXT,
    TPL_T_BLOCK_BEGIN,
    TPL_T_BLOCK_END,
    TPL_T_PRINT_BEGIN,
    TPL_T_PRINT_END,
    TPL_T_NAME,
    TPL_T_STRING,
    TPL_T_INT,
    TPL_T_FLOAT,
    /* op: its first byte, or 'f' '//' 'p' '**' 'e' '==' 'n' '!=' 'l' '<=' 'g' '>=' */
    TPL_T_OPERATOR
};

struct tpl_token {
    uint8_t type;
    char op;
    uint32_t line, column; /* from 1; columns count code points */
    struct tpl_value value;
};

/* Cuts the source (UTF-8, newlines normalised, final one dropped) into tokens that end with EOF. */
struct tpl_token *tr_tpl_lex(struct tpl_vm *vm, const char *source, size_t n);

/* Parsing; parser.c holds statements, expression.c expressions, parse_base.c the rest. */
struct tpl_parser {
    struct tpl_vm *vm;
    struct tr_template *t;
    struct tpl_token *tok; /* the next one */
    uint32_t n_nodes;
    int depth;      /* of recursion */
    int loops;      /* loops around this place in the same routine; break needs one */
    bool else_loop; /* a break was seen in the innermost loop */
};

void tr_tpl_parse(struct tpl_parser *p); /* fills t->root, scopes unresolved */
void tr_tpl_resolve(struct tpl_vm *vm, struct tr_template *t);

struct tpl_node *tr_tpl_node(struct tpl_parser *p, enum tpl_kind kind, const struct tpl_token *at);
/* Sets the depth from the children and checks it. */
struct tpl_node *tr_tpl_close(struct tpl_parser *p, struct tpl_node *node);
uint32_t tr_tpl_intern(struct tpl_vm *vm, struct tr_template *t, struct tpl_str *name);
struct tpl_node *tr_tpl_parse_expression(struct tpl_parser *p, bool with_condition);
/* A tuple without parentheses, or the single expression. `end` is a name that ends it, or NULL. */
struct tpl_node *tr_tpl_parse_tuple(struct tpl_parser *p, bool with_condition, const char *end);
struct tpl_node *tr_tpl_parse_target(struct tpl_parser *p, bool with_namespace, const char *end);
/* Filters after `node`; with inline_first the first one has no bar. */
struct tpl_node *tr_tpl_parse_filters(struct tpl_parser *p, struct tpl_node *node,
                                      bool inline_first);
struct tpl_node *tr_tpl_parse_name(struct tpl_parser *p);
bool tr_tpl_at_op(const struct tpl_parser *p, char op);
bool tr_tpl_at_name(const struct tpl_parser *p, const char *name);
bool tr_tpl_take_op(struct tpl_parser *p, char op);
bool tr_tpl_take_name(struct tpl_parser *p, const char *name);
void tr_tpl_expect_op(struct tpl_parser *p, char op);
_Noreturn void tr_tpl_syntax(struct tpl_parser *p, const struct tpl_token *at, const char *fmt, ...)
    TR_PRINTF(3, 4);

#endif
