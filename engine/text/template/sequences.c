/* Filters of sequences. What is a generator in Python is evaluated at once here, and then behaves
 * like one: it is true, has no length, and is used up by the first who walks it. */
#include <string.h>

#include "engine/text/template/filters.h"
#include "engine/text/template/text.h"

/* A list that grows. */
struct growing {
    struct tpl_value list;
    uint32_t cap;
};

static void grow(struct tpl_vm *vm, struct growing *g, struct tpl_value v)
{
    if (g->cap == 0)
        g->list = tr_tpl_list(vm, 0, TPL_LIST);
    struct tpl_list *list = g->list.u.list;
    if (list->n == g->cap) {
        uint32_t n = list->n;
        struct tpl_value bigger = tr_tpl_list(vm, n ? 2 * (size_t)n : 8, TPL_LIST);
        if (n)
            memcpy(bigger.u.list->v, list->v, n * sizeof *list->v);
        g->cap = bigger.u.list->n;
        g->list = bigger;
        list = bigger.u.list;
        list->n = n;
    }
    list->v[list->n++] = v;
}

static struct tpl_value grown(struct tpl_vm *vm, const struct growing *g)
{
    return g->cap ? g->list : tr_tpl_list(vm, 0, TPL_LIST);
}

/* "a.b.0": one step after the other, by item before attribute. absent = no path. */
static struct tpl_value follow(struct tpl_vm *vm, struct tpl_value v, struct tpl_value path,
                               struct tpl_value otherwise)
{
    if (!tpl_set(path))
        return v;
    if (path.type != TPL_STR) {
        v = tr_tpl_item(vm, v, path);
        return v.type == TPL_UNDEFINED && tpl_set(otherwise) ? otherwise : v;
    }
    const struct tpl_str *s = path.u.str;
    for (size_t at = 0; at <= s->n;) {
        const char *dot = memchr(s->s + at, '.', s->n - at);
        size_t end = dot ? (size_t)(dot - s->s) : s->n, digits = at;
        while (digits < end && s->s[digits] >= '0' && s->s[digits] <= '9')
            digits++;
        struct tpl_value key = tr_tpl_part(vm, s, at, end);
        int64_t index;
        if (digits == end && end > at && tr_tpl_parse_int(vm, key.u.str, 10, &index))
            key = tpl_int(index);
        v = tr_tpl_item(vm, v, key);
        if (v.type == TPL_UNDEFINED && tpl_set(otherwise))
            v = otherwise;
        at = end + 1;
    }
    return v;
}

/* What strings are compared by when case does not count. */
static struct tpl_value folded(struct tpl_vm *vm, struct tpl_value v, bool case_sensitive)
{
    return v.type == TPL_STR && !case_sensitive ? tr_tpl_change_case(vm, v.u.str, 'l') : v;
}

static bool flag(struct tpl_vm *vm, struct tpl_value v)
{
    return tpl_given(v) && tr_tpl_truth(vm, v);
}

static const struct tpl_value absent = {.type = TPL_ABSENT};

static struct tpl_value f_list(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    return tr_tpl_to_list(vm, v);
}

static struct tpl_value f_items(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    if (v.type == TPL_UNDEFINED)
        return tr_tpl_stream(vm, tr_tpl_list(vm, 0, TPL_LIST));
    if (v.type != TPL_DICT)
        tr_tpl_fail(vm, "Can only get item pairs from a mapping.");
    v.type = TPL_VIEW;
    v.aux = TPL_ITEMS;
    return tr_tpl_stream(vm, tr_tpl_to_list(vm, v));
}

static struct tpl_value f_first(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct tpl_value first;
    if (tr_tpl_next(vm, &c, &first))
        return first;
    return tpl_undefined(TPL_NO_ITEM,
                         tr_tpl_literal(vm, "No first item, sequence was empty.").u.str);
}

static struct tpl_value f_last(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    int64_t n = tr_tpl_length(v);
    if (n < 0)
        tr_tpl_fail(vm, "'%s' object is not reversible", tr_tpl_type_name(v));
    if (n == 0)
        return tpl_undefined(TPL_NO_ITEM,
                             tr_tpl_literal(vm, "No last item, sequence was empty.").u.str);
    if (v.type == TPL_DICT || v.type == TPL_VIEW) {
        struct tpl_cursor c = {.of = v, .at = (uint64_t)n - 1};
        struct tpl_value last;
        tr_tpl_next(vm, &c, &last);
        return last;
    }
    return tr_tpl_item(vm, v, tpl_int(-1));
}

static struct tpl_value f_reverse(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    (void)a;
    const struct tpl_value backwards[3] = {tpl_none(), tpl_none(), tpl_int(-1)};
    if (v.type == TPL_STR)
        return tr_tpl_slice(vm, v, backwards);
    struct tpl_value reversed = tr_tpl_slice(vm, tr_tpl_to_list(vm, v), backwards);
    return v.type == TPL_ITER ? reversed : tr_tpl_stream(vm, reversed);
}

static struct tpl_value f_join(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    struct tpl_value separator = tpl_given(a[0]) ? tr_tpl_to_str(vm, a[0]) : tr_tpl_literal(vm, "");
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct tpl_value item;
    size_t mark = vm->text.len;
    for (bool first = true; tr_tpl_next(vm, &c, &item); first = false) {
        if (!first)
            tr_tpl_put_str(vm, separator.u.str);
        tr_tpl_put_value(vm, follow(vm, item, a[1], absent));
    }
    return tr_tpl_cut(vm, mark);
}

struct ordering {
    const struct tpl_value *keys; /* n_keys for each element */
    uint32_t n_keys;
    bool reverse;
};

static int by_keys(struct tpl_vm *vm, const void *arg, uint32_t a, uint32_t b)
{
    const struct ordering *o = arg;
    if (o->reverse) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    for (uint32_t i = 0; i < o->n_keys; i++) {
        const struct tpl_value *x = &o->keys[a * o->n_keys + i], *y = &o->keys[b * o->n_keys + i];
        if (tr_tpl_equal(vm, *x, *y))
            continue;
        return tr_tpl_compare(vm, *x, *y, "<") < 0 ? -1 : 1;
    }
    return 0;
}

static struct tpl_value in_order(struct tpl_vm *vm, struct tpl_value list,
                                 const struct ordering *ordering)
{
    const struct tpl_list *from = list.u.list;
    const uint32_t *order = tr_tpl_sort(vm, from->n, by_keys, ordering);
    struct tpl_value sorted = tr_tpl_list(vm, from->n, TPL_LIST);
    for (uint32_t i = 0; i < from->n; i++)
        sorted.u.list->v[i] = from->v[order[i]];
    return sorted;
}

/* The attribute may be several, separated by commas. */
static struct tpl_value f_sort(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    struct tpl_value list = tr_tpl_to_list(vm, v);
    struct tpl_value paths = tr_tpl_list(vm, 1, TPL_LIST);
    paths.u.list->v[0] = tpl_set(a[2]) ? a[2] : absent;
    if (a[2].type == TPL_STR) {
        const struct tpl_str *s = a[2].u.str;
        struct growing parts = {0};
        for (size_t at = 0; at <= s->n;) {
            const char *comma = memchr(s->s + at, ',', s->n - at);
            size_t end = comma ? (size_t)(comma - s->s) : s->n;
            grow(vm, &parts, tr_tpl_part(vm, s, at, end));
            at = end + 1;
        }
        paths = grown(vm, &parts);
    }
    uint32_t n = list.u.list->n, n_keys = paths.u.list->n;
    struct tpl_value *keys = tr_tpl_alloc_n(vm, (size_t)n * n_keys, sizeof *keys);
    for (uint32_t i = 0; i < n * n_keys; i++)
        keys[i] =
            folded(vm, follow(vm, list.u.list->v[i / n_keys], paths.u.list->v[i % n_keys], absent),
                   flag(vm, a[1]));
    struct ordering ordering = {keys, n_keys, flag(vm, a[0])};
    return in_order(vm, list, &ordering);
}

static struct tpl_value f_dictsort(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    bool by_value = tpl_given(a[1]) && tr_tpl_str_is(a[1], "value");
    if (tpl_given(a[1]) && !by_value && !tr_tpl_str_is(a[1], "key"))
        tr_tpl_fail(vm, "You can only sort by either \"key\" or \"value\"");
    if (v.type != TPL_DICT)
        tr_tpl_fail_type(vm, v, "dictsort needs a mapping, not");
    v.type = TPL_VIEW;
    v.aux = TPL_ITEMS;
    struct tpl_value list = tr_tpl_to_list(vm, v);
    uint32_t n = list.u.list->n;
    struct tpl_value *keys = tr_tpl_alloc_n(vm, n, sizeof *keys);
    for (uint32_t i = 0; i < n; i++)
        keys[i] = folded(vm, list.u.list->v[i].u.list->v[by_value], flag(vm, a[0]));
    struct ordering ordering = {keys, 1, flag(vm, a[2])};
    return in_order(vm, list, &ordering);
}

static struct tpl_value extreme(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a,
                                bool greatest)
{
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct tpl_value item, best, best_key = absent;
    while (tr_tpl_next(vm, &c, &item)) {
        struct tpl_value key = folded(vm, follow(vm, item, a[1], absent), flag(vm, a[0]));
        if (tpl_given(best_key) && (greatest ? tr_tpl_compare(vm, key, best_key, ">") != 1
                                             : tr_tpl_compare(vm, key, best_key, "<") != -1))
            continue;
        best = item;
        best_key = key;
    }
    if (tpl_given(best_key))
        return best;
    return tpl_undefined(TPL_NO_ITEM,
                         tr_tpl_literal(vm, "No aggregated item, sequence was empty.").u.str);
}

static struct tpl_value f_min(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    return extreme(vm, v, a, false);
}

static struct tpl_value f_max(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    return extreme(vm, v, a, true);
}

static struct tpl_value f_sum(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct tpl_value item, total = tpl_given(a[1]) ? a[1] : tpl_int(0);
    if (total.type == TPL_STR)
        tr_tpl_fail(vm, "sum() can't sum strings");
    while (tr_tpl_next(vm, &c, &item))
        total = tr_tpl_arithmetic(vm, '+', total, follow(vm, item, a[0], absent));
    return total;
}

static struct tpl_value f_unique(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    const struct tpl_list *list = tr_tpl_to_list(vm, v).u.list;
    struct tpl_pair *seen = tr_tpl_alloc_n(vm, list->n, sizeof *seen);
    for (uint32_t i = 0; i < list->n; i++) {
        /* A dict keeps the first place of a key: its value here is the last, so go backwards. */
        struct tpl_value item = list->v[list->n - 1 - i];
        seen[i].key = folded(vm, follow(vm, item, a[1], absent), flag(vm, a[0]));
        seen[i].value = tpl_int(list->n - 1 - i);
    }
    const struct tpl_dict *firsts = tr_tpl_dict(vm, seen, list->n).u.dict;
    bool *kept = tr_tpl_alloc(vm, list->n);
    for (uint32_t i = 0; i < firsts->n; i++)
        kept[firsts->v[i].value.u.i] = true;
    struct growing out = {0};
    for (uint32_t i = 0; i < list->n; i++)
        if (kept[i])
            grow(vm, &out, list->v[i]);
    return tr_tpl_stream(vm, grown(vm, &out));
}

static struct tpl_value f_batch(struct tpl_vm *vm, struct tpl_value v, const struct tpl_value *a)
{
    int64_t size = tr_tpl_arg_int(vm, a[0], "linecount");
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct growing out = {0}, line = {0};
    struct tpl_value item;
    while (tr_tpl_next(vm, &c, &item)) {
        if (line.cap && line.list.u.list->n == size) {
            grow(vm, &out, line.list);
            line = (struct growing){0};
        }
        grow(vm, &line, item);
    }
    if (line.cap) {
        while (tpl_set(a[1]) && line.list.u.list->n < size)
            grow(vm, &line, a[1]);
        grow(vm, &out, line.list);
    }
    return tr_tpl_stream(vm, grown(vm, &out));
}

/* Arguments from the n-th positional one on. */
static struct tpl_args shifted(const struct tpl_args *args, uint32_t n)
{
    struct tpl_args rest = *args;
    rest.v += n;
    rest.n -= n;
    return rest;
}

static struct tpl_value f_map(struct tpl_vm *vm, struct tpl_value v, const struct tpl_args *args)
{
    struct growing out = {0};
    if (!tr_tpl_truth(vm, v))
        return tr_tpl_stream(vm, grown(vm, &out));
    struct tpl_value a[TPL_MAX_PARAMS];
    struct tpl_args rest = {0};
    int id = -1;
    if (args->n == 0) {
        tr_tpl_bind(vm, args, "map", "attribute,default", 1, a);
    } else {
        id = tr_tpl_filter_find(tr_tpl_arg_str(vm, args->v[0], "map's filter"));
        if (id < 0)
            tr_tpl_fail(vm, "map: no such filter");
        rest = shifted(args, 1);
    }
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct tpl_value item;
    tr_tpl_enter(vm);
    while (tr_tpl_next(vm, &c, &item))
        grow(vm, &out, id < 0 ? follow(vm, item, a[0], a[1]) : tr_tpl_filter(vm, id, item, &rest));
    tr_tpl_leave(vm);
    return tr_tpl_stream(vm, grown(vm, &out));
}

/* select, reject, selectattr, rejectattr: keeps the items whose test (truth, if none is named)
 * comes out as `wanted`. */
static struct tpl_value choose(struct tpl_vm *vm, struct tpl_value v, const struct tpl_args *args,
                               bool by_attribute, bool wanted)
{
    struct growing out = {0};
    if (!tr_tpl_truth(vm, v))
        return tr_tpl_stream(vm, grown(vm, &out));
    if (by_attribute && args->n == 0)
        tr_tpl_fail(vm, "Missing parameter for attribute name");
    struct tpl_value path = by_attribute ? args->v[0] : absent;
    struct tpl_args rest = shifted(args, by_attribute);
    int id = -1;
    if (rest.n) {
        id = tr_tpl_test_find(tr_tpl_arg_str(vm, rest.v[0], "the test's name"));
        if (id < 0)
            tr_tpl_fail(vm, "no such test");
        rest = shifted(&rest, 1);
    }
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    struct tpl_value item;
    while (tr_tpl_next(vm, &c, &item)) {
        struct tpl_value subject = follow(vm, item, path, absent);
        if ((id < 0 ? tr_tpl_truth(vm, subject) : tr_tpl_test(vm, id, subject, &rest)) == wanted)
            grow(vm, &out, item);
    }
    return tr_tpl_stream(vm, grown(vm, &out));
}

static struct tpl_value f_select(struct tpl_vm *vm, struct tpl_value v, const struct tpl_args *args)
{
    return choose(vm, v, args, false, true);
}

static struct tpl_value f_reject(struct tpl_vm *vm, struct tpl_value v, const struct tpl_args *args)
{
    return choose(vm, v, args, false, false);
}

static struct tpl_value f_selectattr(struct tpl_vm *vm, struct tpl_value v,
                                     const struct tpl_args *args)
{
    return choose(vm, v, args, true, true);
}

static struct tpl_value f_rejectattr(struct tpl_vm *vm, struct tpl_value v,
                                     const struct tpl_args *args)
{
    return choose(vm, v, args, true, false);
}

const struct tpl_filter tr_tpl_sequence_filters[] = {
    {"batch", "linecount,fill_with", 1, f_batch, NULL},
    {"dictsort", "case_sensitive,by,reverse", 0, f_dictsort, NULL},
    {"first", "", 0, f_first, NULL},
    {"items", "", 0, f_items, NULL},
    {"join", "d,attribute", 0, f_join, NULL},
    {"last", "", 0, f_last, NULL},
    {"list", "", 0, f_list, NULL},
    {"map", NULL, 0, NULL, f_map},
    {"max", "case_sensitive,attribute", 0, f_max, NULL},
    {"min", "case_sensitive,attribute", 0, f_min, NULL},
    {"reject", NULL, 0, NULL, f_reject},
    {"rejectattr", NULL, 0, NULL, f_rejectattr},
    {"reverse", "", 0, f_reverse, NULL},
    {"select", NULL, 0, NULL, f_select},
    {"selectattr", NULL, 0, NULL, f_selectattr},
    {"sort", "reverse,case_sensitive,attribute", 0, f_sort, NULL},
    {"sum", "attribute,start", 0, f_sum, NULL},
    {"unique", "case_sensitive,attribute", 0, f_unique, NULL},
};
const size_t tr_tpl_n_sequence_filters = TR_ARRAY_LEN(tr_tpl_sequence_filters);
