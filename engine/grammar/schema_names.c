/* Names of properties: what propertyNames and patternProperties make of them. */
#include "engine/grammar/schema_internal.h"

/* One of the shape's lists has strings only. */
static bool lists_strings(const struct tr__shape *shape)
{
    for (uint32_t i = 0; i < shape->n_lists; i++) {
        bool strings = true;
        size_t n = shape->list_is_const[i] ? 1 : tr_json_size(shape->lists[i]);
        for (size_t k = 0; k < n; k++) {
            struct tr_json v =
                shape->list_is_const[i] ? *shape->lists[i] : tr_json_at(shape->lists[i], k);
            strings &= tr_json_type(&v) == TR_JSON_STRING;
        }
        if (strings)
            return true;
    }
    return false;
}

/* Leaves the words of the i-th list. */
static void meet_list(struct tr__schema *s, const struct tr__shape *shape, uint32_t i,
                      struct tr__dfa *ret)
{
    struct tr__dfa words = {0};
    uint32_t list = 0;
    const char *text;
    size_t n, count = shape->list_is_const[i] ? 1 : tr_json_size(shape->lists[i]);

    for (size_t k = 0; k < count; k++) {
        struct tr_json one =
            shape->list_is_const[i] ? *shape->lists[i] : tr_json_at(shape->lists[i], k);
        if (tr_json_as_string(&one, &text, &n, NULL) == 0)
            tr__expr_append(&s->x, &list, tr__expr_text(&s->x, text, n));
    }
    tr__dfa_of(&s->x, tr__expr_close(&s->x, TR__EXPR_ALT, list), TR__MATCH_WHOLE, s->spelling,
               &words);
    tr__dfa_meet(s->b, ret, &words, false);
}

bool tr__strings_of(struct tr__schema *s, const struct tr__terms *t, bool *ret_only,
                    struct tr__dfa *ret)
{
    struct tr__terms all;
    struct tr__shape shape;
    bool splits = false;

    *ret_only = true;
    if (!tr__open_terms(s, t, &all, &splits))
        return true;
    if (splits)
        return false;
    tr__shape_of(s, &all, &shape);
    *ret_only = shape.types == TR__TYPE_STRING || lists_strings(&shape);
    if (s->b->r || !(shape.types & TR__TYPE_STRING))
        return true;
    tr__string_language(s, &shape, ret);
    for (uint32_t i = 0; i < shape.n_lists && s->b->r == 0; i++)
        meet_list(s, &shape, i, ret);
    return true;
}

bool tr__names_language(struct tr__schema *s, const struct tr__shape *object, struct tr__dfa *ret)
{
    struct tr__terms t = {0};
    tr__site v = NULL, where = NULL;
    bool only;

    for (uint32_t i = 0; i < object->n_schemas; i++) {
        if ((v = tr__member(s, object->schemas[i], "propertyNames"))) {
            where = v;
            tr__term_add(s, &t, TR__TERM_IS, v, NULL);
        }
    }
    if (where && !tr__strings_of(s, &t, &only, ret))
        tr__schema_fail(s, TR_EUNSUPPORTED, where, NULL,
                        "alternatives are not supported in propertyNames");
    return where != NULL;
}

bool tr__name_among(const struct tr__schema *s, const struct tr__dfa *names, const char *name,
                    size_t n)
{
    struct tr_buf spelled = {0};
    bool allowed;

    tr__json_spell(&spelled, s->spelling, name, n);
    allowed = tr__dfa_accepts(names, spelled.len ? spelled.data : "", spelled.len);
    tr_buf_done(&spelled);
    return allowed;
}

bool tr__name_matches(struct tr__schema *s, const struct tr__pattern *p, const char *name, size_t n)
{
    struct tr__dfa d = {0};
    bool match;

    tr__pattern_language(s, p, &d);
    match = tr__name_among(s, &d, name, n);
    tr__dfa_done(&d);
    return match;
}
