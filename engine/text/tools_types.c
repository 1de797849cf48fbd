/* The types of parameters, as far as they decide how a value is written: text or JSON. What reads
 * the values and what constrains them must agree, so both ask here. */
#include <stdlib.h>
#include <string.h>

#include "engine/text/tools.h"

enum { MAX_DEPTH = 8, MAX_STEPS = 400, PART_BYTES = 128 };

struct finding {
    const struct tr_json *root;
    const char *name;
    tr_tool_name_fn *fn;
    void *arg;
    int steps; /* taken: what goes further is of any type */
};

static unsigned type_named(const struct tr_json *v)
{
    const char *s;
    if (tr_json_as_string(v, &s, NULL, NULL) < 0)
        return TR_TOOL_ANY;
    return strcmp(s, "string") == 0 ? TR_TOOL_STRING
           : strcmp(s, "null") == 0 ? TR_TOOL_NULLED
                                    : TR_TOOL_OTHER;
}

static unsigned type_of_value(const struct tr_json *v)
{
    enum tr_json_type type = tr_json_type(v);
    return type == TR_JSON_STRING ? TR_TOOL_STRING
           : type == TR_JSON_NULL ? TR_TOOL_NULLED
                                  : TR_TOOL_OTHER;
}

static unsigned unite(const struct tr_json *list, unsigned (*of)(const struct tr_json *v))
{
    unsigned types = 0;
    for (size_t i = 0; i < tr_json_size(list); i++) {
        struct tr_json v = tr_json_at(list, i);
        types |= of(&v);
    }
    return types;
}

static unsigned named(const struct tr_json *type)
{
    return tr_json_type(type) == TR_JSON_ARRAY ? unite(type, type_named) : type_named(type);
}

/* ---- through a schema ---- */

typedef unsigned types_fn(struct finding *f, const struct tr_json *schema, int depth);

/* A local pointer's parts; false: it is none that is followed here. */
static bool next_part(const char **at, char part[PART_BYTES])
{
    size_t n = 0;
    for (++*at; **at && **at != '/'; ++*at) {
        char c = **at;
        if (c == '%' || n == PART_BYTES - 1)
            return false;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
            c = *++*at == '0' ? '~' : '/';
        part[n++] = c;
    }
    part[n] = '\0';
    return true;
}

static unsigned follow(struct finding *f, const struct tr_json *at, const char *pointer, int depth,
                       types_fn *of)
{
    char part[PART_BYTES];
    if (!*pointer)
        return of(f, at, depth + 1);
    if (*pointer != '/' || ++f->steps > MAX_STEPS || !next_part(&pointer, part))
        return TR_TOOL_ANY;
    bool list = tr_json_type(at) == TR_JSON_ARRAY;
    struct tr_json v = list ? tr_json_at(at, strtoul(part, NULL, 10)) : tr_json_get(at, part);
    return tr_json_type(&v) == TR_JSON_ABSENT ? TR_TOOL_ANY : follow(f, &v, pointer, depth, of);
}

/* What `of` finds in the schemas that this one joins: all of allOf and $ref, some of a union. */
static unsigned through(struct finding *f, const struct tr_json *schema, int depth, types_fn *of)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    struct tr_json ref = tr_json_get(schema, "$ref");
    unsigned types = TR_TOOL_ANY;
    const char *s;
    for (size_t k = 0; k < TR_ARRAY_LEN(lists); k++) {
        struct tr_json list = tr_json_get(schema, lists[k]);
        unsigned some = k == 0 ? TR_TOOL_ANY : 0;
        for (size_t i = 0; i < tr_json_size(&list); i++) {
            struct tr_json v = tr_json_at(&list, i);
            unsigned one = of(f, &v, depth + 1);
            some = k == 0 ? some & one : some | one;
        }
        types &= tr_json_size(&list) > 0 ? some : TR_TOOL_ANY;
    }
    if (tr_json_as_string(&ref, &s, NULL, NULL) == 0)
        types &= *s == '#' ? follow(f, f->root, s + 1, depth, of) : TR_TOOL_ANY;
    return types;
}

/* The types of a schema's values. */
static unsigned types_of(struct finding *f, const struct tr_json *schema, int depth)
{
    struct tr_json type = tr_json_get(schema, "type"), value = tr_json_get(schema, "const");
    struct tr_json list = tr_json_get(schema, "enum"), not = tr_json_get(schema, "not");
    struct tr_json not_type = tr_json_get(&not, "type");
    if (depth > MAX_DEPTH || ++f->steps > MAX_STEPS)
        return TR_TOOL_ANY;
    unsigned types = through(f, schema, depth, types_of);
    if (tr_json_given(&type))
        types &= named(&type);
    if (tr_json_type(&value) != TR_JSON_ABSENT)
        types &= type_of_value(&value);
    if (tr_json_size(&not ) == 1 && tr_json_given(&not_type))
        types &= ~named(&not_type) | TR_TOOL_OTHER; /* there are several other types */
    if (tr_json_type(&list) == TR_JSON_ARRAY)
        types &= unite(&list, type_of_value);
    return types;
}

/* The types of the parameter, by a schema of all. */
static unsigned types_in(struct finding *f, const struct tr_json *schema, int depth)
{
    struct tr_json all = tr_json_get(schema, "properties"), patterns, v = {0};
    if (depth > MAX_DEPTH || ++f->steps > MAX_STEPS)
        return TR_TOOL_ANY;
    unsigned types = through(f, schema, depth, types_in);
    if (f->name)
        v = tr_json_get(&all, f->name);
    patterns = tr_json_get(schema, "patternProperties");
    if (tr_json_type(&v) == TR_JSON_ABSENT && tr_json_size(&patterns) == 0)
        v = tr_json_get(schema, "additionalProperties");
    return tr_json_type(&v) == TR_JSON_OBJECT ? types & types_of(f, &v, depth + 1) : types;
}

static unsigned tell_names(struct finding *f, const struct tr_json *schema, int depth)
{
    struct tr_json all = tr_json_get(schema, "properties"), v;
    void *iter = NULL;
    if (depth > MAX_DEPTH || ++f->steps > MAX_STEPS)
        return TR_TOOL_ANY;
    while (tr_json_next(&all, &iter, &v))
        f->fn(f->arg, v.key);
    return through(f, schema, depth, tell_names);
}

void tr_tool_parameter_names(const struct tr_json *parameters, tr_tool_name_fn *fn, void *arg)
{
    struct finding f = {.root = parameters, .fn = fn, .arg = arg};
    tell_names(&f, parameters, 0);
}

unsigned tr_tool_parameter_types(const struct tr_json *parameters, const char *name)
{
    struct finding f = {.root = parameters, .name = name};
    return types_in(&f, parameters, 0);
}
