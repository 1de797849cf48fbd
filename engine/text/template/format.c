/* Python's two ways to format a string: "..." % values and "...".format(values). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 300 };

/* How one value is to be laid out. */
struct spec {
    char align; /* < > ^ = or 0 for the type's own */
    char sign;  /* + - or blank, 0 = not given: as - */
    bool alternate, zero;
    char grouping; /* , or _ or 0 */
    char type;     /* conversion letter, 0 if none */
    int width;
    int precision; /* -1 = none */
    char fill[4];  /* UTF-8 */
    size_t fill_bytes;
};

static const struct spec plain_spec = {.precision = -1, .fill = {' '}, .fill_bytes = 1};

/* Puts the text, which is the part of the text in the making above the mark, in its field. prefix
 * bytes (sign, 0x) stay in front of zeros. */
static void lay_out(struct tpl_vm *vm, size_t mark, const struct spec *spec, char align,
                    size_t prefix)
{
    struct tpl_value v = tr_tpl_cut(vm, mark);
    struct tpl_str *s = v.u.str;
    size_t chars = tr_tpl_chars(s);
    size_t room = (size_t)spec->width > chars ? (size_t)spec->width - chars : 0;
    size_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
    if (align == '=')
        tr_tpl_put_part(vm, s, 0, prefix);
    tr_tpl_put_times(vm, spec->fill, spec->fill_bytes, left, TPL_TEMPLATE);
    tr_tpl_put_part(vm, s, align == '=' ? prefix : 0, s->n);
    tr_tpl_put_times(vm, spec->fill, spec->fill_bytes, room - left, TPL_TEMPLATE);
}

static char field_align(const struct spec *spec, char own)
{
    return spec->align ? spec->align : own;
}

/* A string, cut to the precision. */
static void put_text(struct tpl_vm *vm, struct tpl_value v, const struct spec *spec)
{
    size_t mark = vm->text.len;
    struct tpl_str *s = v.u.str;
    size_t end = spec->precision >= 0 ? tr_tpl_offset(s, (size_t)spec->precision) : s->n;
    tr_tpl_put_part(vm, s, 0, end);
    lay_out(vm, mark, spec, field_align(spec, '<'), 0);
}

/* Digits with a separator every `every` of them. */
static void put_grouped(struct tpl_vm *vm, const char *digits, size_t n, char grouping,
                        size_t every)
{
    for (size_t i = 0; i < n; i++) {
        if (grouping && i && (n - i) % every == 0)
            tr_tpl_put(vm, &grouping, 1, TPL_TEMPLATE);
        tr_tpl_put(vm, digits + i, 1, TPL_TEMPLATE);
    }
}

static size_t put_sign(struct tpl_vm *vm, bool negative, const struct spec *spec)
{
    if (!negative && (!spec->sign || spec->sign == '-'))
        return 0;
    char c = negative ? '-' : spec->sign;
    tr_tpl_put(vm, &c, 1, TPL_TEMPLATE);
    return 1;
}

static void put_int(struct tpl_vm *vm, int64_t i, const struct spec *spec)
{
    char digits[72];
    uint64_t u = i < 0 ? -(uint64_t)i : (uint64_t)i;
    char type = spec->type ? spec->type : 'd';
    size_t n = 0;
    switch (type) {
    case 'x':
        n = (size_t)snprintf(digits, sizeof digits, "%" PRIx64, u);
        break;
    case 'X':
        n = (size_t)snprintf(digits, sizeof digits, "%" PRIX64, u);
        break;
    case 'o':
        n = (size_t)snprintf(digits, sizeof digits, "%" PRIo64, u);
        break;
    case 'b':
        for (int bit = u ? 63 - __builtin_clzll(u) : 0; bit >= 0; bit--)
            digits[n++] = (char)('0' + (u >> bit & 1));
        break;
    default:
        n = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, u);
        break;
    }
    size_t mark = vm->text.len, prefix = put_sign(vm, i < 0, spec);
    if (spec->alternate && type != 'd') {
        char base[2] = {'0', type};
        tr_tpl_put(vm, base, 2, TPL_TEMPLATE);
        prefix += 2;
    }
    for (size_t k = n; spec->precision > 0 && k < (size_t)spec->precision; k++)
        tr_tpl_put(vm, "0", 1, TPL_TEMPLATE);
    put_grouped(vm, digits, n, spec->grouping, type == 'd' ? 3 : 4);
    lay_out(vm, mark, spec, field_align(spec, '>'), prefix);
}

static void put_float(struct tpl_vm *vm, double f, const struct spec *spec)
{
    char text[TPL_FLOAT_CHARS + MAX_PRECISION], format[] = "%.*f";
    char type = spec->type;
    double magnitude = fabs(f);
    if (type == '%') {
        magnitude *= 100;
        format[3] = 'f';
    } else if (type) {
        format[3] = type;
    }
    int precision = spec->precision >= 0 ? spec->precision : 6;
    if (!type && spec->precision < 0) {
        tr_tpl_float_text(magnitude, text);
    } else if (!type) { /* as g, but with a digit after the point */
        snprintf(text, sizeof text, "%.*g", precision ? precision : 1, magnitude);
        if (!strpbrk(text, ".en"))
            strcat(text, ".0");
    } else if (format[3] == 'e' || format[3] == 'E') {
        snprintf(text, sizeof text, type == 'e' ? "%.*e" : "%.*E", precision, magnitude);
    } else if (format[3] == 'g' || format[3] == 'G') {
        snprintf(text, sizeof text, type == 'g' ? "%.*g" : "%.*G", precision, magnitude);
    } else {
        snprintf(text, sizeof text, "%.*f", precision, magnitude);
    }
    size_t mark = vm->text.len, prefix = put_sign(vm, signbit(f), spec);
    size_t whole = strspn(text, "0123456789");
    put_grouped(vm, text, whole, spec->grouping, 3);
    tr_tpl_puts(vm, text + whole, TPL_TEMPLATE);
    if (type == '%')
        tr_tpl_puts(vm, "%", TPL_TEMPLATE);
    lay_out(vm, mark, spec, field_align(spec, '>'), prefix);
}

/* Reads digits at s[*at] as a number that is not above max. */
static bool number(const struct tpl_str *s, size_t *at, int max, int *ret)
{
    int n = 0;
    for (; *at < s->n && s->s[*at] >= '0' && s->s[*at] <= '9'; ++*at) {
        n = n * 10 + (s->s[*at] - '0');
        if (n > max)
            return false;
    }
    *ret = n;
    return true;
}

/* "..." % values */

struct percent {
    struct tpl_vm *vm;
    const struct tpl_str *s;
    struct tpl_value values;
    const struct tpl_list *list; /* of a tuple */
    uint32_t used;
    bool keyed; /* a %(name) was seen */
};

static struct tpl_value next_value(struct percent *p)
{
    uint32_t i = p->used++;
    if (p->list ? i < p->list->n : i == 0)
        return p->list ? p->list->v[i] : p->values;
    tr_tpl_fail(p->vm, "not enough arguments for format string");
}

static struct tpl_value keyed_value(struct percent *p, size_t *at)
{
    size_t begin = ++*at;
    for (int depth = 1; depth; ++*at) {
        if (*at >= p->s->n)
            tr_tpl_fail(p->vm, "incomplete format key");
        depth += (p->s->s[*at] == '(') - (p->s->s[*at] == ')');
    }
    if (p->values.type != TPL_DICT)
        tr_tpl_fail(p->vm, "format requires a mapping");
    struct tpl_value key = tr_tpl_part(p->vm, p->s, begin, *at - 1);
    const struct tpl_value *v = tr_tpl_dict_get(p->vm, p->values.u.dict, key);
    if (!v)
        tr_tpl_fail(p->vm, "the format's mapping has no key '%.*s'", (int)TR_MIN(key.u.str->n, 64u),
                    key.u.str->s);
    p->keyed = true;
    return *v;
}

/* A width or precision: digits, or * for the next value. */
static int measure(struct percent *p, size_t *at, int max)
{
    int n = 0;
    if (*at < p->s->n && p->s->s[*at] == '*') {
        ++*at;
        int64_t given = tr_tpl_arg_int(p->vm, next_value(p), "width or precision");
        if (given > max || given < -max)
            tr_tpl_fail(p->vm, "width or precision too big");
        return (int)given;
    }
    if (!number(p->s, at, max, &n))
        tr_tpl_fail(p->vm, "width or precision too big");
    return n;
}

static void percent_number(struct tpl_vm *vm, struct tpl_value v, struct spec *spec)
{
    bool integer = strchr("diuxXo", spec->type) != NULL;
    if (!tpl_is_number(v) || (v.type == TPL_FLOAT && strchr("xXo", spec->type)))
        tr_tpl_fail_type(vm, v, "a format for numbers got");
    if (spec->align != '<' && spec->zero) {
        spec->align = '=';
        spec->fill[0] = '0';
    }
    if (!integer) {
        if (!spec->type)
            spec->type = 'g';
        put_float(vm, tpl_number(v), spec);
        return;
    }
    if (strchr("diu", spec->type))
        spec->type = 'd';
    if (v.type == TPL_FLOAT) {
        if (!(fabs(v.u.f) < 0x1p63))
            tr_tpl_fail(vm, "integer beyond 64 bits");
        v = tpl_int((int64_t)v.u.f);
    }
    put_int(vm, tpl_integer(v), spec);
}

static void percent_char(struct tpl_vm *vm, struct tpl_value v, const struct spec *spec)
{
    if (v.type == TPL_STR && tr_tpl_chars(v.u.str) == 1) {
        put_text(vm, v, spec);
        return;
    }
    int64_t c = tpl_is_integer(v) ? tpl_integer(v) : -1;
    if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        tr_tpl_fail(vm, "%%c requires int or char");
    size_t mark = vm->text.len;
    tr_tpl_put_char(vm, (uint32_t)c, TPL_TEMPLATE);
    put_text(vm, tr_tpl_cut(vm, mark), spec);
}

/* One conversion; *at is past the percent sign, and past the letter on return. */
static void convert(struct percent *p, size_t *at)
{
    struct tpl_vm *vm = p->vm;
    const struct tpl_str *s = p->s;
    struct spec spec = plain_spec;
    struct tpl_value v = {.type = TPL_ABSENT};
    if (*at < s->n && s->s[*at] == '(')
        v = keyed_value(p, at);
    for (; *at < s->n && s->s[*at] && strchr("-+ #0", s->s[*at]); ++*at) {
        char flag = s->s[*at];
        spec.align = flag == '-' ? '<' : spec.align;
        spec.sign = flag == '+' || (flag == ' ' && spec.sign != '+') ? flag : spec.sign;
        spec.alternate |= flag == '#';
        spec.zero |= flag == '0';
    }
    spec.width = measure(p, at, MAX_WIDTH);
    if (spec.width < 0) {
        spec.align = '<';
        spec.width = -spec.width;
    }
    if (*at < s->n && s->s[*at] == '.') {
        ++*at;
        spec.precision = measure(p, at, MAX_PRECISION);
        spec.precision = TR_MAX(spec.precision, 0);
    }
    while (*at < s->n && s->s[*at] && strchr("hlL", s->s[*at]))
        ++*at;
    if (*at >= s->n)
        tr_tpl_fail(vm, "incomplete format");
    char type = s->s[(*at)++];
    if (type == '%') {
        tr_tpl_puts(vm, "%", TPL_TEMPLATE);
        return;
    }
    if (!type || !strchr("sradiuxXoeEfFgGc", type))
        tr_tpl_fail(vm, "unsupported format character");
    if (!tpl_given(v))
        v = next_value(p);
    spec.type = type;
    if (!spec.align)
        spec.align = '>';
    if (strchr("sra", type)) {
        size_t mark = vm->text.len;
        if (type == 's')
            tr_tpl_put_value(vm, v);
        else
            tr_tpl_put_repr(vm, v);
        put_text(vm, tr_tpl_cut(vm, mark), &spec);
    } else if (type == 'c') {
        percent_char(vm, v, &spec);
    } else {
        percent_number(vm, v, &spec);
    }
}

struct tpl_value tr_tpl_percent(struct tpl_vm *vm, const struct tpl_str *s, struct tpl_value values)
{
    struct percent p = {.vm = vm, .s = s, .values = values};
    if (values.type == TPL_TUPLE)
        p.list = values.u.list;
    size_t mark = vm->text.len;
    for (size_t at = 0; at < s->n;) {
        const char *sign = memchr(s->s + at, '%', s->n - at);
        size_t end = sign ? (size_t)(sign - s->s) : s->n;
        tr_tpl_put_part(vm, s, at, end);
        at = end + 1;
        if (sign)
            convert(&p, &at);
    }
    bool mapping = values.type == TPL_DICT || values.type == TPL_LIST || values.type == TPL_RANGE ||
                   values.type == TPL_UNDEFINED;
    if (p.list ? p.used < p.list->n && !p.keyed : p.used == 0 && !p.keyed && !mapping)
        tr_tpl_fail(vm, "not all arguments converted during string formatting");
    return tr_tpl_cut(vm, mark);
}

/* "...".format(...) */

struct formatter {
    struct tpl_vm *vm;
    const struct tpl_args *args;
    uint32_t next; /* automatic numbering */
    bool automatic, manual;
};

static struct tpl_value argument(struct formatter *f, const struct tpl_str *s, size_t from,
                                 size_t to)
{
    struct tpl_vm *vm = f->vm;
    int index = 0;
    size_t at = from;
    if (from == to) {
        index = (int)f->next++;
        f->automatic = true;
    } else if (number(s, &at, 1000000, &index) && at == to) {
        f->manual = true;
    } else {
        struct tpl_value name = tr_tpl_part(vm, s, from, to);
        for (uint32_t i = 0; i < f->args->n_named; i++)
            if (tr_tpl_equal(vm, f->args->named[i].key, name))
                return f->args->named[i].value;
        tr_tpl_fail(vm, "format: no argument '%.*s'", (int)TR_MIN(to - from, (size_t)64),
                    s->s + from);
    }
    if (f->automatic && f->manual)
        tr_tpl_fail(vm, "cannot switch between manual and automatic field numbering");
    if ((uint32_t)index >= f->args->n)
        tr_tpl_fail(vm, "Replacement index %d out of range for positional args tuple", index);
    return f->args->v[index];
}

/* name, then .attribute and [element] steps */
static struct tpl_value field_value(struct formatter *f, const struct tpl_str *s, size_t from,
                                    size_t to)
{
    struct tpl_vm *vm = f->vm;
    size_t at = from;
    while (at < to && s->s[at] != '.' && s->s[at] != '[')
        at++;
    struct tpl_value v = argument(f, s, from, at);
    while (at < to) {
        bool element = s->s[at] == '[';
        size_t begin = ++at;
        while (at < to && (element ? s->s[at] != ']' : s->s[at] != '.' && s->s[at] != '['))
            at++;
        if (at == begin || (element && at == to))
            tr_tpl_fail(vm, "format: bad field name");
        size_t digits = begin;
        int index = 0;
        if (!element)
            v = tr_tpl_attr(vm, v, tr_tpl_part(vm, s, begin, at));
        else if (number(s, &digits, 1000000, &index) && digits == at)
            v = tr_tpl_item(vm, v, tpl_int(index));
        else
            v = tr_tpl_item(vm, v, tr_tpl_part(vm, s, begin, at));
        at += element;
    }
    return v;
}

static struct spec parse_spec(struct tpl_vm *vm, const struct tpl_str *s)
{
    struct spec spec = plain_spec;
    size_t at = 0, n = s->n ? tr_uni_skip(s->s, s->n, 1) : 0;
    if (s->n > n && s->s[n] && strchr("<>^=", s->s[n])) {
        memcpy(spec.fill, s->s, n);
        spec.fill_bytes = n;
        spec.align = s->s[n];
        at = n + 1;
    } else if (s->n && s->s[0] && strchr("<>^=", s->s[0])) {
        spec.align = s->s[0];
        at = 1;
    }
    if (at < s->n && s->s[at] && strchr("+- ", s->s[at]))
        spec.sign = s->s[at++];
    if (at < s->n && s->s[at] == '#')
        at++, spec.alternate = true;
    if (at < s->n && s->s[at] == '0') {
        at++;
        if (!spec.align) {
            spec.align = '=';
            spec.fill[0] = '0';
            spec.zero = true;
        }
    }
    bool fits = number(s, &at, MAX_WIDTH, &spec.width);
    if (fits && at < s->n && (s->s[at] == ',' || s->s[at] == '_'))
        spec.grouping = s->s[at++];
    if (fits && at < s->n && s->s[at] == '.') {
        size_t begin = ++at;
        fits = number(s, &at, MAX_PRECISION, &spec.precision) && at > begin;
    }
    if (fits && at < s->n)
        spec.type = s->s[at++];
    if (!fits || at < s->n)
        tr_tpl_fail(vm, "Invalid format specifier");
    return spec;
}

static void put_field(struct tpl_vm *vm, struct tpl_value v, const struct tpl_str *spec_text)
{
    if (spec_text->n == 0) {
        tr_tpl_put_value(vm, v);
        return;
    }
    struct spec spec = parse_spec(vm, spec_text);
    bool for_text = (!spec.type || spec.type == 's') && !spec.sign && !spec.grouping &&
                    !spec.alternate && (spec.align != '=' || spec.zero);
    if (v.type == TPL_STR && for_text) {
        if (spec.align == '=')
            spec.align = '<';
        put_text(vm, v, &spec);
    } else if (tpl_is_integer(v) && (!spec.type || strchr("dxXobn", spec.type))) {
        put_int(vm, tpl_integer(v), &spec);
    } else if (tpl_is_number(v) && (!spec.type || strchr("eEfFgG%", spec.type))) {
        put_float(vm, tpl_number(v), &spec);
    } else {
        tr_tpl_fail_type(vm, v, "this format does not fit an object of type");
    }
}

static void format_into(struct formatter *f, const struct tpl_str *s, int depth);

/* One replacement field: s[from..to) is what stands between the braces. */
static void field(struct formatter *f, const struct tpl_str *s, size_t from, size_t to, int depth)
{
    struct tpl_vm *vm = f->vm;
    size_t name_end = from;
    for (bool inside = false; name_end < to; name_end++) {
        inside = s->s[name_end] == '[' || (inside && s->s[name_end] != ']');
        if (!inside && (s->s[name_end] == ':' || s->s[name_end] == '!'))
            break;
    }
    struct tpl_value v = field_value(f, s, from, name_end);
    size_t at = name_end;
    if (at < to && s->s[at] == '!') {
        char conversion = at + 1 < to ? s->s[at + 1] : 0;
        if (!conversion || !strchr("sra", conversion) || (at + 2 < to && s->s[at + 2] != ':'))
            tr_tpl_fail(vm, "Unknown conversion specifier");
        size_t mark = vm->text.len;
        if (conversion == 's')
            tr_tpl_put_value(vm, v);
        else
            tr_tpl_put_repr(vm, v);
        v = tr_tpl_cut(vm, mark);
        at += 2;
    }
    at += at < to;
    size_t mark = vm->text.len;
    struct tpl_value spec = tr_tpl_part(vm, s, at, to);
    format_into(f, spec.u.str, depth + 1);
    spec = tr_tpl_cut(vm, mark);
    put_field(vm, v, spec.u.str);
}

static void format_into(struct formatter *f, const struct tpl_str *s, int depth)
{
    struct tpl_vm *vm = f->vm;
    if (depth > 2)
        tr_tpl_fail(vm, "Max string recursion exceeded");
    for (size_t at = 0; at < s->n;) {
        size_t end = at;
        while (end < s->n && s->s[end] != '{' && s->s[end] != '}')
            end++;
        tr_tpl_put_part(vm, s, at, end);
        if (end == s->n)
            return;
        if (end + 1 < s->n && s->s[end + 1] == s->s[end]) {
            tr_tpl_put_part(vm, s, end, end + 1);
            at = end + 2;
            continue;
        }
        if (s->s[end] == '}')
            tr_tpl_fail(vm, "Single '}' encountered in format string");
        size_t close = end + 1;
        for (int braces = 1; close < s->n; close++) {
            braces += (s->s[close] == '{') - (s->s[close] == '}');
            if (braces == 0)
                break;
        }
        if (close >= s->n)
            tr_tpl_fail(vm, "expected '}' before end of string");
        field(f, s, end + 1, close, depth);
        at = close + 1;
    }
}

struct tpl_value tr_tpl_format(struct tpl_vm *vm, const struct tpl_str *s,
                               const struct tpl_args *args)
{
    struct formatter f = {.vm = vm, .args = args};
    size_t mark = vm->text.len;
    format_into(&f, s, 0);
    return tr_tpl_cut(vm, mark);
}
