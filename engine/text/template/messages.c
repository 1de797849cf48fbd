#include "engine/text/template/messages.h"

#include <stdio.h>
#include <string.h>

#include "engine/text/template/text.h"

/* Ends the render: the request is at fault, in the message of that number. `what` begins with the
 * path below it. */
static _Noreturn void refuse(struct tpl_vm *vm, size_t i, const char *what)
{
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]%.*s", i, (int)strcspn(what, ":"), what);
    tr_tpl_fail_code(vm, TR_EINVAL, param, "messages[%zu]%s", i, what);
}

/* The roles are the only strings of a request that may be part of a control token, as in
 * '<|' + role + '|>': so they come from a closed set. */
static struct tpl_value role(struct tpl_vm *vm, size_t i, const struct tr_json *v)
{
    static const struct {
        const char *given, *means;
    } roles[] = {{"system", "system"},
                 {"developer", "system"},
                 {"user", "user"},
                 {"assistant", "assistant"},
                 {"tool", "tool"}};
    const char *s;
    if (tr_json_as_string(v, &s, NULL, NULL) == 0)
        for (size_t k = 0; k < TR_ARRAY_LEN(roles); k++)
            if (strcmp(s, roles[k].given) == 0)
                return tr_tpl_literal(vm, roles[k].means);
    refuse(vm, i, ".role: expected system, developer, user, assistant or tool");
}

/* The text of a part, whatever its kind calls it. */
static struct tpl_value part_text(struct tpl_vm *vm, size_t i, const struct tr_json *part)
{
    static const struct {
        const char *type, *member;
    } kinds[] = {{"text", "text"},
                 {"input_text", "text"},
                 {"output_text", "text"},
                 {"refusal", "refusal"},
                 {"thinking", "thinking"}};
    struct tr_json type = tr_json_get(part, "type");
    const char *s;
    if (tr_json_type(part) == TR_JSON_STRING)
        return tr_tpl_from_json(vm, part);
    if (tr_json_as_string(&type, &s, NULL, NULL) == 0)
        for (size_t k = 0; k < TR_ARRAY_LEN(kinds); k++) {
            if (strcmp(s, kinds[k].type) != 0)
                continue;
            struct tr_json text = tr_json_get(part, kinds[k].member);
            if (tr_json_type(&text) != TR_JSON_STRING)
                refuse(vm, i, ".content: a text part needs a string as text");
            return tr_tpl_from_json(vm, &text);
        }
    refuse(vm, i, ".content: only parts that are text are supported");
}

/* A list of one text part for a template that walks through parts. */
static struct tpl_value typed_part(struct tpl_vm *vm, struct tpl_value text)
{
    struct tpl_pair *pairs = tr_tpl_alloc_n(vm, 2, sizeof *pairs);
    pairs[0] = (struct tpl_pair){tr_tpl_literal(vm, "type"), tr_tpl_literal(vm, "text")};
    pairs[1] = (struct tpl_pair){tr_tpl_literal(vm, "text"), text};
    return tr_tpl_dict(vm, pairs, 2);
}

/* Marks the end of the content that the answer is to continue. */
static struct tpl_value mark_end(struct tpl_vm *vm, struct tpl_value text,
                                 struct tpl_str **ret_continued)
{
    *ret_continued = text.u.str;
    return tr_tpl_concat(vm, text,
                         tr_tpl_str(vm, TPL_CONTINUE_MARK, sizeof TPL_CONTINUE_MARK - 1, TPL_MARK));
}

/* ret_continued NULL: nothing is to be continued. */
static struct tpl_value content(struct tpl_vm *vm, size_t i, const struct tr_json *v, bool typed,
                                struct tpl_str **ret_continued)
{
    if (tr_json_type(v) == TR_JSON_STRING) {
        struct tpl_value text = tr_tpl_from_json(vm, v);
        return ret_continued ? mark_end(vm, text, ret_continued) : text;
    }
    if (tr_json_type(v) != TR_JSON_ARRAY)
        refuse(vm, i, ".content: expected a string, null or a list of text parts");
    size_t n = tr_json_size(v);
    struct tpl_value whole = tr_tpl_str(vm, "", 0, TPL_DATA), list = tr_tpl_list(vm, n, TPL_LIST);
    for (size_t k = 0; k < n; k++) {
        struct tr_json part = tr_json_at(v, k);
        struct tpl_value text = part_text(vm, i, &part);
        if (typed) {
            if (ret_continued && k + 1 == n)
                text = mark_end(vm, text, ret_continued);
            list.u.list->v[k] = typed_part(vm, text);
            continue;
        }
        if (k)
            whole = tr_tpl_concat(vm, whole, tr_tpl_str(vm, "\n", 1, TPL_DATA));
        whole = tr_tpl_concat(vm, whole, text);
    }
    if (typed && n > 0)
        return list;
    return ret_continued ? mark_end(vm, whole, ret_continued) : whole;
}

/* What the model wrote as arguments: an object where it is one, else the text that it is. */
static struct tpl_value arguments(struct tpl_vm *vm, size_t i, const struct tr_json *v)
{
    const char *s;
    size_t n;
    struct tr_json parsed = *v;
    if (!tr_json_given(v))
        return tr_tpl_dict(vm, NULL, 0);
    if (tr_json_as_string(v, &s, &n, NULL) == 0) {
        if (n == 0)
            return tr_tpl_dict(vm, NULL, 0);
        if (!tr_tpl_parse_json(vm, s, n, &parsed) || tr_json_type(&parsed) != TR_JSON_OBJECT)
            return tr_tpl_from_json(vm, v);
    }
    if (tr_json_type(&parsed) != TR_JSON_OBJECT)
        refuse(vm, i, ".tool_calls: the arguments are neither a string nor an object");
    return tr_tpl_from_json(vm, &parsed);
}

/* A tool call, or its function: an object whose arguments become a value. */
static struct tpl_value call(struct tpl_vm *vm, size_t i, const struct tr_json *v, bool outer)
{
    if (tr_json_type(v) != TR_JSON_OBJECT)
        refuse(vm, i, ".tool_calls: expected a list of objects with a function each");
    size_t n = 0;
    struct tpl_pair *pairs = tr_tpl_alloc_n(vm, tr_json_size(v), sizeof *pairs);
    void *iter = NULL;
    struct tr_json member;
    while (tr_json_next(v, &iter, &member)) {
        struct tpl_value key = tr_tpl_str(vm, member.key, member.key_bytes, TPL_DATA);
        pairs[n].key = key;
        pairs[n++].value = tr_tpl_str_is(key, "arguments") ? arguments(vm, i, &member)
                           : outer && tr_tpl_str_is(key, "function")
                               ? call(vm, i, &member, false)
                               : tr_tpl_from_json(vm, &member);
    }
    return tr_tpl_dict(vm, pairs, n);
}

static struct tpl_value calls(struct tpl_vm *vm, size_t i, const struct tr_json *v)
{
    if (tr_json_type(v) != TR_JSON_ARRAY)
        refuse(vm, i, ".tool_calls: expected a list");
    struct tpl_value list = tr_tpl_list(vm, tr_json_size(v), TPL_LIST);
    for (uint32_t k = 0; k < list.u.list->n; k++) {
        struct tr_json one = tr_json_at(v, k);
        list.u.list->v[k] = call(vm, i, &one, true);
    }
    return list;
}

/* The first reasoning that is given under any of its names; absent if none is. */
static struct tr_json reasoning(const struct tr_json *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t k = 0; k < TR_ARRAY_LEN(names); k++) {
        struct tr_json v = tr_json_get(message, names[k]);
        if (tr_json_given(&v))
            return v;
    }
    return (struct tr_json){0};
}

/* Only an assistant that thought or called may say nothing. */
static void check_content(struct tpl_vm *vm, size_t i, const struct tr_json *v)
{
    struct tr_json role = tr_json_get(v, "role"), given = tr_json_get(v, "content");
    const char *s;
    bool assistant = tr_json_as_string(&role, &s, NULL, NULL) == 0 && strcmp(s, "assistant") == 0;
    if (!tr_json_given(&given) && !assistant)
        refuse(vm, i,
               given.node ? ".content: expected a string or a list of text parts"
                          : ".content: missing");
}

static struct tpl_value message(struct tpl_vm *vm, size_t i, const struct tr_json *v, bool typed,
                                struct tpl_str **ret_continued)
{
    if (tr_json_type(v) != TR_JSON_OBJECT)
        refuse(vm, i, ": expected an object");
    size_t n = 0;
    struct tpl_pair *pairs = tr_tpl_alloc_n(vm, tr_json_size(v) + 2, sizeof *pairs);
    struct tr_json thought = reasoning(v), member, given = tr_json_get(v, "content");
    if (tr_json_given(&thought))
        pairs[n++] =
            (struct tpl_pair){tr_tpl_literal(vm, "thinking"), tr_tpl_from_json(vm, &thought)};
    bool has_role = false;
    void *iter = NULL;
    while (tr_json_next(v, &iter, &member)) {
        struct tpl_value key = tr_tpl_str(vm, member.key, member.key_bytes, TPL_DATA), value;
        bool is_content = tr_tpl_str_is(key, "content");
        if (!tr_json_given(&member) && !is_content)
            continue;
        if (tr_tpl_str_is(key, "role")) {
            value = role(vm, i, &member);
            has_role = true;
        } else if (is_content) {
            value =
                tr_json_given(&member) ? content(vm, i, &member, typed, ret_continued) : tpl_none();
        } else if (tr_tpl_str_is(key, "tool_calls")) {
            value = calls(vm, i, &member);
        } else {
            value = tr_tpl_from_json(vm, &member);
        }
        pairs[n++] = (struct tpl_pair){key, value};
    }
    if (!has_role)
        refuse(vm, i, ".role: missing");
    check_content(vm, i, v);
    if (ret_continued && !tr_json_given(&given))
        refuse(vm, i, ".content: there is nothing to continue");
    if (tr_json_given(&thought))
        pairs[n++] = (struct tpl_pair){tr_tpl_literal(vm, "reasoning_content"),
                                       tr_tpl_from_json(vm, &thought)};
    return tr_tpl_dict(vm, pairs, n);
}

struct tpl_value tr_tpl_messages(struct tpl_vm *vm, const struct tr_json *messages, bool typed,
                                 struct tpl_str **ret_continued)
{
    size_t n = tr_json_size(messages);
    if (tr_json_type(messages) != TR_JSON_ARRAY || n == 0)
        tr_tpl_fail_code(vm, TR_EINVAL, "messages",
                         "messages: expected a list of at least one message");
    struct tpl_value list = tr_tpl_list(vm, n, TPL_LIST);
    for (size_t i = 0; i < n; i++) {
        struct tr_json one = tr_json_at(messages, i);
        list.u.list->v[i] = message(vm, i, &one, typed, i + 1 == n ? ret_continued : NULL);
    }
    return list;
}
