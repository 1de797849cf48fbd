/* What may stand behind `is`, and the names that select and its kin take. */
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"

enum test {
    T_BOOLEAN,
    T_CALLABLE,
    T_DEFINED,
    T_DIVISIBLE,
    T_EQ,
    T_ESCAPED,
    T_EVEN,
    T_FALSE,
    T_FILTER,
    T_FLOAT,
    T_GE,
    T_GT,
    T_IN,
    T_INTEGER,
    T_ITERABLE,
    T_LE,
    T_LOWER,
    T_LT,
    T_MAPPING,
    T_NE,
    T_NONE,
    T_NUMBER,
    T_ODD,
    T_SAME,
    T_SEQUENCE,
    T_STRING,
    T_TEST,
    T_TRUE,
    T_UNDEFINED,
    T_UPPER
};

static const struct {
    const char *name;
    uint8_t test;
    bool takes_one; /* argument */
} tests[] = {
    {"boolean", T_BOOLEAN, false},
    {"callable", T_CALLABLE, false},
    {"defined", T_DEFINED, false},
    {"divisibleby", T_DIVISIBLE, true},
    {"eq", T_EQ, true},
    {"equalto", T_EQ, true},
    {"==", T_EQ, true},
    {"escaped", T_ESCAPED, false},
    {"even", T_EVEN, false},
    {"false", T_FALSE, false},
    {"filter", T_FILTER, false},
    {"float", T_FLOAT, false},
    {"ge", T_GE, true},
    {">=", T_GE, true},
    {"gt", T_GT, true},
    {">", T_GT, true},
    {"greaterthan", T_GT, true},
    {"in", T_IN, true},
    {"integer", T_INTEGER, false},
    {"iterable", T_ITERABLE, false},
    {"le", T_LE, true},
    {"<=", T_LE, true},
    {"lower", T_LOWER, false},
    {"lt", T_LT, true},
    {"<", T_LT, true},
    {"lessthan", T_LT, true},
    {"mapping", T_MAPPING, false},
    {"ne", T_NE, true},
    {"!=", T_NE, true},
    {"none", T_NONE, false},
    {"number", T_NUMBER, false},
    {"odd", T_ODD, false},
    {"sameas", T_SAME, true},
    {"sequence", T_SEQUENCE, false},
    {"string", T_STRING, false},
    {"test", T_TEST, false},
    {"true", T_TRUE, false},
    {"undefined", T_UNDEFINED, false},
    {"upper", T_UPPER, false},
};

int tr_tpl_test_find(const struct tpl_str *name)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(tests); i++)
        if (strlen(tests[i].name) == name->n && memcmp(tests[i].name, name->s, name->n) == 0)
            return (int)i;
    return -1;
}

static bool remainder_is(struct tpl_vm *vm, struct tpl_value v, struct tpl_value by, int64_t want)
{
    return tr_tpl_equal(vm, tr_tpl_arithmetic(vm, '%', v, by), tpl_int(want));
}

static bool is_case(struct tpl_vm *vm, struct tpl_value v, const char *method)
{
    bool mutates;
    struct tpl_method m = {.self = tr_tpl_to_str(vm, v)};
    m.id = tr_tpl_method_find(m.self, tr_tpl_literal(vm, method).u.str, &mutates);
    return tr_tpl_method_call(vm, &m, &(struct tpl_args){0}).u.b;
}

static bool callable(struct tpl_value v)
{
    return v.type == TPL_MACRO || v.type == TPL_METHOD || v.type == TPL_FUNCTION ||
           v.type == TPL_JOINER || v.type == TPL_LOOP || v.type == TPL_UNDEFINED;
}

static bool of_type(enum test test, struct tpl_value v)
{
    switch (test) {
    case T_BOOLEAN:
        return v.type == TPL_BOOL;
    case T_CALLABLE:
        return callable(v);
    case T_DEFINED:
        return v.type != TPL_UNDEFINED;
    case T_ESCAPED:
        return v.type == TPL_STR && v.u.str->markup;
    case T_FALSE:
        return v.type == TPL_BOOL && !v.u.b;
    case T_FLOAT:
        return v.type == TPL_FLOAT;
    case T_INTEGER:
        return v.type == TPL_INT || v.type == TPL_BIG;
    case T_ITERABLE:
        return tr_tpl_iterable(v) || v.type == TPL_LOOP;
    case T_MAPPING:
        return v.type == TPL_DICT;
    case T_NONE:
        return v.type == TPL_NONE;
    case T_NUMBER:
        return tpl_is_number(v) || v.type == TPL_BIG;
    case T_SEQUENCE:
        return tr_tpl_length(v) >= 0 && v.type != TPL_VIEW;
    case T_STRING:
        return v.type == TPL_STR;
    case T_TRUE:
        return v.type == TPL_BOOL && v.u.b;
    case T_UNDEFINED:
    default:
        return v.type == TPL_UNDEFINED;
    }
}

static bool related(struct tpl_vm *vm, enum test test, struct tpl_value v, struct tpl_value other)
{
    int c;
    switch (test) {
    case T_EQ:
        return tr_tpl_equal(vm, v, other);
    case T_NE:
        return !tr_tpl_equal(vm, v, other);
    case T_LT:
        return tr_tpl_compare(vm, v, other, "<") == -1;
    case T_GT:
        return tr_tpl_compare(vm, v, other, ">") == 1;
    case T_LE:
        c = tr_tpl_compare(vm, v, other, "<=");
        return c == -1 || c == 0;
    default:
        c = tr_tpl_compare(vm, v, other, ">=");
        return c == 1 || c == 0;
    }
}

bool tr_tpl_test(struct tpl_vm *vm, int id, struct tpl_value v, const struct tpl_args *args)
{
    struct tpl_value a[TPL_MAX_PARAMS];
    bool one = tests[id].takes_one;
    tr_tpl_bind(vm, args, tests[id].name, one ? "value" : "", one, a);
    enum test test = tests[id].test;
    switch (test) {
    case T_DIVISIBLE:
        return remainder_is(vm, v, a[0], 0);
    case T_EVEN:
        return remainder_is(vm, v, tpl_int(2), 0);
    case T_ODD:
        return remainder_is(vm, v, tpl_int(2), 1);
    case T_EQ:
    case T_NE:
    case T_LT:
    case T_LE:
    case T_GT:
    case T_GE:
        return related(vm, test, v, a[0]);
    case T_IN:
        return tr_tpl_contains(vm, a[0], v);
    case T_SAME:
        return tr_tpl_same(v, a[0]);
    case T_LOWER:
        return is_case(vm, v, "islower");
    case T_UPPER:
        return is_case(vm, v, "isupper");
    case T_FILTER:
        return v.type == TPL_STR && tr_tpl_filter_find(v.u.str) >= 0;
    case T_TEST:
        return v.type == TPL_STR && tr_tpl_test_find(v.u.str) >= 0;
    default:
        return of_type(test, v);
    }
}
