/*
 * Qwen3-Coder calls:
 *
 *     <function=NAME>
 *     <parameter=KEY>
 *     VALUE
 *     </parameter>
 *     </function>
 *
 * A value is text without its first and last line break. What it means depends on the type that the
 * tool's schema gives the parameter.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/text/tags.h"
#include "engine/text/tools_internal.h"

static const char function_open[] = "<function=", function_close[] = "</function>";
static const char parameter_open[] = "<parameter=", parameter_close[] = "</parameter>";

static bool starts(const char *s, size_t at, size_t n, const char *with)
{
    bool partial;
    return tr_tag_at(s + at, n - at, with, &partial);
}

static bool ends(const char *s, size_t n, const char *with)
{
    size_t len = strlen(with);
    return n >= len && memcmp(s + n - len, with, len) == 0;
}

/* The call ends with the first closing tag behind a </function> or a </parameter>: values may hold
 * others. */
enum tr_tool_found tr_tool_scan_xml(struct tr_tool_parser *p, size_t *ret_end, size_t *ret_after)
{
    const char *s = p->held.data;
    size_t n = p->held.len, body = p->tag + sizeof TR_TOOL_OPEN - 1;
    bool partial, found;
    p->begin = tr_tool_skip_space(s, TR_MAX(p->begin, body), n);
    if (!tr_tag_at(s + p->begin, n - p->begin, function_open, &partial))
        return partial ? TR_TOOL_MORE : TR_TOOL_MALFORMED;
    for (;;) {
        size_t at = p->scan + tr_tag_search(s + p->scan, n - p->scan, TR_TOOL_CLOSE, &found);
        p->scan = at;
        if (!found)
            return TR_TOOL_MORE;
        p->scan += sizeof TR_TOOL_CLOSE - 1;
        size_t end = at;
        while (end > body && tr_tool_skip_space(s, end - 1, end) == end)
            end--;
        if (ends(s + body, end - body, function_close) ||
            ends(s + body, end - body, parameter_close)) {
            *ret_end = end;
            *ret_after = p->scan;
            return TR_TOOL_COMPLETE;
        }
    }
}

/* Where the types of a function's parameters stand. */
struct types {
    struct tr_json tool, function, parameters;
};

static void find_types(struct types *t, const struct tr_json *tools, const char *name)
{
    size_t n = tools ? tr_json_size(tools) : 0;
    *t = (struct types){0};
    for (size_t i = 0; i < n; i++) {
        const char *s;
        t->tool = tr_json_at(tools, i);
        t->function = tr_json_get(&t->tool, "function");
        if (tr_json_string(&t->function, "name", &s, NULL, NULL) < 0 || strcmp(s, name) != 0)
            continue;
        t->parameters = tr_json_get(&t->function, "parameters");
        return;
    }
}

static bool is_json(const char *s, size_t n)
{
    struct json_t *doc;
    if (tr_json_parse(&doc, s, n, NULL) < 0)
        return false;
    tr_json_free(doc);
    return true;
}

static bool same_word(const char *s, size_t n, const char *word)
{
    return strlen(word) == n && strncasecmp(s, word, n) == 0;
}

/* A value as JSON. Where a string is allowed (or nothing is known) the text stays text. */
static void put_value(struct tr_buf *out, const char *s, size_t n, unsigned types)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t begin = tr_tool_skip_space(s, 0, n), end = n;
    while (end > begin && tr_tool_skip_space(s, end - 1, end) == end)
        end--;
    bool null = types & TR_TOOL_NULLED && same_word(s + begin, end - begin, "null");
    if (!null && (types == 0 || types & TR_TOOL_STRING)) {
        tr_json_quote(out, s, n);
        return;
    }
    for (size_t i = 0; i < TR_ARRAY_LEN(words); i++) {
        if (same_word(s + begin, end - begin, words[i])) {
            tr_buf_adds(out, words[i]);
            return;
        }
    }
    if (is_json(s + begin, end - begin))
        tr_buf_add(out, s + begin, end - begin);
    else
        tr_json_quote(out, s, n);
}

/* The word after `open` at `at`, up to '>'; false if there is none. *at moves behind the '>'. */
static bool take_word(const char *s, size_t *at, size_t n, const char *open, const char **ret,
                      size_t *ret_n)
{
    if (!starts(s, *at, n, open))
        return false;
    const char *begin = s + *at + strlen(open),
               *close = memchr(begin, '>', (size_t)(s + n - begin));
    if (!close || close == begin || memchr(begin, '\n', (size_t)(close - begin)) ||
        memchr(begin, '\0', (size_t)(close - begin)))
        return false;
    *ret = begin;
    *ret_n = (size_t)(close - begin);
    *at = (size_t)(close - s) + 1;
    return true;
}

/* The end of the value that begins at `at`: the closing tag that is followed by another parameter
 * or the end of the function. */
static bool find_value(const char *s, size_t at, size_t n, size_t *ret_end, size_t *ret_after)
{
    while (at < n) {
        const char *close = memmem(s + at, n - at, parameter_close, sizeof parameter_close - 1);
        if (!close)
            return false;
        *ret_end = (size_t)(close - s);
        *ret_after = at = *ret_end + sizeof parameter_close - 1;
        size_t next = tr_tool_skip_space(s, at, n);
        if (next == n || starts(s, next, n, parameter_open) || starts(s, next, n, function_close))
            return true;
    }
    return false;
}

/* A parameter as it stands in the text. */
struct parameter {
    const char *key, *value;
    size_t key_bytes, value_bytes;
};

struct parameters {
    struct parameter *items; /* owned */
    size_t n, cap;
    bool oom;
};

static void add_parameter(struct parameters *list, struct parameter p)
{
    if (list->n == list->cap) {
        size_t cap = TR_MAX(list->cap * 2, 8);
        struct parameter *grown = realloc(list->items, cap * sizeof *grown);
        list->oom |= !grown;
        if (!grown)
            return;
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->n++] = p;
}

static int by_place(const void *a, const void *b)
{
    const struct parameter *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static int by_key(const void *a, const void *b)
{
    const struct parameter *x = a, *y = b;
    int r = memcmp(x->key, y->key, TR_MIN(x->key_bytes, y->key_bytes));
    if (r == 0)
        r = (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
    return r ? r : by_place(a, b);
}

static bool same_key(const struct parameter *x, const struct parameter *y)
{
    return x->key_bytes == y->key_bytes && memcmp(x->key, y->key, x->key_bytes) == 0;
}

/* Of parameters with the same key the last one counts. */
static void drop_repeated(struct parameters *list)
{
    size_t kept = 0;
    if (list->n < 2)
        return;
    qsort(list->items, list->n, sizeof *list->items, by_key);
    for (size_t i = 0; i < list->n; i++)
        if (i + 1 == list->n || !same_key(&list->items[i], &list->items[i + 1]))
            list->items[kept++] = list->items[i];
    list->n = kept;
    qsort(list->items, list->n, sizeof *list->items, by_place);
}

/* The parameters up to the end of the function, and nothing behind it. */
static bool find_parameters(const char *s, size_t at, size_t n, struct parameters *ret)
{
    for (;;) {
        size_t end, after;
        struct parameter p;
        at = tr_tool_skip_space(s, at, n);
        if (at == n || starts(s, at, n, function_close))
            break;
        if (!take_word(s, &at, n, parameter_open, &p.key, &p.key_bytes) ||
            !find_value(s, at, n, &end, &after))
            return false;
        size_t begin = at + (at < end && s[at] == '\n');
        p.value = s + begin;
        p.value_bytes = end - (end > begin && s[end - 1] == '\n') - begin;
        add_parameter(ret, p);
        at = after;
    }
    if (at < n)
        at = tr_tool_skip_space(s, at + sizeof function_close - 1, n);
    return at == n;
}

static void put_parameters(struct tr_buf *out, const struct parameters *list,
                           const struct types *types)
{
    struct tr_buf key = {0};
    tr_buf_addc(out, '{');
    for (size_t i = 0; i < list->n; i++) {
        const struct parameter *p = &list->items[i];
        tr_buf_clear(&key);
        tr_buf_add(&key, p->key, p->key_bytes);
        unsigned known = key.oom ? 0 : tr_tool_parameter_types(&types->parameters, key.data);
        tr_buf_adds(out, i > 0 ? ", " : "");
        tr_json_quote(out, p->key, p->key_bytes);
        tr_buf_adds(out, ": ");
        put_value(out, p->value, p->value_bytes, known == TR_TOOL_ANY ? 0 : known);
    }
    tr_buf_addc(out, '}');
    out->oom |= key.oom;
    tr_buf_done(&key);
}

int tr_tool_read_xml(const struct tr_json *tools, const char *body, size_t n,
                     struct tr_tool_call *ret, bool *ret_ok)
{
    struct parameters list = {0};
    const char *name;
    size_t name_bytes, at = tr_tool_skip_space(body, 0, n);
    *ret_ok = take_word(body, &at, n, function_open, &name, &name_bytes) &&
              find_parameters(body, at, n, &list);
    if (*ret_ok) {
        tr_buf_add(&ret->name, name, name_bytes);
        drop_repeated(&list);
        struct types types;
        find_types(&types, tools, ret->name.oom ? "" : ret->name.data);
        put_parameters(&ret->arguments, &list, &types);
    }
    bool oom = list.oom || ret->name.oom || ret->arguments.oom;
    free(list.items);
    return oom ? TR_ENOMEM : 0;
}
