/* Values: making them, comparing them, asking for their truth and length. */
#include "engine/text/template/value.h"

#include <string.h>

#include "engine/text/template/text.h"

enum { SORT_FROM = 9 }; /* members from which a dict gets a sorted index */

struct tpl_value tr_tpl_list(struct tpl_vm *vm, size_t n, enum tpl_type type)
{
    if (n > TPL_MAX_LIST)
        tr_tpl_fail(vm, "template limit: list length");
    tr_tpl_spend(vm, n / 4);
    struct tpl_list *list = tr_tpl_alloc(vm, sizeof *list);
    list->v = tr_tpl_alloc_n(vm, n, sizeof *list->v);
    list->n = (uint32_t)n;
    return (struct tpl_value){.type = (uint8_t)type, .u.list = list};
}

struct tpl_value tr_tpl_pair(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b)
{
    struct tpl_value v = tr_tpl_list(vm, 2, TPL_TUPLE);
    v.u.list->v[0] = a;
    v.u.list->v[1] = b;
    return v;
}

struct tpl_value tr_tpl_stream(struct tpl_vm *vm, struct tpl_value list)
{
    struct tpl_stream *stream = tr_tpl_alloc(vm, sizeof *stream);
    stream->items = *list.u.list;
    return (struct tpl_value){.type = TPL_ITER, .u.iter = stream};
}

static int compare_bytes(const struct tpl_str *a, const struct tpl_str *b)
{
    int c = memcmp(a->s, b->s, TR_MIN(a->n, b->n));
    return c ? (c < 0 ? -1 : 1) : (a->n > b->n) - (a->n < b->n);
}

/* An int64 and a double compare exactly in the 64-bit mantissa of x87. */
static int compare_numbers(struct tpl_value a, struct tpl_value b)
{
    if (tpl_is_integer(a) && tpl_is_integer(b)) {
        int64_t x = tpl_integer(a), y = tpl_integer(b);
        return (x > y) - (x < y);
    }
    long double x = a.type == TPL_FLOAT ? (long double)a.u.f : (long double)tpl_integer(a);
    long double y = b.type == TPL_FLOAT ? (long double)b.u.f : (long double)tpl_integer(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static int key_class(struct tpl_value v)
{
    return tpl_is_number(v) ? 0 : v.type == TPL_STR ? 1 : v.type == TPL_TUPLE ? 2 : 3 + v.type;
}

/* A total order over what can be a key, equal exactly where Python finds the keys equal. */
static int compare_keys(struct tpl_value a, struct tpl_value b)
{
    int ca = key_class(a), cb = key_class(b);
    if (ca != cb)
        return ca < cb ? -1 : 1;
    if (ca == 0)
        return compare_numbers(a, b);
    if (ca == 1)
        return compare_bytes(a.u.str, b.u.str);
    if (ca == 2) {
        uint32_t n = TR_MIN(a.u.list->n, b.u.list->n);
        for (uint32_t i = 0; i < n; i++) {
            int c = compare_keys(a.u.list->v[i], b.u.list->v[i]);
            if (c)
                return c;
        }
        return (a.u.list->n > b.u.list->n) - (a.u.list->n < b.u.list->n);
    }
    if (a.type == TPL_NONE || a.type == TPL_UNDEFINED)
        return 0;
    return (a.u.list > b.u.list) - (a.u.list < b.u.list); /* identity */
}

static bool hashable(struct tpl_vm *vm, struct tpl_value v)
{
    if (v.type != TPL_TUPLE)
        return v.type != TPL_LIST && v.type != TPL_DICT && v.type != TPL_VIEW;
    tr_tpl_enter(vm);
    bool ok = true;
    for (uint32_t i = 0; ok && i < v.u.list->n; i++)
        ok = hashable(vm, v.u.list->v[i]);
    tr_tpl_leave(vm);
    return ok;
}

uint32_t *tr_tpl_sort(struct tpl_vm *vm, size_t n,
                      int (*compare)(struct tpl_vm *vm, const void *arg, uint32_t a, uint32_t b),
                      const void *arg)
{
    uint32_t *from = tr_tpl_alloc_n(vm, n, sizeof *from);
    uint32_t *to = tr_tpl_alloc_n(vm, n, sizeof *to);
    for (size_t i = 0; i < n; i++)
        from[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2) {
        tr_tpl_spend(vm, n);
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t a = start, mid = TR_MIN(start + width, n);
            size_t b = mid, end = TR_MIN(mid + width, n);
            for (size_t i = start; i < end; i++) {
                bool left = a < mid && (b >= end || compare(vm, arg, from[b], from[a]) >= 0);
                to[i] = left ? from[a++] : from[b++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static int by_key(struct tpl_vm *vm, const void *pairs, uint32_t a, uint32_t b)
{
    (void)vm;
    const struct tpl_pair *v = pairs;
    return compare_keys(v[a].key, v[b].key);
}

/* Drops the pairs of v whose place is marked in `gone`; returns how many are left. */
static size_t compact(struct tpl_pair *v, size_t n, const bool *gone)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!gone[i])
            v[kept++] = v[i];
    return kept;
}

struct tpl_value tr_tpl_dict(struct tpl_vm *vm, struct tpl_pair *v, size_t n)
{
    if (n > TPL_MAX_LIST)
        tr_tpl_fail(vm, "template limit: dict size");
    for (size_t i = 0; i < n; i++)
        if (!hashable(vm, v[i].key))
            tr_tpl_fail(vm, "unhashable type: '%s'", tr_tpl_type_name(v[i].key));
    struct tpl_dict *d = tr_tpl_alloc(vm, sizeof *d);
    bool *gone = tr_tpl_alloc(vm, n);
    uint32_t *order = tr_tpl_sort(vm, n, by_key, v);
    bool repeats = false;
    for (size_t i = 1, first = 0; i < n; i++) {
        if (compare_keys(v[order[first]].key, v[order[i]].key) == 0) {
            v[order[first]].value = v[order[i]].value;
            gone[order[i]] = repeats = true;
        } else {
            first = i;
        }
    }
    if (repeats) {
        n = compact(v, n, gone);
        order = tr_tpl_sort(vm, n, by_key, v);
    }
    *d = (struct tpl_dict){.v = v, .n = (uint32_t)n, .sorted = n >= SORT_FROM ? order : NULL};
    return (struct tpl_value){.type = TPL_DICT, .u.dict = d};
}

const struct tpl_value *tr_tpl_dict_get(struct tpl_vm *vm, const struct tpl_dict *d,
                                        struct tpl_value key)
{
    tr_tpl_spend(vm, 1);
    if (!d->sorted) {
        for (uint32_t i = 0; i < d->n; i++)
            if (compare_keys(d->v[i].key, key) == 0)
                return &d->v[i].value;
        return NULL;
    }
    uint32_t lo = 0, hi = d->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = compare_keys(d->v[d->sorted[mid]].key, key);
        if (c == 0)
            return &d->v[d->sorted[mid]].value;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

struct tpl_value *tr_tpl_namespace_get(const struct tpl_namespace *ns, const struct tpl_str *name)
{
    for (uint32_t i = 0; i < ns->n; i++)
        if (ns->v[i].key.type == TPL_STR && compare_bytes(ns->v[i].key.u.str, name) == 0)
            return &ns->v[i].value;
    return NULL;
}

void tr_tpl_namespace_set(struct tpl_vm *vm, struct tpl_namespace *ns, struct tpl_value name,
                          struct tpl_value value)
{
    tr_tpl_spend(vm, 1 + ns->n / 16);
    if (name.type == TPL_STR && name.u.str->n && name.u.str->s[0] == '_')
        tr_tpl_fail(vm, "a namespace cannot store the underscore-prefixed name '%.*s'",
                    (int)TR_MIN(name.u.str->n, 64u), name.u.str->s);
    struct tpl_value *old = name.type == TPL_STR ? tr_tpl_namespace_get(ns, name.u.str) : NULL;
    if (old) {
        *old = value;
        return;
    }
    if (ns->n == ns->cap) {
        uint32_t cap = ns->cap ? ns->cap * 2 : 8;
        struct tpl_pair *grown = tr_tpl_alloc_n(vm, cap, sizeof *grown);
        if (ns->n)
            memcpy(grown, ns->v, ns->n * sizeof *grown);
        ns->v = grown;
        ns->cap = cap;
    }
    ns->v[ns->n++] = (struct tpl_pair){name, value};
}

int64_t tr_tpl_length(struct tpl_value v)
{
    switch (v.type) {
    case TPL_UNDEFINED:
        return 0;
    case TPL_STR:
        return (int64_t)tr_tpl_chars(v.u.str);
    case TPL_LIST:
    case TPL_TUPLE:
        return v.u.list->n;
    case TPL_DICT:
    case TPL_VIEW:
        return v.u.dict->n;
    case TPL_RANGE:
        return v.u.range->n;
    default:
        return -1;
    }
}

bool tr_tpl_truth(struct tpl_vm *vm, struct tpl_value v)
{
    tr_tpl_spend(vm, 1);
    switch (v.type) {
    case TPL_NONE:
        return false;
    case TPL_BOOL:
        return v.u.b;
    case TPL_INT:
        return v.u.i != 0;
    case TPL_FLOAT:
        return v.u.f < 0 || !(v.u.f <= 0); /* a NaN is true */
    case TPL_STR:
        return v.u.str->n != 0;
    default:
        return tr_tpl_length(v) != 0;
    }
}

bool tr_tpl_same(struct tpl_value a, struct tpl_value b)
{
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case TPL_NONE:
        return true;
    case TPL_BOOL:
        return a.u.b == b.u.b;
    case TPL_INT:
        return a.u.i == b.u.i;
    default:
        return a.u.list == b.u.list && a.aux == b.aux;
    }
}

static bool equal_lists(struct tpl_vm *vm, const struct tpl_list *a, const struct tpl_list *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!tr_tpl_equal(vm, a->v[i], b->v[i]))
            return false;
    return true;
}

static bool equal_dicts(struct tpl_vm *vm, const struct tpl_dict *a, const struct tpl_dict *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct tpl_value *other = tr_tpl_dict_get(vm, b, a->v[i].key);
        if (!other || !tr_tpl_equal(vm, a->v[i].value, *other))
            return false;
    }
    return true;
}

bool tr_tpl_equal(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b)
{
    tr_tpl_spend(vm, 1);
    if (tpl_is_number(a) && tpl_is_number(b))
        return compare_numbers(a, b) == 0;
    if (a.type == TPL_BIG && b.type == TPL_BIG)
        return compare_bytes(a.u.str, b.u.str) == 0;
    if (a.type != b.type)
        return false;
    tr_tpl_enter(vm);
    bool same;
    switch (a.type) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        same = true;
        break;
    case TPL_STR:
        tr_tpl_spend(vm, a.u.str->n / 64);
        same = a.u.str->n == b.u.str->n && memcmp(a.u.str->s, b.u.str->s, a.u.str->n) == 0;
        break;
    case TPL_LIST:
    case TPL_TUPLE:
        same = equal_lists(vm, a.u.list, b.u.list);
        break;
    case TPL_DICT:
        same = equal_dicts(vm, a.u.dict, b.u.dict);
        break;
    case TPL_RANGE:
        same = a.u.range->n == b.u.range->n &&
               (a.u.range->n == 0 || (a.u.range->start == b.u.range->start &&
                                      (a.u.range->n == 1 || a.u.range->step == b.u.range->step)));
        break;
    default:
        same = tr_tpl_same(a, b);
        break;
    }
    tr_tpl_leave(vm);
    return same;
}

int tr_tpl_compare(struct tpl_vm *vm, struct tpl_value a, struct tpl_value b, const char *op)
{
    tr_tpl_spend(vm, 1);
    if (tpl_is_number(a) && tpl_is_number(b))
        return compare_numbers(a, b);
    if (a.type == TPL_STR && b.type == TPL_STR)
        return compare_bytes(a.u.str, b.u.str);
    if (a.type == b.type && (a.type == TPL_LIST || a.type == TPL_TUPLE)) {
        const struct tpl_list *x = a.u.list, *y = b.u.list;
        tr_tpl_enter(vm);
        uint32_t i = 0;
        while (i < x->n && i < y->n && tr_tpl_equal(vm, x->v[i], y->v[i]))
            i++;
        int c = i < x->n && i < y->n ? tr_tpl_compare(vm, x->v[i], y->v[i], op)
                                     : (x->n > y->n) - (x->n < y->n);
        tr_tpl_leave(vm);
        return c;
    }
    if (a.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, a, "");
    if (b.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, b, "");
    tr_tpl_fail(vm, "'%s' not supported between instances of '%s' and '%s'", op,
                tr_tpl_type_name(a), tr_tpl_type_name(b));
}

static bool contains_any(struct tpl_vm *vm, struct tpl_value in, struct tpl_value what)
{
    struct tpl_cursor c = tr_tpl_iterate(vm, in);
    struct tpl_value v;
    while (tr_tpl_next(vm, &c, &v))
        if (tr_tpl_equal(vm, v, what))
            return true;
    return false;
}

bool tr_tpl_contains(struct tpl_vm *vm, struct tpl_value in, struct tpl_value what)
{
    switch (in.type) {
    case TPL_STR:
        if (what.type == TPL_UNDEFINED)
            tr_tpl_fail(vm, "'in <string>' requires string as left operand, not Undefined");
        if (what.type != TPL_STR)
            tr_tpl_fail(vm, "'in <string>' requires string as left operand, not %s",
                        tr_tpl_type_name(what));
        return tr_tpl_find(vm, in.u.str, 0, in.u.str->n, what.u.str) >= 0;
    case TPL_DICT:
        if (!hashable(vm, what))
            tr_tpl_fail(vm, "unhashable type: '%s'", tr_tpl_type_name(what));
        return tr_tpl_dict_get(vm, in.u.dict, what) != NULL;
    case TPL_VIEW:
        if (in.aux == TPL_KEYS && hashable(vm, what))
            return tr_tpl_dict_get(vm, in.u.dict, what) != NULL;
        return contains_any(vm, in, what);
    default:
        if (!tr_tpl_iterable(in))
            tr_tpl_fail(vm, "argument of type '%s' is not iterable", tr_tpl_type_name(in));
        return contains_any(vm, in, what);
    }
}

bool tr_tpl_str_is(struct tpl_value v, const char *s)
{
    size_t n = strlen(s);
    return v.type == TPL_STR && v.u.str->n == n && memcmp(v.u.str->s, s, n) == 0;
}

const char *tr_tpl_type_name(struct tpl_value v)
{
    static const char *const names[] = {[TPL_UNDEFINED] = "Undefined",
                                        [TPL_NONE] = "NoneType",
                                        [TPL_BOOL] = "bool",
                                        [TPL_INT] = "int",
                                        [TPL_BIG] = "int",
                                        [TPL_FLOAT] = "float",
                                        [TPL_STR] = "str",
                                        [TPL_LIST] = "list",
                                        [TPL_TUPLE] = "tuple",
                                        [TPL_DICT] = "dict",
                                        [TPL_VIEW] = "dict view",
                                        [TPL_RANGE] = "range",
                                        [TPL_ITER] = "generator",
                                        [TPL_NAMESPACE] = "Namespace",
                                        [TPL_MACRO] = "Macro",
                                        [TPL_METHOD] = "method",
                                        [TPL_FUNCTION] = "function",
                                        [TPL_LOOP] = "LoopContext",
                                        [TPL_CYCLER] = "Cycler",
                                        [TPL_JOINER] = "Joiner"};
    return names[v.type];
}

_Noreturn void tr_tpl_fail_type(struct tpl_vm *vm, struct tpl_value v, const char *what)
{
    if (v.type != TPL_UNDEFINED)
        tr_tpl_fail(vm, "%s '%s'", what, tr_tpl_type_name(v));
    int n = v.u.str ? (int)TR_MIN(v.u.str->n, 64u) : 1;
    const char *name = v.u.str ? v.u.str->s : "?";
    switch ((enum tpl_missing)v.aux) {
    case TPL_NO_NAME:
        tr_tpl_fail(vm, "'%.*s' is undefined", n, name);
    case TPL_NO_MEMBER:
        tr_tpl_fail(vm, "there is no attribute or element '%.*s'", n, name);
    case TPL_UNSAFE:
        tr_tpl_fail(vm, "access to the mutating method '%.*s' is refused", n, name);
    case TPL_NO_ITEM:
    default:
        tr_tpl_fail(vm, "%.*s", n, name);
    }
}
