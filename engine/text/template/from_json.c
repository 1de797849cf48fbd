/* JSON documents as values. */
#include "engine/text/template/from_json.h"

#include <float.h>
#include <string.h>

static struct tpl_value number(struct tpl_vm *vm, const struct tr_json *v)
{
    int64_t i = 0;
    double f = 0.0;
    const char *big = tr_json_big(v);
    if (big) {
        struct tpl_value digits = tr_tpl_str(vm, big, strlen(big), TPL_DATA);
        return (struct tpl_value){.type = TPL_BIG, .u.str = digits.u.str};
    }
    bool integer = tr_json_is_integer(v);
    int r = integer ? tr_json_as_int(v, INT64_MIN, INT64_MAX, &i, NULL)
                    : tr_json_as_double(v, -DBL_MAX, DBL_MAX, &f, NULL);
    if (r < 0)
        tr_tpl_fail(vm, "number out of range");
    return integer ? tpl_int(i) : tpl_float(f);
}

static struct tpl_value string(struct tpl_vm *vm, const struct tr_json *v)
{
    const char *s;
    size_t n;
    if (tr_json_as_string(v, &s, &n, NULL) < 0)
        tr_tpl_fail(vm, "not a string");
    return tr_tpl_str(vm, s, n, TPL_DATA);
}

static struct tpl_value array(struct tpl_vm *vm, const struct tr_json *v)
{
    size_t n = tr_json_size(v);
    struct tpl_value list = tr_tpl_list(vm, n, TPL_LIST);
    for (size_t i = 0; i < n; i++) {
        struct tr_json item = tr_json_at(v, i);
        list.u.list->v[i] = tr_tpl_from_json(vm, &item);
    }
    return list;
}

static struct tpl_value object(struct tpl_vm *vm, const struct tr_json *v)
{
    size_t n = 0;
    struct tpl_pair *pairs = tr_tpl_alloc_n(vm, tr_json_size(v), sizeof *pairs);
    void *iter = NULL;
    struct tr_json member;
    while (tr_json_next(v, &iter, &member)) {
        pairs[n].key = tr_tpl_str(vm, member.key, member.key_bytes, TPL_DATA);
        pairs[n++].value = tr_tpl_from_json(vm, &member);
    }
    return tr_tpl_dict(vm, pairs, n);
}

struct tpl_value tr_tpl_from_json(struct tpl_vm *vm, const struct tr_json *v)
{
    struct tpl_value value = tpl_none();
    bool b = false;
    tr_tpl_enter(vm);
    switch (tr_json_type(v)) {
    case TR_JSON_BOOL:
        value = tpl_bool(tr_json_as_bool(v, &b, NULL) == 0 && b);
        break;
    case TR_JSON_NUMBER:
        value = number(vm, v);
        break;
    case TR_JSON_STRING:
        value = string(vm, v);
        break;
    case TR_JSON_ARRAY:
        value = array(vm, v);
        break;
    case TR_JSON_OBJECT:
        value = object(vm, v);
        break;
    case TR_JSON_ABSENT:
    case TR_JSON_NULL:
        break;
    }
    tr_tpl_leave(vm);
    return value;
}

bool tr_tpl_parse_json(struct tpl_vm *vm, const char *s, size_t n, struct tr_json *ret)
{
    struct tpl_document *document = tr_tpl_alloc(vm, sizeof *document);
    tr_tpl_spend(vm, n / 16);
    if (tr_json_parse(&document->json, s, n, NULL) < 0)
        return false;
    document->next = vm->documents;
    vm->documents = document;
    *ret = tr_json_root(document->json, NULL);
    return true;
}

struct tpl_value tr_tpl_from_json_text(struct tpl_vm *vm, const struct tpl_str *s)
{
    struct tr_json root;
    if (!tr_tpl_parse_json(vm, s->s, s->n, &root))
        tr_tpl_fail(vm, "from_json: the text is not JSON");
    return tr_tpl_from_json(vm, &root);
}
