/* $ref: JSON pointers, $anchor and $id inside the document. Nothing is ever fetched. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema_internal.h"

/* ---- names ---- */

static void add_name(struct tr__schema *s, tr__site object, const char *key, bool anchor)
{
    struct tr_json v = tr_json_get(object, key);
    const char *name;

    if (tr_json_type(&v) != TR_JSON_STRING || tr_json_as_string(&v, &name, NULL, NULL) < 0)
        return;
    if (s->n_named == s->named_cap) {
        uint32_t cap = s->named_cap ? 2 * s->named_cap : 16;
        struct tr__named *grown = realloc(s->named, cap * sizeof(*grown));
        if (!grown) {
            tr__nodes_fail(s->b, TR_ENOMEM, NULL, "out of memory");
            return;
        }
        s->named = grown;
        s->named_cap = cap;
    }
    s->named[s->n_named++] = (struct tr__named){name, object, anchor};
}

bool tr__is_one_of(const char *key, const char *const *list)
{
    while (*list && strcmp(*list, key) != 0)
        list++;
    return *list != NULL;
}

static void collect(struct tr__schema *s, tr__site site);

/* Each member of an object or a list. */
static void collect_members(struct tr__schema *s, tr__site site)
{
    struct tr_json v;
    void *iter = NULL;

    if (!site)
        return;
    for (size_t i = 0; tr_json_type(site) == TR_JSON_ARRAY && i < tr_json_size(site); i++)
        collect(s, tr__keep(s, tr_json_at(site, i)));
    while (tr_json_next(site, &iter, &v))
        collect(s, tr__keep(s, v));
}

/* A schema and those in it: behind unknown keywords stand none. */
static void collect(struct tr__schema *s, tr__site site)
{
    static const char *const maps[] = {"properties",
                                       "patternProperties",
                                       "$defs",
                                       "definitions",
                                       "dependentSchemas",
                                       "allOf",
                                       "anyOf",
                                       "oneOf",
                                       "prefixItems",
                                       NULL};
    static const char *const schemas[] = {"items",
                                          "additionalProperties",
                                          "contains",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "propertyNames",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          NULL};
    struct tr_json v;
    void *iter = NULL;

    if (!site || !tr__spend(s->b, 1) || tr_json_type(site) != TR_JSON_OBJECT)
        return;
    add_name(s, site, "$id", false);
    add_name(s, site, "$anchor", true);
    add_name(s, site, "$dynamicAnchor", true);
    while (tr_json_next(site, &iter, &v)) {
        if (tr__is_one_of(v.key, maps))
            collect_members(s, tr__keep(s, v));
        else if (tr__is_one_of(v.key, schemas))
            collect(s, tr__keep(s, v));
    }
}

void tr__refs_collect(struct tr__schema *s)
{
    if (s->root && tr_json_type(s->root) == TR_JSON_OBJECT)
        collect(s, s->root);
}

/* ---- looking up ---- */

/* The schema with a $id that site stands in, or the root. */
static tr__site base_of(const struct tr__schema *s, tr__site site)
{
    for (; site && site->up; site = site->up) {
        struct tr_json id = tr_json_get(site, "$id");
        if (tr_json_type(&id) == TR_JSON_STRING)
            return site;
    }
    return s->root;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* One part of a pointer, unescaped, NUL-terminated; *at goes behind it. */
static char *part_of(struct tr__schema *s, const char **at)
{
    size_t n = strcspn(*at, "/"), k = 0;
    char *out = tr__alloc(s, n + 1);

    for (size_t i = 0; out && i < n; i++) {
        char c = (*at)[i];
        if (c == '%' && i + 2 < n && hex((*at)[i + 1]) >= 0 && hex((*at)[i + 2]) >= 0) {
            c = (char)(hex((*at)[i + 1]) * 16 + hex((*at)[i + 2]));
            i += 2;
        }
        out[k++] = c;
    }
    size_t end = k;
    k = 0;
    for (size_t i = 0; out && i < end; i++) {
        char c = out[i];
        if (c == '~' && i + 1 < end && (out[i + 1] == '0' || out[i + 1] == '1'))
            c = out[++i] == '0' ? '~' : '/';
        out[k++] = c;
    }
    if (out)
        out[k] = '\0';
    *at += n;
    return out;
}

static tr__site follow(struct tr__schema *s, tr__site at, const char *pointer)
{
    while (at && *pointer == '/') {
        pointer++;
        const char *part = part_of(s, &pointer);
        if (!part)
            return NULL;
        if (tr_json_type(at) == TR_JSON_ARRAY) {
            char *end;
            unsigned long i = strtoul(part, &end, 10);
            struct tr_json v = tr_json_at(at, i);
            bool there = *part && !*end && tr_json_type(&v) != TR_JSON_ABSENT;
            at = there ? tr__keep(s, v) : NULL;
        } else {
            at = tr__member(s, at, part);
        }
    }
    return at;
}

/* The schema whose $id is the name, or ends with it behind a slash. */
static tr__site by_id(const struct tr__schema *s, const char *name, size_t n)
{
    for (uint32_t i = 0; i < s->n_named; i++) {
        size_t m = strcspn(s->named[i].name, "#");
        if (!s->named[i].anchor && m >= n && n > 0 &&
            memcmp(s->named[i].name + m - n, name, n) == 0 &&
            (m == n || s->named[i].name[m - n - 1] == '/'))
            return s->named[i].site;
    }
    return NULL;
}

tr__site tr__ref_target(struct tr__schema *s, tr__site schema)
{
    struct tr_json v = tr_json_get(schema, "$ref");
    const char *text, *fragment;
    tr__site base = NULL, found = NULL;
    size_t n;

    if (tr_json_as_string(&v, &text, NULL, NULL) < 0) {
        tr__schema_fail(s, TR_EINVAL, schema, "$ref", "expected a string");
        return NULL;
    }
    n = strcspn(text, "#");
    fragment = text[n] ? text + n + 1 : "";
    base = n == 0 ? base_of(s, schema) : by_id(s, text, n);
    if (!base) {
        tr__schema_fail(s, TR_EUNSUPPORTED, schema, "$ref",
                        "not in this document; nothing is fetched");
        return NULL;
    }
    if (*fragment == '\0' || *fragment == '/') {
        found = follow(s, base, fragment);
        if (!found && n == 0 && base != s->root)
            found = follow(s, s->root, fragment);
    } else {
        for (uint32_t i = 0; i < s->n_named && !found; i++)
            if (s->named[i].anchor && strcmp(s->named[i].name, fragment) == 0 &&
                base_of(s, s->named[i].site)->node == base->node)
                found = s->named[i].site;
    }
    if (!found)
        tr__schema_fail(s, TR_EINVAL, schema, "$ref", "there is nothing at this reference");
    return found;
}
