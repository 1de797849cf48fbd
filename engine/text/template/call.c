/* Calls: laying out arguments, and the global functions of the environment. */
#include "engine/text/template/call.h"

#include <string.h>

#include "engine/text/template/render.h"
#include "engine/text/template/text.h"

/* The n-th name of a comma-separated list; NULL beyond the end. */
static const char *param_name(const char *params, uint32_t n, size_t *ret_len)
{
    for (; n; n--) {
        params = strchr(params, ',');
        if (!params)
            return NULL;
        params++;
    }
    if (!*params || *params == '*')
        return NULL;
    *ret_len = strcspn(params, ",");
    return params;
}

static int param_index(const char *params, const struct tpl_str *name)
{
    size_t len;
    const char *s;
    for (uint32_t i = 0; (s = param_name(params, i, &len)); i++)
        if (len == name->n && memcmp(s, name->s, len) == 0)
            return (int)i;
    return -1;
}

void tr_tpl_bind(struct tpl_vm *vm, const struct tpl_args *args, const char *what,
                 const char *params, int n_required, struct tpl_value out[TPL_MAX_PARAMS])
{
    size_t len;
    const char *name;
    uint32_t n = 0;
    while (param_name(params, n, &len))
        n++;
    for (uint32_t i = 0; i < TPL_MAX_PARAMS; i++)
        out[i] = i < n && i < args->n ? args->v[i] : (struct tpl_value){.type = TPL_ABSENT};
    if (args->n > n && !strchr(params, '*'))
        tr_tpl_fail(vm, "%s takes at most %u argument(s)", what, n);
    for (uint32_t i = 0; i < args->n_named; i++) {
        const struct tpl_str *key = args->named[i].key.u.str;
        int at = param_index(params, key);
        if (at < 0)
            tr_tpl_fail(vm, "%s got an unexpected keyword argument '%.*s'", what,
                        (int)TR_MIN(key->n, 64u), key->s);
        if (tpl_given(out[at]))
            tr_tpl_fail(vm, "%s got multiple values for argument '%.*s'", what,
                        (int)TR_MIN(key->n, 64u), key->s);
        out[at] = args->named[i].value;
    }
    for (int i = 0; i < n_required; i++)
        if (!tpl_given(out[i]) && (name = param_name(params, (uint32_t)i, &len)))
            tr_tpl_fail(vm, "%s misses the argument '%.*s'", what, (int)len, name);
}

struct tpl_str *tr_tpl_arg_str(struct tpl_vm *vm, struct tpl_value v, const char *what)
{
    if (v.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, v, "");
    if (v.type != TPL_STR)
        tr_tpl_fail(vm, "%s must be str, not %s", what, tr_tpl_type_name(v));
    return v.u.str;
}

int64_t tr_tpl_arg_int(struct tpl_vm *vm, struct tpl_value v, const char *what)
{
    if (v.type == TPL_UNDEFINED)
        tr_tpl_fail_type(vm, v, "");
    if (!tpl_is_integer(v))
        tr_tpl_fail(vm, "%s must be an integer, not %s", what, tr_tpl_type_name(v));
    return tpl_integer(v);
}

static struct tpl_value range(struct tpl_vm *vm, const struct tpl_args *args)
{
    struct tpl_value a[TPL_MAX_PARAMS];
    if (args->n_named)
        tr_tpl_fail(vm, "range takes no keyword arguments");
    tr_tpl_bind(vm, args, "range", "start,stop,step", 1, a);
    int64_t start = tr_tpl_arg_int(vm, a[0], "range"), stop = start, step = 1;
    if (tpl_given(a[1]))
        stop = tr_tpl_arg_int(vm, a[1], "range");
    else
        start = 0;
    if (tpl_given(a[2]))
        step = tr_tpl_arg_int(vm, a[2], "range");
    if (step == 0)
        tr_tpl_fail(vm, "range() arg 3 must not be zero");
    uint64_t n = 0, stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    if (step > 0 ? stop > start : stop < start) {
        uint64_t span =
            step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
        n = (span - 1) / stride + 1;
    }
    if (n > TPL_MAX_RANGE)
        tr_tpl_fail(vm, "Range too big. The sandbox blocks ranges larger than %d.", TPL_MAX_RANGE);
    struct tpl_range *r = tr_tpl_alloc(vm, sizeof *r);
    *r = (struct tpl_range){.start = start, .stop = stop, .step = step, .n = (uint32_t)n};
    return (struct tpl_value){.type = TPL_RANGE, .u.range = r};
}

/* dict(mapping or pairs, **named) */
static struct tpl_value dict(struct tpl_vm *vm, const struct tpl_args *args)
{
    if (args->n > 1)
        tr_tpl_fail(vm, "dict expected at most 1 argument");
    struct tpl_value from = args->n ? args->v[0] : tr_tpl_list(vm, 0, TPL_LIST);
    if (from.type == TPL_DICT)
        from.aux = TPL_ITEMS, from.type = TPL_VIEW;
    from = tr_tpl_to_list(vm, from);
    size_t n = from.u.list->n;
    struct tpl_pair *pairs = tr_tpl_alloc_n(vm, n + args->n_named, sizeof *pairs);
    for (size_t i = 0; i < n; i++) {
        struct tpl_value pair = tr_tpl_to_list(vm, from.u.list->v[i]);
        if (pair.u.list->n != 2)
            tr_tpl_fail(vm, "dictionary update sequence element has length %u; 2 is required",
                        pair.u.list->n);
        pairs[i] = (struct tpl_pair){pair.u.list->v[0], pair.u.list->v[1]};
    }
    for (uint32_t i = 0; i < args->n_named; i++)
        pairs[n++] = args->named[i];
    return tr_tpl_dict(vm, pairs, n);
}

static struct tpl_value namespace(struct tpl_vm *vm, const struct tpl_args *args)
{
    const struct tpl_dict *d = dict(vm, args).u.dict;
    struct tpl_namespace *ns = tr_tpl_alloc(vm, sizeof *ns);
    for (uint32_t i = 0; i < d->n; i++)
        tr_tpl_namespace_set(vm, ns, d->v[i].key, d->v[i].value);
    return (struct tpl_value){.type = TPL_NAMESPACE, .u.ns = ns};
}

static struct tpl_value raise_exception(struct tpl_vm *vm, const struct tpl_args *args)
{
    struct tpl_value a[TPL_MAX_PARAMS];
    tr_tpl_bind(vm, args, "raise_exception", "message", 1, a);
    const struct tpl_str *message = tr_tpl_to_str(vm, a[0]).u.str;
    tr_tpl_fail_code(vm, TR_EINVAL, "messages", "%.*s", (int)TR_MIN(message->n, 500u), message->s);
}

static struct tpl_value strftime_now(struct tpl_vm *vm, const struct tpl_args *args)
{
    struct tpl_value a[TPL_MAX_PARAMS];
    tr_tpl_bind(vm, args, "strftime_now", "format", 1, a);
    return tr_tpl_strftime(vm, tr_tpl_arg_str(vm, a[0], "format"), tpl_render_of(vm)->now);
}

static struct tpl_value cycler(struct tpl_vm *vm, const struct tpl_args *args)
{
    if (args->n == 0 || args->n_named)
        tr_tpl_fail(vm, "cycler takes the items to cycle through");
    struct tpl_value items = tr_tpl_list(vm, args->n, TPL_LIST);
    for (uint32_t i = 0; i < args->n; i++)
        items.u.list->v[i] = args->v[i];
    struct tpl_cycler *c = tr_tpl_alloc(vm, sizeof *c);
    c->items = *items.u.list;
    return (struct tpl_value){.type = TPL_CYCLER, .u.cycler = c};
}

static struct tpl_value joiner(struct tpl_vm *vm, const struct tpl_args *args)
{
    struct tpl_value a[TPL_MAX_PARAMS];
    tr_tpl_bind(vm, args, "joiner", "sep", 0, a);
    struct tpl_joiner *j = tr_tpl_alloc(vm, sizeof *j);
    j->separator = tpl_given(a[0]) ? a[0] : tr_tpl_literal(vm, ", ");
    return (struct tpl_value){.type = TPL_JOINER, .u.joiner = j};
}

static const struct {
    const char *name;
    struct tpl_value (*call)(struct tpl_vm *vm, const struct tpl_args *args);
} functions[] = {{"range", range},
                 {"dict", dict},
                 {"namespace", namespace},
                 {"raise_exception", raise_exception},
                 {"strftime_now", strftime_now},
                 {"cycler", cycler},
                 {"joiner", joiner}};

int tr_tpl_function_find(const struct tpl_str *name)
{
    for (size_t i = 0; i < TR_ARRAY_LEN(functions); i++)
        if (strlen(functions[i].name) == name->n &&
            memcmp(functions[i].name, name->s, name->n) == 0)
            return (int)i;
    return -1;
}

static struct tpl_value call_joiner(struct tpl_vm *vm, struct tpl_joiner *j)
{
    if (j->used)
        return j->separator;
    j->used = true;
    return tr_tpl_literal(vm, "");
}

struct tpl_value tr_tpl_call(struct tpl_vm *vm, struct tpl_value callee,
                             const struct tpl_args *args)
{
    switch (callee.type) {
    case TPL_MACRO:
        return tr_tpl_macro_call(vm, callee, args);
    case TPL_METHOD:
        return tr_tpl_method_call(vm, callee.u.method, args);
    case TPL_FUNCTION:
        return functions[callee.aux].call(vm, args);
    case TPL_JOINER:
        return call_joiner(vm, callee.u.joiner);
    case TPL_UNDEFINED:
        tr_tpl_fail_type(vm, callee, "");
    case TPL_LOOP:
        tr_tpl_fail(vm, "recursive loops are not supported");
    default:
        tr_tpl_fail(vm, "'%s' object is not callable", tr_tpl_type_name(callee));
    }
}
