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
    size_t first = tr_tool_skip_space(s, body, n);
    bool partial, found;
    if (!tr_tag_at(s + first, n - first, function_open, &partial))
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

/* The schema of a parameter of a function; absent if nobody states it. */
static struct tr_json property(struct tr_json chain[static 5], const struct tr_json *tools,
                               const char *name, const char *key)
{
    size_t n = tools ? tr_json_size(tools) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *s;
        chain[0] = tr_json_at(tools, i);
        chain[1] = tr_json_get(&chain[0], "function");
        if (tr_json_string(&chain[1], "name", &s, NULL, NULL) < 0 || strcmp(s, name) != 0)
            continue;
        chain[2] = tr_json_get(&chain[1], "parameters");
        chain[3] = tr_json_get(&chain[2], "properties");
        return tr_json_get(&chain[3], key);
    }
    return (struct tr_json){0};
}

enum { OTHER = 1, STRING = 2, NULLED = 4 }; /* types a schema allows */

static unsigned type_bit(const struct tr_json *v)
{
    const char *s;
    if (tr_json_as_string(v, &s, NULL, NULL) < 0)
        return 0;
    return strcmp(s, "string") == 0 ? STRING : strcmp(s, "null") == 0 ? NULLED : OTHER;
}

/* The types in `type`, and in the branches of anyOf and oneOf. */
static unsigned types_of(const struct tr_json *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    struct tr_json type = tr_json_get(schema, "type");
    unsigned types = type_bit(&type);
    for (size_t i = 0; i < tr_json_size(&type); i++) {
        struct tr_json one = tr_json_at(&type, i);
        types |= type_bit(&one);
    }
    for (size_t u = 0; depth > 0 && u < TR_ARRAY_LEN(unions); u++) {
        struct tr_json branches = tr_json_get(schema, unions[u]);
        for (size_t i = 0; i < tr_json_size(&branches); i++) {
            struct tr_json branch = tr_json_at(&branches, i);
            types |= types_of(&branch, depth - 1);
        }
    }
    return types;
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
    bool null = types & NULLED && same_word(s + begin, end - begin, "null");
    if (!null && (types == 0 || types & STRING)) {
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
static bool take_word(const char *s, size_t *at, size_t n, const char *open, struct tr_buf *ret)
{
    if (!starts(s, *at, n, open))
        return false;
    size_t begin = *at + strlen(open);
    const char *close = memchr(s + begin, '>', n - begin);
    if (!close || close == s + begin || memchr(s + begin, '\n', (size_t)(close - s) - begin) ||
        memchr(s + begin, '\0', (size_t)(close - s) - begin))
        return false;
    tr_buf_clear(ret);
    tr_buf_add(ret, s + begin, (size_t)(close - s) - begin);
    *at = (size_t)(close - s) + 1;
    return !ret->oom;
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

/* Whether the key has a parameter further on too: the last one counts. */
static bool repeated(const char *s, size_t at, size_t n, const struct tr_buf *key)
{
    struct tr_buf tag = {0};
    tr_buf_adds(&tag, parameter_open);
    tr_buf_add(&tag, key->data, key->len);
    tr_buf_addc(&tag, '>');
    bool found = !tag.oom && memmem(s + at, n - at, tag.data, tag.len);
    tr_buf_done(&tag);
    return found;
}

static bool read_parameters(const struct tr_json *tools, const char *s, size_t at, size_t n,
                            struct tr_tool_call *ret, struct tr_buf *key)
{
    tr_buf_addc(&ret->arguments, '{');
    for (bool first = true;;) {
        size_t end, after;
        at = tr_tool_skip_space(s, at, n);
        if (at == n || starts(s, at, n, function_close))
            break;
        if (!take_word(s, &at, n, parameter_open, key) || !find_value(s, at, n, &end, &after))
            return false;
        if (!repeated(s, after, n, key)) {
            struct tr_json chain[5], schema = property(chain, tools, ret->name.data, key->data);
            tr_buf_adds(&ret->arguments, first ? "" : ", ");
            tr_json_quote(&ret->arguments, key->data, key->len);
            tr_buf_adds(&ret->arguments, ": ");
            size_t begin = at + (at < end && s[at] == '\n');
            size_t stop = end - (end > begin && s[end - 1] == '\n');
            put_value(&ret->arguments, s + begin, stop - begin, types_of(&schema, 4));
            first = false;
        }
        at = after;
    }
    tr_buf_addc(&ret->arguments, '}');
    if (at < n)
        at = tr_tool_skip_space(s, at + sizeof function_close - 1, n);
    return at == n;
}

int tr_tool_read_xml(const struct tr_json *tools, const char *body, size_t n,
                     struct tr_tool_call *ret, bool *ret_ok)
{
    struct tr_buf key = {0};
    size_t at = tr_tool_skip_space(body, 0, n);
    *ret_ok = take_word(body, &at, n, function_open, &ret->name) &&
              read_parameters(tools, body, at, n, ret, &key);
    bool oom = key.oom || ret->name.oom || ret->arguments.oom;
    tr_buf_done(&key);
    return oom ? TR_ENOMEM : 0;
}
