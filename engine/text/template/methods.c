/* Methods of strings, lists, dicts and the loop. The set of names is closed: any other method call
 * is refused when the template is loaded. */
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"

enum method {
    M_CASE, /* upper ... swapcase: `how` says which */
    M_STRIP,
    M_IS,
    M_PAD,
    M_FIND,
    M_AFFIX,
    M_REMOVE,
    M_COUNT,
    M_FORMAT,
    M_JOIN,
    M_PARTITION,
    M_REPLACE,
    M_SPLIT,
    M_SPLITLINES,
    M_LIST_COUNT,
    M_LIST_INDEX,
    M_COPY,
    M_GET,
    M_VIEW,
    M_CYCLE,
    M_CHANGED,
    M_NEXT,
    M_RESET,
    M_MUTATES
};

#define OF(type) (1u << (type))

static const struct {
    const char *name;
    uint8_t method; /* enum method */
    char how;       /* what tells the methods of one family apart */
    uint32_t types; /* it is a method of these */
} methods[] = {
    {"upper", M_CASE, 'u', OF(TPL_STR)},
    {"lower", M_CASE, 'l', OF(TPL_STR)},
    {"casefold", M_CASE, 'l', OF(TPL_STR)},
    {"capitalize", M_CASE, 'c', OF(TPL_STR)},
    {"title", M_CASE, 't', OF(TPL_STR)},
    {"swapcase", M_CASE, 's', OF(TPL_STR)},
    {"lstrip", M_STRIP, 1, OF(TPL_STR)},
    {"rstrip", M_STRIP, 2, OF(TPL_STR)},
    {"strip", M_STRIP, 3, OF(TPL_STR)},
    {"isalnum", M_IS, 'w', OF(TPL_STR)},
    {"isalpha", M_IS, 'a', OF(TPL_STR)},
    {"isascii", M_IS, '7', OF(TPL_STR)},
    {"isdecimal", M_IS, '0', OF(TPL_STR)},
    {"isdigit", M_IS, 'd', OF(TPL_STR)},
    {"islower", M_IS, 'l', OF(TPL_STR)},
    {"isnumeric", M_IS, 'n', OF(TPL_STR)},
    {"isprintable", M_IS, 'p', OF(TPL_STR)},
    {"isspace", M_IS, 's', OF(TPL_STR)},
    {"isupper", M_IS, 'u', OF(TPL_STR)},
    {"center", M_PAD, 'c', OF(TPL_STR)},
    {"ljust", M_PAD, 'l', OF(TPL_STR)},
    {"rjust", M_PAD, 'r', OF(TPL_STR)},
    {"zfill", M_PAD, 'z', OF(TPL_STR)},
    {"find", M_FIND, 'f', OF(TPL_STR)},
    {"index", M_FIND, 'i', OF(TPL_STR)},
    {"rfind", M_FIND, 'F', OF(TPL_STR)},
    {"rindex", M_FIND, 'I', OF(TPL_STR)},
    {"startswith", M_AFFIX, 's', OF(TPL_STR)},
    {"endswith", M_AFFIX, 'e', OF(TPL_STR)},
    {"removeprefix", M_REMOVE, 's', OF(TPL_STR)},
    {"removesuffix", M_REMOVE, 'e', OF(TPL_STR)},
    {"count", M_COUNT, 0, OF(TPL_STR)},
    {"format", M_FORMAT, 0, OF(TPL_STR)},
    {"join", M_JOIN, 0, OF(TPL_STR)},
    {"partition", M_PARTITION, 'l', OF(TPL_STR)},
    {"rpartition", M_PARTITION, 'r', OF(TPL_STR)},
    {"replace", M_REPLACE, 0, OF(TPL_STR)},
    {"split", M_SPLIT, 'l', OF(TPL_STR)},
    {"rsplit", M_SPLIT, 'r', OF(TPL_STR)},
    {"splitlines", M_SPLITLINES, 0, OF(TPL_STR)},
    {"count", M_LIST_COUNT, 0, OF(TPL_LIST) | OF(TPL_TUPLE) | OF(TPL_RANGE)},
    {"index", M_LIST_INDEX, 0, OF(TPL_LIST) | OF(TPL_TUPLE) | OF(TPL_RANGE)},
    {"copy", M_COPY, 0, OF(TPL_LIST) | OF(TPL_DICT)},
    {"get", M_GET, 0, OF(TPL_DICT)},
    {"keys", M_VIEW, TPL_KEYS, OF(TPL_DICT)},
    {"values", M_VIEW, TPL_VALUES, OF(TPL_DICT)},
    {"items", M_VIEW, TPL_ITEMS, OF(TPL_DICT)},
    {"cycle", M_CYCLE, 0, OF(TPL_LOOP)},
    {"changed", M_CHANGED, 0, OF(TPL_LOOP)},
    {"next", M_NEXT, 0, OF(TPL_CYCLER)},
    {"reset", M_RESET, 0, OF(TPL_CYCLER)},
    {"append", M_MUTATES, 0, OF(TPL_LIST)},
    {"clear", M_MUTATES, 0, OF(TPL_LIST) | OF(TPL_DICT)},
    {"extend", M_MUTATES, 0, OF(TPL_LIST)},
    {"insert", M_MUTATES, 0, OF(TPL_LIST)},
    {"pop", M_MUTATES, 0, OF(TPL_LIST) | OF(TPL_DICT)},
    {"popitem", M_MUTATES, 0, OF(TPL_DICT)},
    {"remove", M_MUTATES, 0, OF(TPL_LIST)},
    {"reverse", M_MUTATES, 0, OF(TPL_LIST)},
    {"setdefault", M_MUTATES, 0, OF(TPL_DICT)},
    {"sort", M_MUTATES, 0, OF(TPL_LIST)},
    {"update", M_MUTATES, 0, OF(TPL_DICT)},
};

static bool is_named(const struct tpl_str *name, const char *s)
{
    return strlen(s) == name->n && memcmp(s, name->s, name->n) == 0;
}

int tr_tpl_method_find(struct tpl_value v, const struct tpl_str *name, bool *ret_mutates)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(methods); i++) {
        if ((methods[i].types & OF(v.type)) && is_named(name, methods[i].name)) {
            *ret_mutates = methods[i].method == M_MUTATES;
            return (int)i;
        }
    }
    return -1;
}

bool tr_tpl_method_known(const struct tpl_str *name)
{
    bool mutates;
    for (uint8_t type = 0; type <= TPL_JOINER; type++)
        if (tr_tpl_method_find((struct tpl_value){.type = type}, name, &mutates) >= 0)
            return true;
    return false;
}

static bool is_class(uint32_t c, char how)
{
    switch (how) {
    case 'a':
        return tr_uni_alpha(c);
    case '7':
        return c < 0x80;
    case '0':
        return tr_uni_decimal(c);
    case 'd':
        return tr_uni_digit(c);
    case 'n':
        return tr_uni_numeric(c);
    case 'p':
        return tr_uni_printable(c);
    case 's':
        return tr_uni_space(c);
    default:
        return tr_uni_alpha(c) || tr_uni_numeric(c);
    }
}

/* islower and isupper: at least one cased character, and none of the other case. */
static bool is_case(const struct tpl_str *s, char how)
{
    struct tpl_reader reader = {.s = s};
    uint32_t c, out[3];
    enum tpl_origin origin;
    bool any = false;
    while (tr_tpl_read(&reader, &c, &origin)) {
        bool has_upper = tr_uni_map(c, TR_UNI_UPPER, out) != 1 || out[0] != c;
        bool has_lower = tr_uni_map(c, TR_UNI_LOWER, out) != 1 || out[0] != c;
        if (how == 'l' ? has_lower : has_upper)
            return false;
        any |= (how == 'l' ? has_upper : has_lower) || tr_uni_cased(c);
    }
    return any;
}

static struct tpl_value is(const struct tpl_str *s, char how)
{
    if (how == 'l' || how == 'u')
        return tpl_bool(is_case(s, how));
    struct tpl_reader reader = {.s = s};
    uint32_t c;
    enum tpl_origin origin;
    while (tr_tpl_read(&reader, &c, &origin))
        if (!is_class(c, how))
            return tpl_bool(false);
    return tpl_bool(s->n > 0 || how == '7' || how == 'p');
}

static struct tpl_value pad(struct tpl_vm *vm, struct tpl_str *s, char how,
                            const struct tpl_value *a)
{
    int64_t width = tr_tpl_arg_int(vm, a[0], "width"), n = (int64_t)tr_tpl_chars(s);
    struct tpl_str *fill = tpl_given(a[1]) ? tr_tpl_arg_str(vm, a[1], "fillchar")
                                           : tr_tpl_literal(vm, how == 'z' ? "0" : " ").u.str;
    if (tr_tpl_chars(fill) != 1)
        tr_tpl_fail(vm, "The fill character must be exactly one character long");
    if (width <= n)
        return tpl_of_str(s);
    int64_t total = width - n;
    if (total > TPL_MAX_OUTPUT)
        tr_tpl_fail(vm, "template limit: output");
    /* Python's centre leans left, except for odd padding of an odd width. */
    int64_t left = how == 'l' ? 0 : how == 'c' ? total / 2 + (total & width & 1) : total;
    enum tpl_origin fill_origin = tr_tpl_origin_at(fill, 0);
    size_t mark = vm->text.len, sign = how == 'z' && s->n && (*s->s == '-' || *s->s == '+');
    tr_tpl_put_part(vm, s, 0, sign);
    tr_tpl_put_times(vm, fill->s, fill->n, (size_t)left, fill_origin);
    tr_tpl_put_part(vm, s, sign, s->n);
    tr_tpl_put_times(vm, fill->s, fill->n, (size_t)(total - left), fill_origin);
    return tr_tpl_cut(vm, mark);
}

/* Byte range of the optional start and end arguments (code points, as slices take them); false if
 * the start is beyond the string. */
static bool span(struct tpl_vm *vm, struct tpl_str *s, const struct tpl_value *a, size_t *ret_from,
                 size_t *ret_to)
{
    int64_t n = (int64_t)tr_tpl_chars(s), edge[2] = {0, n};
    for (int i = 0; i < 2; i++) {
        if (!tpl_set(a[i]))
            continue;
        edge[i] = tr_tpl_arg_int(vm, a[i], "index");
        if (edge[i] < 0)
            edge[i] = TR_MAX(edge[i] < -n ? 0 : edge[i] + n, 0);
    }
    if (edge[0] > n || edge[0] > TR_MIN(edge[1], n))
        return false;
    *ret_from = tr_tpl_offset(s, (size_t)edge[0]);
    *ret_to = tr_tpl_offset(s, (size_t)TR_MIN(edge[1], n));
    return true;
}

static struct tpl_value find(struct tpl_vm *vm, struct tpl_str *s, char how,
                             const struct tpl_value *a)
{
    const struct tpl_str *what = tr_tpl_arg_str(vm, a[0], "argument");
    size_t from, to;
    int64_t at = -1;
    if (span(vm, s, a + 1, &from, &to))
        at = how == 'f' || how == 'i' ? tr_tpl_find(vm, s, from, to, what)
                                      : tr_tpl_rfind(vm, s, from, to, what);
    if (at < 0 && (how == 'i' || how == 'I'))
        tr_tpl_fail(vm, "substring not found");
    return tpl_int(at < 0 ? -1 : (int64_t)tr_uni_count(s->s, (size_t)at));
}

static bool has_affix(const struct tpl_str *s, size_t from, size_t to, const struct tpl_str *affix,
                      char how)
{
    if (affix->n > to - from)
        return false;
    size_t at = how == 's' ? from : to - affix->n;
    return memcmp(s->s + at, affix->s, affix->n) == 0;
}

static struct tpl_value affix(struct tpl_vm *vm, struct tpl_str *s, char how,
                              const struct tpl_value *a)
{
    size_t from, to;
    bool inside = span(vm, s, a + 1, &from, &to);
    if (a[0].type != TPL_TUPLE) {
        const struct tpl_str *one = tr_tpl_arg_str(vm, a[0], "argument");
        return tpl_bool(inside && has_affix(s, from, to, one, how));
    }
    for (uint32_t i = 0; i < a[0].u.list->n; i++) {
        const struct tpl_str *one = tr_tpl_arg_str(vm, a[0].u.list->v[i], "tuple element");
        if (inside && has_affix(s, from, to, one, how))
            return tpl_bool(true);
    }
    return tpl_bool(false);
}

static struct tpl_value remove_affix(struct tpl_vm *vm, struct tpl_str *s, char how,
                                     const struct tpl_value *a)
{
    const struct tpl_str *what = tr_tpl_arg_str(vm, a[0], "argument");
    if (what->n == 0 || !has_affix(s, 0, s->n, what, how))
        return tpl_of_str(s);
    return how == 's' ? tr_tpl_part(vm, s, what->n, s->n) : tr_tpl_part(vm, s, 0, s->n - what->n);
}

static struct tpl_value count(struct tpl_vm *vm, struct tpl_str *s, const struct tpl_value *a)
{
    const struct tpl_str *what = tr_tpl_arg_str(vm, a[0], "argument");
    size_t from, to;
    if (!span(vm, s, a + 1, &from, &to))
        return tpl_int(0);
    if (what->n == 0)
        return tpl_int((int64_t)tr_uni_count(s->s + from, to - from) + 1);
    int64_t n = 0;
    tr_tpl_spend(vm, (to - from) / 64);
    for (const char *p; (p = memmem(s->s + from, to - from, what->s, what->n)); n++)
        from = (size_t)(p - s->s) + what->n;
    return tpl_int(n);
}

static struct tpl_value join(struct tpl_vm *vm, const struct tpl_str *s, struct tpl_value items)
{
    struct tpl_cursor c = tr_tpl_iterate(vm, items);
    struct tpl_value v;
    size_t mark = vm->text.len;
    for (uint64_t i = 0; tr_tpl_next(vm, &c, &v); i++) {
        if (s->markup)
            v = tr_tpl_escape(vm, v);
        if (v.type != TPL_STR)
            tr_tpl_fail(vm, "sequence item %llu: expected str instance, %s found",
                        (unsigned long long)i, tr_tpl_type_name(v));
        if (i)
            tr_tpl_put_str(vm, s);
        tr_tpl_put_str(vm, v.u.str);
    }
    return tr_tpl_with_markup(vm, tr_tpl_cut(vm, mark), s->markup);
}

static struct tpl_value partition(struct tpl_vm *vm, struct tpl_str *s, char how,
                                  const struct tpl_value *a)
{
    const struct tpl_str *sep = tr_tpl_arg_str(vm, a[0], "separator");
    if (sep->n == 0)
        tr_tpl_fail(vm, "empty separator");
    int64_t at = how == 'l' ? tr_tpl_find(vm, s, 0, s->n, sep) : tr_tpl_rfind(vm, s, 0, s->n, sep);
    struct tpl_value v = tr_tpl_list(vm, 3, TPL_TUPLE);
    for (int i = 0; i < 3; i++)
        v.u.list->v[i] = tr_tpl_part(vm, s, 0, 0);
    if (at < 0) {
        v.u.list->v[how == 'l' ? 0 : 2] = tpl_of_str(s);
        return v;
    }
    size_t end = (size_t)at + sep->n;
    v.u.list->v[0] = tr_tpl_part(vm, s, 0, (size_t)at);
    v.u.list->v[1] = tr_tpl_part(vm, s, (size_t)at, end);
    v.u.list->v[2] = tr_tpl_part(vm, s, end, s->n);
    return v;
}

/* The next piece at or after *at (from the left) or before *end (from the right), by white space if
 * sep is NULL; the edges move past it and its separator. last: take all that is left. */
static bool next_piece(struct tpl_vm *vm, const struct tpl_str *s, const struct tpl_str *sep,
                       bool left, bool last, int64_t *at, int64_t *end, size_t *from, size_t *to)
{
    size_t n;
    if (sep) {
        if (*at > *end)
            return false;
        int64_t found = last   ? -1
                        : left ? tr_tpl_find(vm, s, (size_t)*at, (size_t)*end, sep)
                               : tr_tpl_rfind(vm, s, (size_t)*at, (size_t)*end, sep);
        *from = (size_t)(found >= 0 && !left ? found + sep->n : *at);
        *to = (size_t)(found >= 0 && left ? found : *end);
        if (left)
            *at = found >= 0 ? found + sep->n : *end + 1;
        else
            *end = found >= 0 ? found : -1;
        return true;
    }
    struct tpl_str rest = {.s = s->s + *at, .n = (uint32_t)(*end - *at)};
    const struct tpl_str *trimmed = tr_tpl_strip(vm, &rest, NULL, left ? 1 : 2).u.str;
    if (trimmed->n == 0)
        return false;
    *from = (size_t)(trimmed->s - s->s);
    *to = *from + trimmed->n;
    if (!last && left) {
        size_t stop = *from;
        while (stop < *to && !tr_uni_space(tr_uni_decode(s->s + stop, &n)))
            stop += n;
        *to = stop;
    } else if (!last) {
        size_t start = *to;
        while (start > *from) {
            size_t back = *from + tr_uni_last(s->s + *from, start - *from);
            if (tr_uni_space(tr_uni_decode(s->s + back, &n)))
                break;
            start = back;
        }
        *from = start;
    }
    if (left)
        *at = (int64_t)*to;
    else
        *end = (int64_t)*from;
    return true;
}

static struct tpl_value split(struct tpl_vm *vm, struct tpl_str *s, char how,
                              const struct tpl_value *a)
{
    const struct tpl_str *sep = tpl_set(a[0]) ? tr_tpl_arg_str(vm, a[0], "separator") : NULL;
    int64_t max = tpl_given(a[1]) ? tr_tpl_arg_int(vm, a[1], "maxsplit") : -1;
    if (sep && sep->n == 0)
        tr_tpl_fail(vm, "empty separator");
    bool left = how == 'l';
    struct tpl_value list = {0};
    /* First round counts, second fills in. */
    for (int round = 0; round < 2; round++) {
        int64_t at = 0, end = s->n;
        size_t from, to, n = 0;
        while (next_piece(vm, s, sep, left, max >= 0 && (int64_t)n == max, &at, &end, &from, &to)) {
            tr_tpl_spend(vm, 1);
            if (round)
                list.u.list->v[left ? n : list.u.list->n - 1 - n] = tr_tpl_part(vm, s, from, to);
            n++;
        }
        if (!round)
            list = tr_tpl_list(vm, n, TPL_LIST);
    }
    return list;
}

static struct tpl_value list_index(struct tpl_vm *vm, struct tpl_value self, struct tpl_value what,
                                   bool counts)
{
    struct tpl_cursor c = tr_tpl_iterate(vm, self);
    struct tpl_value v;
    int64_t n = 0;
    for (int64_t i = 0; tr_tpl_next(vm, &c, &v); i++) {
        if (!tr_tpl_equal(vm, v, what))
            continue;
        if (!counts)
            return tpl_int(i);
        n++;
    }
    if (!counts)
        tr_tpl_fail(vm, "the value is not in the list");
    return tpl_int(n);
}

static struct tpl_value get(struct tpl_vm *vm, struct tpl_value self, const struct tpl_value *a)
{
    if (!tr_tpl_contains(vm, self, a[0]))
        return tpl_given(a[1]) ? a[1] : tpl_none();
    return *tr_tpl_dict_get(vm, self.u.dict, a[0]);
}

static struct tpl_value next(struct tpl_cycler *c, bool reset)
{
    struct tpl_value v = c->items.v[c->at];
    c->at = reset ? 0 : (c->at + 1) % c->items.n;
    return reset ? tpl_none() : v;
}

/* Parameters of each family; methods that take the arguments as they are have NULL. */
static const struct {
    const char *params;
    int required;
} signatures[] = {[M_CASE] = {"", 0},
                  [M_STRIP] = {"chars", 0},
                  [M_IS] = {"", 0},
                  [M_PAD] = {"width,fill", 1},
                  [M_FIND] = {"sub,start,end", 1},
                  [M_AFFIX] = {"fix,start,end", 1},
                  [M_REMOVE] = {"fix", 1},
                  [M_COUNT] = {"sub,start,end", 1},
                  [M_FORMAT] = {NULL, 0},
                  [M_JOIN] = {"iterable", 1},
                  [M_PARTITION] = {"sep", 1},
                  [M_REPLACE] = {"old,new,count", 2},
                  [M_SPLIT] = {"sep,maxsplit", 0},
                  [M_SPLITLINES] = {"keepends", 0},
                  [M_LIST_COUNT] = {"value", 1},
                  [M_LIST_INDEX] = {"value", 1},
                  [M_COPY] = {"", 0},
                  [M_GET] = {"key,default", 1},
                  [M_VIEW] = {"", 0},
                  [M_CYCLE] = {NULL, 0},
                  [M_CHANGED] = {NULL, 0},
                  [M_NEXT] = {"", 0},
                  [M_RESET] = {"", 0},
                  [M_MUTATES] = {NULL, 0}};

static struct tpl_value call_string(struct tpl_vm *vm, struct tpl_str *s, enum method method,
                                    char how, const struct tpl_value *a)
{
    switch (method) {
    case M_CASE:
        return tr_tpl_change_case(vm, s, how);
    case M_STRIP:
        return tr_tpl_strip(vm, s, tpl_set(a[0]) ? tr_tpl_arg_str(vm, a[0], "chars") : NULL, how);
    case M_IS:
        return is(s, how);
    case M_PAD:
        return pad(vm, s, how, a);
    case M_FIND:
        return find(vm, s, how, a);
    case M_AFFIX:
        return affix(vm, s, how, a);
    case M_REMOVE:
        return remove_affix(vm, s, how, a);
    case M_COUNT:
        return count(vm, s, a);
    case M_JOIN:
        return join(vm, s, a[0]);
    case M_PARTITION:
        return partition(vm, s, how, a);
    case M_REPLACE:
        return tr_tpl_replace(vm, s, tr_tpl_arg_str(vm, a[0], "old"),
                              tr_tpl_arg_str(vm, a[1], "new"),
                              tpl_given(a[2]) ? tr_tpl_arg_int(vm, a[2], "count") : -1);
    case M_SPLIT:
        return split(vm, s, how, a);
    default:
        return tr_tpl_lines(vm, s, tpl_given(a[0]) && tr_tpl_truth(vm, a[0]));
    }
}

struct tpl_value tr_tpl_method_call(struct tpl_vm *vm, const struct tpl_method *m,
                                    const struct tpl_args *args)
{
    enum method method = methods[m->id].method;
    struct tpl_value self = m->self, a[TPL_MAX_PARAMS];
    if (signatures[method].params)
        tr_tpl_bind(vm, args, methods[m->id].name, signatures[method].params,
                    signatures[method].required, a);
    switch (method) {
    case M_FORMAT:
        return tr_tpl_format(vm, self.u.str, args);
    case M_LIST_COUNT:
    case M_LIST_INDEX:
        return list_index(vm, self, a[0], method == M_LIST_COUNT);
    case M_COPY:
        return self;
    case M_GET:
        return get(vm, self, a);
    case M_VIEW:
        self.type = TPL_VIEW;
        self.aux = (uint32_t)methods[m->id].how;
        return self;
    case M_CYCLE:
        return tr_tpl_loop_cycle(vm, self, args);
    case M_CHANGED:
        return tr_tpl_loop_changed(vm, self, args);
    case M_NEXT:
    case M_RESET:
        return next(self.u.cycler, method == M_RESET);
    default:
        return call_string(vm, self.u.str, method, methods[m->id].how, a);
    }
}
