/* Reaching into values: iteration, attributes, items and slices. */
#include <string.h>

#include "engine/text/template/call.h"
#include "engine/text/template/text.h"
#include "engine/text/template/unicode.h"
#include "engine/text/template/value.h"

bool tr_tpl_iterable(struct tpl_value v)
{
    return v.type == TPL_ITER || tr_tpl_length(v) >= 0;
}

struct tpl_cursor tr_tpl_iterate(struct tpl_vm *vm, struct tpl_value v)
{
    if (!tr_tpl_iterable(v))
        tr_tpl_fail(vm, "'%s' object is not iterable", tr_tpl_type_name(v));
    return (struct tpl_cursor){.of = v};
}

static bool next_char(struct tpl_vm *vm, struct tpl_cursor *c, struct tpl_value *ret)
{
    const struct tpl_str *s = c->of.u.str;
    if (c->at >= s->n)
        return false;
    size_t n;
    tr_uni_decode(s->s + c->at, &n);
    *ret = tr_tpl_part(vm, s, c->at, c->at + n);
    ret->u.str->markup = false;
    c->at += n;
    return true;
}

static struct tpl_value member(struct tpl_vm *vm, const struct tpl_pair *pair, enum tpl_view view)
{
    return view == TPL_KEYS     ? pair->key
           : view == TPL_VALUES ? pair->value
                                : tr_tpl_pair(vm, pair->key, pair->value);
}

bool tr_tpl_next(struct tpl_vm *vm, struct tpl_cursor *c, struct tpl_value *ret)
{
    tr_tpl_spend(vm, 1);
    if (c->of.type == TPL_STR)
        return next_char(vm, c, ret);
    if (c->of.type == TPL_ITER) {
        struct tpl_stream *stream = c->of.u.iter;
        if (stream->at >= stream->items.n)
            return false;
        *ret = stream->items.v[stream->at++];
        return true;
    }
    if (c->at >= (uint64_t)tr_tpl_length(c->of))
        return false;
    uint64_t i = c->at++;
    switch (c->of.type) {
    case TPL_LIST:
    case TPL_TUPLE:
        *ret = c->of.u.list->v[i];
        break;
    case TPL_RANGE:
        *ret = tpl_int(c->of.u.range->start + (int64_t)i * c->of.u.range->step);
        break;
    default:
        *ret = member(vm, &c->of.u.dict->v[i], c->of.type == TPL_DICT ? TPL_KEYS : c->of.aux);
        break;
    }
    return true;
}

struct tpl_value tr_tpl_to_list(struct tpl_vm *vm, struct tpl_value v)
{
    struct tpl_cursor c = tr_tpl_iterate(vm, v);
    size_t n = v.type == TPL_ITER ? v.u.iter->items.n - v.u.iter->at : (size_t)tr_tpl_length(v);
    struct tpl_value list = tr_tpl_list(vm, n, TPL_LIST);
    for (size_t i = 0; i < n; i++)
        tr_tpl_next(vm, &c, &list.u.list->v[i]);
    return list;
}

/* What getattr finds; false if the type has no such attribute. */
static bool own_attr(struct tpl_vm *vm, struct tpl_value of, struct tpl_value name,
                     struct tpl_value *ret)
{
    if (of.type == TPL_NAMESPACE) {
        const struct tpl_value *v = tr_tpl_namespace_get(of.u.ns, name.u.str);
        if (v)
            *ret = *v;
        return v != NULL;
    }
    if (of.type == TPL_LOOP && tr_tpl_loop_attr(vm, of, name, ret))
        return true;
    if (of.type == TPL_CYCLER && tr_tpl_str_is(name, "current")) {
        *ret = of.u.cycler->items.v[of.u.cycler->at];
        return true;
    }
    bool mutates = false;
    int id = tr_tpl_method_find(of, name.u.str, &mutates);
    if (id < 0)
        return false;
    if (mutates) {
        *ret = tpl_undefined(TPL_UNSAFE, name.u.str);
        return true;
    }
    struct tpl_method *method = tr_tpl_alloc(vm, sizeof *method);
    *method = (struct tpl_method){.self = of, .id = id};
    *ret = (struct tpl_value){.type = TPL_METHOD, .u.method = method};
    return true;
}

struct tpl_value tr_tpl_attr(struct tpl_vm *vm, struct tpl_value of, struct tpl_value name)
{
    if (of.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, of, "");
    struct tpl_value v;
    if (own_attr(vm, of, name, &v))
        return v;
    if (of.type == TPL_DICT) {
        const struct tpl_value *found = tr_tpl_dict_get(vm, of.u.dict, name);
        if (found)
            return *found;
    }
    return tpl_undefined(TPL_NO_MEMBER, name.u.str);
}

/* The element of a sequence; false if the index is none or out of range. */
static bool element(struct tpl_vm *vm, struct tpl_value of, struct tpl_value key,
                    struct tpl_value *ret)
{
    int64_t n = tr_tpl_length(of);
    if (!tpl_is_integer(key) || n < 0 || of.type == TPL_VIEW)
        return false;
    int64_t i = tpl_integer(key);
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return false;
    if (of.type == TPL_STR) {
        size_t from = tr_tpl_offset(of.u.str, (size_t)i), len;
        tr_tpl_spend(vm, from / 64);
        tr_uni_decode(of.u.str->s + from, &len);
        *ret = tr_tpl_part(vm, of.u.str, from, from + len);
        return true;
    }
    struct tpl_cursor c = {.of = of, .at = (uint64_t)i};
    return tr_tpl_next(vm, &c, ret);
}

struct tpl_value tr_tpl_item(struct tpl_vm *vm, struct tpl_value of, struct tpl_value key)
{
    if (of.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, of, "");
    struct tpl_value v;
    if (of.type == TPL_DICT) {
        const struct tpl_value *found = tr_tpl_dict_get(vm, of.u.dict, key);
        if (found)
            return *found;
    } else if (element(vm, of, key, &v)) {
        return v;
    }
    if (key.type == TPL_STR) {
        if (own_attr(vm, of, key, &v))
            return v;
        return tpl_undefined(TPL_NO_MEMBER, key.u.str);
    }
    return tpl_undefined(TPL_NO_MEMBER, tpl_is_number(key) ? tr_tpl_to_str(vm, key).u.str : NULL);
}

/* start, stop, step as slice.indices gives them; returns the number of elements. */
static size_t bounds(struct tpl_vm *vm, const struct tpl_value at[3], int64_t n, int64_t *ret_start,
                     int64_t *ret_step)
{
    for (int i = 0; i < 3; i++) {
        if (at[i].type == TPL_UNDEFINED || (at[i].type != TPL_NONE && !tpl_is_integer(at[i])))
            tr_tpl_fail(vm, "slice indices must be integers or None");
    }
    int64_t step = at[2].type == TPL_NONE ? 1 : tpl_integer(at[2]);
    if (step == 0)
        tr_tpl_fail(vm, "slice step cannot be zero");
    step = TR_MAX(step, -INT64_MAX);
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    int64_t edge[2] = {step < 0 ? high : low, step < 0 ? low : high};
    for (int i = 0; i < 2; i++) {
        if (at[i].type == TPL_NONE)
            continue;
        int64_t x = tpl_integer(at[i]);
        if (x < 0)
            x = x < -n ? low : TR_MAX(x + n, low);
        edge[i] = TR_MIN(x, high);
    }
    *ret_start = edge[0];
    *ret_step = step;
    if (step > 0)
        return edge[1] > edge[0] ? (size_t)((edge[1] - edge[0] - 1) / step) + 1 : 0;
    return edge[0] > edge[1] ? (size_t)((edge[0] - edge[1] - 1) / -step) + 1 : 0;
}

static struct tpl_value slice_str(struct tpl_vm *vm, struct tpl_str *s, int64_t start, int64_t step,
                                  size_t n)
{
    size_t chars = tr_tpl_chars(s);
    if (step == 1) {
        size_t from = tr_tpl_offset(s, (size_t)start);
        size_t to = chars == s->n ? from + n : from + tr_uni_skip(s->s + from, s->n - from, n);
        tr_tpl_spend(vm, to / 64);
        return tr_tpl_part(vm, s, n ? from : 0, n ? to : 0);
    }
    tr_tpl_spend(vm, chars / 16 + n);
    uint32_t *offsets = tr_tpl_alloc_n(vm, chars + 1, sizeof *offsets);
    for (size_t i = 0, at = 0; i <= chars; i++) {
        offsets[i] = (uint32_t)at;
        at += tr_uni_skip(s->s + at, s->n - at, 1);
    }
    size_t mark = vm->text.len;
    for (size_t i = 0; i < n; i++, start += step)
        tr_tpl_put_part(vm, s, offsets[start], offsets[start + 1]);
    return tr_tpl_with_markup(vm, tr_tpl_cut(vm, mark), s->markup);
}

struct tpl_value tr_tpl_slice(struct tpl_vm *vm, struct tpl_value of, const struct tpl_value at[3])
{
    if (of.type != TPL_STR && of.type != TPL_LIST && of.type != TPL_TUPLE && of.type != TPL_RANGE)
        tr_tpl_fail_type(vm, of, "cannot slice an object of type");
    int64_t start, step;
    size_t n = bounds(vm, at, tr_tpl_length(of), &start, &step);
    if (of.type == TPL_STR)
        return slice_str(vm, of.u.str, start, step, n);
    if (of.type == TPL_RANGE) {
        struct tpl_range *r = tr_tpl_alloc(vm, sizeof *r);
        *r = (struct tpl_range){.start = of.u.range->start + start * of.u.range->step,
                                .step = of.u.range->step * (n > 1 ? step : 1),
                                .n = (uint32_t)n};
        r->stop = r->start + (int64_t)n * r->step;
        return (struct tpl_value){.type = TPL_RANGE, .u.range = r};
    }
    struct tpl_value list = tr_tpl_list(vm, n, of.type);
    for (size_t i = 0; i < n; i++)
        list.u.list->v[i] = of.u.list->v[start + (int64_t)i * step];
    return list;
}
