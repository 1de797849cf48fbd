/* Python's arithmetic on numbers, strings and lists. Integers are exact in 64 bits, and refused
 * beyond. */
#include <math.h>
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"

static _Noreturn void too_big(struct tpl_vm *vm)
{
    tr_tpl_fail(vm, "integer beyond 64 bits");
}

static _Noreturn void zero(struct tpl_vm *vm)
{
    tr_tpl_fail(vm, "division by zero");
}

/* floor(a / b) and the remainder with the sign of b. */
static int64_t floor_divide(struct tpl_vm *vm, int64_t a, int64_t b, int64_t *ret_mod)
{
    if (b == 0)
        zero(vm);
    if (b == -1) {
        *ret_mod = 0;
        if (a == INT64_MIN)
            too_big(vm);
        return -a;
    }
    int64_t q = a / b, m = a % b;
    if (m != 0 && (m < 0) != (b < 0)) {
        m += b;
        q--;
    }
    *ret_mod = m;
    return q;
}

static double floor_divide_floats(struct tpl_vm *vm, double a, double b, double *ret_mod)
{
    if (fpclassify(b) == FP_ZERO)
        zero(vm);
    double mod = fmod(a, b), div = (a - mod) / b;
    if (fpclassify(mod) == FP_ZERO) {
        mod = copysign(0.0, b);
    } else if ((mod < 0) != (b < 0)) {
        mod += b;
        div -= 1.0;
    }
    *ret_mod = mod;
    if (fpclassify(div) == FP_ZERO)
        return copysign(0.0, a / b);
    double floored = floor(div);
    return div - floored > 0.5 ? floored + 1.0 : floored;
}

static struct tpl_value power(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b)
{
    if (tpl_is_integer(a) && tpl_is_integer(b) && tpl_integer(b) >= 0) {
        int64_t base = tpl_integer(a), result = 1;
        for (int64_t left = tpl_integer(b); left; left >>= 1) {
            if (left & 1 && __builtin_mul_overflow(result, base, &result))
                too_big(vm);
            if (left > 1 && __builtin_mul_overflow(base, base, &base))
                too_big(vm);
        }
        return tpl_int(result);
    }
    double x = tpl_number(a), y = tpl_number(b);
    if (fpclassify(x) == FP_ZERO && y < 0)
        zero(vm);
    if (x < 0 && floor(y) < y)
        tr_tpl_fail(vm, "complex numbers are not supported");
    double result = pow(x, y);
    if (isinf(result) && !isinf(x) && !isinf(y))
        tr_tpl_fail(vm, "numerical result out of range");
    return tpl_float(result);
}

static struct tpl_value on_integers(struct tpl_vm *vm, char op, int64_t a, int64_t b)
{
    int64_t result = 0, mod;
    bool overflow = false;
    switch (op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case '/':
        if (b == 0)
            zero(vm);
        return tpl_float((double)a / (double)b);
    case 'f':
        result = floor_divide(vm, a, b, &mod);
        break;
    default:
        if (b == -1)
            return tpl_int(0);
        floor_divide(vm, a, b, &result);
        break;
    }
    if (overflow)
        too_big(vm);
    return tpl_int(result);
}

static struct tpl_value on_floats(struct tpl_vm *vm, char op, double a, double b)
{
    double mod, div;
    switch (op) {
    case '+':
        return tpl_float(a + b);
    case '-':
        return tpl_float(a - b);
    case '*':
        return tpl_float(a * b);
    case '/':
        if (fpclassify(b) == FP_ZERO)
            zero(vm);
        return tpl_float(a / b);
    default:
        div = floor_divide_floats(vm, a, b, &mod);
        return tpl_float(op == 'f' ? div : mod);
    }
}

static struct tpl_value repeat(struct tpl_vm *vm, struct tpl_value of, int64_t times)
{
    if (of.type == TPL_STR) {
        const struct tpl_str *s = of.u.str;
        if (times > 0 && s->n > 0 && times > TPL_MAX_OUTPUT / (int64_t)s->n)
            tr_tpl_fail(vm, "template limit: output");
        size_t mark = vm->text.len;
        if (times > 0 && s->n > 0 && !s->pieces)
            tr_tpl_put_times(vm, s->s, s->n, (size_t)times, s->origin);
        for (int64_t i = 0; s->pieces && i < times; i++)
            tr_tpl_put_str(vm, s);
        return tr_tpl_with_markup(vm, tr_tpl_cut(vm, mark), s->markup);
    }
    const struct tpl_list *list = of.u.list;
    if (times > 0 && list->n > 0 && times > TPL_MAX_LIST / (int64_t)list->n)
        tr_tpl_fail(vm, "template limit: list length");
    size_t n = times > 0 ? (size_t)times * list->n : 0;
    struct tpl_value v = tr_tpl_list(vm, n, of.type);
    for (size_t i = 0; i < n; i++)
        v.u.list->v[i] = list->v[i % list->n];
    return v;
}

static bool repeatable(struct tpl_value v)
{
    return v.type == TPL_STR || v.type == TPL_LIST || v.type == TPL_TUPLE;
}

static struct tpl_value join_lists(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b)
{
    const struct tpl_list *x = a.u.list, *y = b.u.list;
    struct tpl_value v = tr_tpl_list(vm, (size_t)x->n + y->n, a.type);
    if (x->n)
        memcpy(v.u.list->v, x->v, x->n * sizeof *x->v);
    if (y->n)
        memcpy(v.u.list->v + x->n, y->v, y->n * sizeof *y->v);
    return v;
}

static struct tpl_value join_strings(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b)
{
    bool markup = a.u.str->markup || b.u.str->markup;
    if (!markup)
        return tr_tpl_concat(vm, a, b);
    return tr_tpl_with_markup(vm, tr_tpl_concat(vm, tr_tpl_escape(vm, a), tr_tpl_escape(vm, b)),
                              true);
}

struct tpl_value tr_tpl_arithmetic(struct tpl_vm *vm, char op, struct tpl_value a,
                                   struct tpl_value b)
{
    if (tpl_is_number(a) && tpl_is_number(b)) {
        if (op == 'p')
            return power(vm, a, b);
        if (tpl_is_integer(a) && tpl_is_integer(b))
            return on_integers(vm, op, tpl_integer(a), tpl_integer(b));
        return on_floats(vm, op, tpl_number(a), tpl_number(b));
    }
    if (op == '+' && a.type == TPL_STR && b.type == TPL_STR)
        return join_strings(vm, a, b);
    if (op == '+' && a.type == b.type && (a.type == TPL_LIST || a.type == TPL_TUPLE))
        return join_lists(vm, a, b);
    if (op == '*' && repeatable(a) && tpl_is_integer(b))
        return repeat(vm, a, tpl_integer(b));
    if (op == '*' && repeatable(b) && tpl_is_integer(a))
        return repeat(vm, b, tpl_integer(a));
    if (op == '%' && a.type == TPL_STR)
        return tr_tpl_percent(vm, a.u.str, b);
    if (a.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, a, "");
    if (b.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, b, "");
    const char *names[] = {"//", "**"};
    char single[2] = {op, '\0'};
    tr_tpl_fail(vm, "unsupported operand type(s) for %s: '%s' and '%s'",
                op == 'f'   ? names[0]
                : op == 'p' ? names[1]
                            : single,
                tr_tpl_type_name(a), tr_tpl_type_name(b));
}
