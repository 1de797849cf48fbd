/* Filters of single values, and the table of all. */
#include "engine/text/template/filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/template/from_json.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

static struct tpl_value f_upper(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_change_case(vm, tr_tpl_to_str(vm, v).u.str, 'u');
}

static struct tpl_value f_lower(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_change_case(vm, tr_tpl_to_str(vm, v).u.str, 'l');
}

static struct tpl_value f_capitalize(struct tpl_vm *vm, struct tpl_value v,
                                     const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_change_case(vm, tr_tpl_to_str(vm, v).u.str, 'c');
}

static bool breaks_word(char c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Unlike the method, the filter capitalises after white space and opening brackets only. */
static struct tpl_value f_title(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    const struct tpl_str *s = tr_tpl_to_str(vm, v).u.str;
    size_t mark = vm->text.len, n;
    for (size_t at = 0; at < s->n;) {
        size_t word = at;
        while (word < s->n &&
               (breaks_word(s->s[word]) || tr_uni_space(tr_uni_decode(s->s + word, &n))))
            word += tr_uni_skip(s->s + word, s->n - word, 1);
        tr_tpl_put_part(vm, s, at, word);
        if (word == s->n)
            break;
        size_t rest = word + tr_uni_skip(s->s + word, s->n - word, 1), end = rest;
        while (end < s->n && !breaks_word(s->s[end]) &&
               !tr_uni_space(tr_uni_decode(s->s + end, &n)))
            end += n;
        tr_tpl_put_str(vm, tr_tpl_change_case(vm, tr_tpl_part(vm, s, word, rest).u.str, 'u').u.str);
        tr_tpl_put_str(vm, tr_tpl_change_case(vm, tr_tpl_part(vm, s, rest, end).u.str, 'l').u.str);
        at = end;
    }
    return tr_tpl_cut(vm, mark);
}

static struct tpl_value f_trim(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    return tr_tpl_strip(vm, tr_tpl_to_str(vm, v).u.str,
                        tpl_set(a[0]) ? tr_tpl_arg_str(vm, a[0], "chars") : NULL, 3);
}

static struct tpl_value f_string(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_to_str(vm, v);
}

static struct tpl_value f_safe(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_with_markup(vm, tr_tpl_to_str(vm, v), true);
}

static struct tpl_value f_escape(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_escape(vm, v);
}

static struct tpl_value f_replace(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    int64_t count = tpl_set(a[2]) ? tr_tpl_arg_int(vm, a[2], "count") : -1;
    return tr_tpl_replace(vm, tr_tpl_to_str(vm, v).u.str, tr_tpl_to_str(vm, a[0]).u.str,
                          tr_tpl_to_str(vm, a[1]).u.str, count);
}

static struct tpl_value f_format(struct tpl_vm *vm, struct tpl_value v, const struct tpl_args *args)
{
    struct tpl_value values;
    if (args->n && args->n_named)
        tr_tpl_fail(vm, "can't handle positional and keyword arguments at the same time");
    if (args->n_named) {
        struct tpl_pair *pairs = tr_tpl_alloc_n(vm, args->n_named, sizeof *pairs);
        memcpy(pairs, args->named, args->n_named * sizeof *pairs);
        values = tr_tpl_dict(vm, pairs, args->n_named);
    } else {
        values = tr_tpl_list(vm, args->n, TPL_TUPLE);
        for (uint32_t i = 0; i < args->n; i++)
            values.u.list->v[i] = args->v[i];
    }
    return tr_tpl_percent(vm, tr_tpl_to_str(vm, v).u.str, values);
}

static struct tpl_value f_indent(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    const struct tpl_str *s = tr_tpl_arg_str(vm, v, "indent's value"), *by;
    if (a[0].type == TPL_STR)
        by = a[0].u.str;
    else
        by =
            tr_tpl_arithmetic(vm, '*', tr_tpl_literal(vm, " "), tpl_given(a[0]) ? a[0] : tpl_int(4))
                .u.str;
    bool first = tpl_given(a[1]) && tr_tpl_truth(vm, a[1]);
    bool blank = tpl_given(a[2]) && tr_tpl_truth(vm, a[2]);
    struct tpl_value ended = tr_tpl_concat(vm, v, tr_tpl_literal(vm, "\n"));
    const struct tpl_list *lines = tr_tpl_lines(vm, ended.u.str, false).u.list;
    size_t mark = vm->text.len;
    for (uint32_t i = 0; i < lines->n; i++) {
        const struct tpl_str *line = lines->v[i].u.str;
        if (i)
            tr_tpl_puts(vm, "\n", TPL_TEMPLATE);
        if (i == 0 ? first : blank || line->n)
            tr_tpl_put_str(vm, by);
        tr_tpl_put_str(vm, line);
    }
    return tr_tpl_with_markup(vm, tr_tpl_cut(vm, mark), s->markup);
}

static struct tpl_value f_tojson(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    struct tpl_json_style style = {.ensure_ascii = tpl_given(a[0]) && tr_tpl_truth(vm, a[0]),
                                   .sort_keys = tpl_given(a[3]) && tr_tpl_truth(vm, a[3])};
    if (tpl_set(a[1]) && a[1].type != TPL_STR) {
        int64_t n = TR_MAX(tr_tpl_arg_int(vm, a[1], "indent"), 0);
        style.indent = tr_tpl_arithmetic(vm, '*', tr_tpl_literal(vm, " "), tpl_int(n)).u.str;
    } else if (tpl_set(a[1])) {
        style.indent = a[1].u.str;
    }
    style.item_separator = tr_tpl_literal(vm, style.indent ? "," : ", ").u.str;
    style.key_separator = tr_tpl_literal(vm, ": ").u.str;
    if (tpl_set(a[2])) {
        struct tpl_value pair = tr_tpl_to_list(vm, a[2]);
        if (pair.u.list->n != 2)
            tr_tpl_fail(vm, "tojson: separators must be a pair");
        style.item_separator = tr_tpl_arg_str(vm, pair.u.list->v[0], "separator");
        style.key_separator = tr_tpl_arg_str(vm, pair.u.list->v[1], "separator");
    }
    size_t mark = vm->text.len;
    tr_tpl_put_json(vm, v, &style);
    return tr_tpl_cut(vm, mark);
}

static struct tpl_value f_from_json(struct tpl_vm *vm, struct tpl_value v,
                                    const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_from_json_text(vm, tr_tpl_arg_str(vm, v, "from_json's value"));
}

static struct tpl_value f_default(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    bool falsy = tpl_given(a[1]) && tr_tpl_truth(vm, a[1]) && !tr_tpl_truth(vm, v);
    if (v.type != TPL_UNDEFINED && !falsy)
        return v;
    return tpl_given(a[0]) ? a[0] : tr_tpl_literal(vm, "");
}

static struct tpl_value f_length(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    int64_t n = tr_tpl_length(v);
    if (n < 0)
        tr_tpl_fail(vm, "object of type '%s' has no len()", tr_tpl_type_name(v));
    return tpl_int(n);
}

static struct tpl_value f_abs(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    if (!tpl_is_number(v))
        tr_tpl_fail_type(vm, v, "bad operand type for abs():");
    if (v.type == TPL_FLOAT)
        return tpl_float(fabs(v.u.f));
    return tr_tpl_arithmetic(vm, tpl_integer(v) < 0 ? '-' : '+', tpl_int(0), v);
}

static struct tpl_value truncated(struct tpl_vm *vm, double f)
{
    if (!(fabs(f) < 0x1p63))
        tr_tpl_fail(vm, "cannot convert float to a 64-bit integer");
    return tpl_int((int64_t)f);
}

static struct tpl_value f_int(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    struct tpl_value other = tpl_given(a[0]) ? a[0] : tpl_int(0);
    int64_t base = tpl_given(a[1]) ? tr_tpl_arg_int(vm, a[1], "base") : 10, i;
    double f;
    if (v.type == TPL_STR) {
        if (base != 0 && (base < 2 || base > 36))
            tr_tpl_fail(vm, "int() base must be >= 2 and <= 36, or 0");
        if (tr_tpl_parse_int(vm, v.u.str, (int)base, &i))
            return tpl_int(i);
        if (tr_tpl_parse_float(vm, v.u.str, &f) && isfinite(f))
            return truncated(vm, f);
        return other;
    }
    if (v.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, v, "");
    if (tpl_is_integer(v))
        return tpl_int(tpl_integer(v));
    if (v.type == TPL_FLOAT && !isnan(v.u.f))
        return truncated(vm, v.u.f);
    return other;
}

static struct tpl_value f_float(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    double f;
    if (v.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, v, "");
    if (tpl_is_number(v))
        return tpl_float(tpl_number(v));
    if (v.type == TPL_STR && tr_tpl_parse_float(vm, v.u.str, &f))
        return tpl_float(f);
    return tpl_given(a[0]) ? a[0] : tpl_float(0.0);
}

/* round() of an integer to a negative number of digits, halves to even. */
static struct tpl_value round_int(struct tpl_vm *vm, int64_t i, int64_t digits)
{
    if (digits >= 0)
        return tpl_int(i);
    if (digits < -18)
        return tpl_int(0);
    int64_t unit = 1;
    for (; digits; digits++)
        unit *= 10;
    int64_t rest = i % unit, down = i - rest;
    if (rest < 0) {
        rest += unit;
        down -= unit;
    }
    bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    return up ? tr_tpl_arithmetic(vm, '+', tpl_int(down), tpl_int(unit)) : tpl_int(down);
}

static struct tpl_value f_round(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    int64_t digits = tpl_given(a[0]) ? tr_tpl_arg_int(vm, a[0], "precision") : 0;
    bool common = !tpl_given(a[1]) || tr_tpl_str_is(a[1], "common");
    bool up = tpl_given(a[1]) && tr_tpl_str_is(a[1], "ceil");
    if (!common && !up && !tr_tpl_str_is(a[1], "floor"))
        tr_tpl_fail(vm, "method must be common, ceil or floor");
    if (!tpl_is_number(v))
        tr_tpl_fail_type(vm, v, "cannot round an object of type");
    if (common && tpl_is_integer(v))
        return round_int(vm, tpl_integer(v), digits);
    double f = tpl_number(v);
    if (digits < -300 || digits > 300)
        tr_tpl_fail(vm, "round: precision out of range");
    if (!common) {
        double unit = pow(10, (double)digits), scaled = f * unit;
        double whole = up ? ceil(scaled) : floor(scaled);
        return tpl_float((whole + 0.0) / unit); /* + 0.0: an integer has no negative zero */
    }
    if (digits < 0) {
        double unit = pow(10, (double)-digits);
        return tpl_float(rint(f / unit) * unit);
    }
    char text[TPL_FLOAT_CHARS + 320];
    snprintf(text, sizeof text, "%.*f", (int)digits, f);
    return tpl_float(strtod(text, NULL));
}

static const struct tpl_filter own_filters[] = {
    {"abs", "", 0, f_abs, NULL},
    {"capitalize", "", 0, f_capitalize, NULL},
    {"count", "", 0, f_length, NULL},
    {"d", "default_value,boolean", 0, f_default, NULL},
    {"default", "default_value,boolean", 0, f_default, NULL},
    {"e", "", 0, f_escape, NULL},
    {"escape", "", 0, f_escape, NULL},
    {"float", "default", 0, f_float, NULL},
    {"format", NULL, 0, NULL, f_format},
    {"from_json", "", 0, f_from_json, NULL},
    {"indent", "width,first,blank", 0, f_indent, NULL},
    {"int", "default,base", 0, f_int, NULL},
    {"length", "", 0, f_length, NULL},
    {"lower", "", 0, f_lower, NULL},
    {"replace", "old,new,count", 2, f_replace, NULL},
    {"round", "precision,method", 0, f_round, NULL},
    {"safe", "", 0, f_safe, NULL},
    {"string", "", 0, f_string, NULL},
    {"title", "", 0, f_title, NULL},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, f_tojson, NULL},
    {"trim", "chars", 0, f_trim, NULL},
    {"upper", "", 0, f_upper, NULL},
};

/* Ids count through both tables. */
static const struct tpl_filter *filter_by_id(int id)
{
    size_t n = TR_ARRAY_LEN(own_filters);
    return (size_t)id < n ? &own_filters[id] : &tr_tpl_sequence_filters[(size_t)id - n];
}

int tr_tpl_filter_find(const struct tpl_str *name)
{
    for (int id = 0; (size_t)id < TR_ARRAY_LEN(own_filters) + tr_tpl_n_sequence_filters; id++) {
        const char *s = filter_by_id(id)->name;
        if (strlen(s) == name->n && memcmp(s, name->s, name->n) == 0)
            return id;
    }
    return -1;
}

struct tpl_value tr_tpl_filter(struct tpl_vm *vm, int id, struct tpl_value v,
                               const struct tpl_args *args)
{
    const struct tpl_filter *filter = filter_by_id(id);
    if (filter->run_raw)
        return filter->run_raw(vm, v, args);
    struct tpl_value a[TPL_MAX_PARAMS];
    tr_tpl_bind(vm, args, filter->name, filter->params, filter->required, a);
    return filter->run(vm, v, a);
}
