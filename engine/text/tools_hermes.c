/* Hermes calls: a JSON object with name and arguments. Its end is found by counting brackets,
 * because strings in it may hold anything, closing tags too. */
#include <string.h>

#include "engine/text/tags.h"
#include "engine/text/tools_internal.h"

/* Counts brackets up to the object's end. */
static void scan_object(struct tr_tool_parser *p)
{
    for (; p->scan < p->held.len && !p->json_end; p->scan++) {
        char c = p->held.data[p->scan];
        if (p->in_string) {
            p->in_string = p->escaped || c != '"';
            p->escaped = !p->escaped && c == '\\';
        } else if (c == '"') {
            p->in_string = true;
        } else if (c == '{' || c == '[') {
            p->depth++;
        } else if ((c == '}' || c == ']') && --p->depth == 0) {
            p->json_end = p->scan + 1;
        }
    }
}

enum tr_tool_found tr_tool_scan_hermes(struct tr_tool_parser *p, size_t *ret_end, size_t *ret_after)
{
    const char *s = p->held.data;
    size_t n = p->held.len;
    if (!p->json) {
        p->scan = tr_tool_skip_space(s, p->scan, n);
        if (p->scan == n)
            return TR_TOOL_MORE;
        if (s[p->scan] != '{')
            return TR_TOOL_MALFORMED;
        p->json = p->scan;
    }
    scan_object(p);
    if (!p->json_end)
        return TR_TOOL_MORE;
    bool partial;
    size_t tag = tr_tool_skip_space(s, p->json_end, n);
    *ret_end = p->json_end;
    *ret_after = tag + sizeof TR_TOOL_CLOSE - 1;
    if (tr_tag_at(s + tag, n - tag, TR_TOOL_CLOSE, &partial))
        return TR_TOOL_COMPLETE;
    return partial ? TR_TOOL_MORE : TR_TOOL_MALFORMED;
}

/* The end of the JSON string that begins at `at`. */
static size_t string_end(const char *s, size_t at, size_t n)
{
    for (at++; at < n && s[at] != '"'; at++)
        at += s[at] == '\\';
    return at + 1;
}

/* The end of a value in valid JSON. */
static size_t value_end(const char *s, size_t at, size_t n)
{
    int depth = 0;
    while (at < n) {
        char c = s[at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            break;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        at = c == '"' ? string_end(s, at, n) : at + 1;
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            break;
    }
    return at;
}

/* The text of the member `arguments` of an object that is valid JSON; false if it has none. */
static bool find_arguments(const char *s, size_t n, size_t *ret_begin, size_t *ret_end)
{
    static const char key[] = "\"arguments\"";
    for (size_t at = tr_tool_skip_space(s, 0, n) + 1; at < n;) {
        size_t begin = tr_tool_skip_space(s, at, n);
        if (begin >= n || s[begin] != '"')
            return false;
        size_t end = string_end(s, begin, n);
        bool found = end - begin == sizeof key - 1 && memcmp(s + begin, key, sizeof key - 1) == 0;
        at = tr_tool_skip_space(s, end, n) + 1; /* the colon */
        begin = tr_tool_skip_space(s, at, n);
        end = value_end(s, begin, n);
        if (found) {
            *ret_begin = begin;
            *ret_end = end;
            return true;
        }
        at = tr_tool_skip_space(s, end, n) + 1; /* the comma, or the end */
    }
    return false;
}

/* Arguments as the model wrote them; an object in a string is taken out of it. */
static bool take_arguments(const char *body, size_t n, const struct tr_json *v, struct tr_buf *out)
{
    const char *s;
    size_t len, begin, end;
    if (!tr_json_given(v)) {
        tr_buf_adds(out, "{}");
        return true;
    }
    if (tr_json_type(v) == TR_JSON_OBJECT) {
        bool found = find_arguments(body, n, &begin, &end);
        if (found)
            tr_buf_add(out, body + begin, end - begin);
        return found;
    }
    struct json_t *doc;
    if (tr_json_as_string(v, &s, &len, NULL) < 0 || tr_json_parse(&doc, s, len, NULL) < 0)
        return false;
    struct tr_json inner = tr_json_root(doc, NULL);
    bool object = tr_json_type(&inner) == TR_JSON_OBJECT;
    tr_json_free(doc);
    tr_buf_add(out, s, len);
    return object;
}

int tr_tool_read_hermes(const char *body, size_t n, struct tr_tool_call *ret, bool *ret_ok)
{
    struct json_t *doc;
    const char *name;
    size_t len;
    *ret_ok = false;
    int r = tr_json_parse(&doc, body, n, NULL);
    if (r < 0)
        return r == TR_ENOMEM ? r : 0;
    struct tr_json root = tr_json_root(doc, NULL);
    struct tr_json arguments = tr_json_get(&root, "arguments");
    if (tr_json_string(&root, "name", &name, &len, NULL) == 0 && len > 0) {
        tr_buf_add(&ret->name, name, len);
        *ret_ok = take_arguments(body, n, &arguments, &ret->arguments);
    }
    tr_json_free(doc);
    return ret->name.oom || ret->arguments.oom ? TR_ENOMEM : 0;
}
