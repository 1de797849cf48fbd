/* unevaluatedProperties and unevaluatedItems: what is left over by the schemas of one place. */
#include "engine/grammar/schema_internal.h"

static bool is_true(tr__site v)
{
    bool value = false;

    return v && tr_json_as_bool(v, &value, NULL) == 0 && value;
}

static bool looks_at_the_rest(struct tr__schema *s, tr__site schema, const char *key)
{
    tr__site v = tr__member(s, schema, key);

    return v && !is_true(v);
}

const struct tr__scope *tr__scope_enter(struct tr__schema *s, tr__site schema,
                                        const struct tr__scope *up)
{
    struct tr__scope *scope;

    if (!looks_at_the_rest(s, schema, "unevaluatedProperties") &&
        !looks_at_the_rest(s, schema, "unevaluatedItems"))
        return up;
    for (const struct tr__scope *x = s->scopes; x && tr__spend(s->b, 1); x = x->next)
        if (x->up == up && x->site->node == schema->node)
            return x;
    if (!(scope = tr__alloc(s, sizeof(*scope))))
        return up;
    *scope = (struct tr__scope){up, s->scopes, schema};
    s->scopes = scope;
    return scope;
}

bool tr__in_scope(const struct tr__scope *scope, tr__site schema)
{
    while (scope && scope->site->node != schema->node)
        scope = scope->up;
    return scope != NULL;
}

tr__site tr__unevaluated_item(struct tr__schema *s, const struct tr__shape *shape, uint32_t i,
                              uint32_t place)
{
    tr__site rest = tr__member(s, shape->schemas[i], "unevaluatedItems");

    if (!rest || is_true(rest))
        return NULL;
    for (uint32_t k = 0; k < shape->n_schemas && s->b->r == 0; k++) {
        tr__site schema = shape->schemas[k], prefix;
        if (!tr__in_scope(shape->scopes[k], shape->schemas[i]))
            continue;
        if (tr__member(s, schema, "contains"))
            tr__schema_fail(s, TR_EUNSUPPORTED, shape->schemas[i], "unevaluatedItems",
                            "not supported together with contains");
        prefix = tr__member(s, schema, "prefixItems");
        if ((prefix && place < tr_json_size(prefix)) || tr__member(s, schema, "items") ||
            (k != i && tr__member(s, schema, "unevaluatedItems")))
            return NULL;
    }
    return rest;
}
