#include "server/call/constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/cache.h"
#include "server/call/call.h"

enum { MAX_CHOICES = 65536 };

struct maker {
    const struct srv_call *call;
    struct tr_grammar *made;
    bool compact;
};

/* What could spell one of the names otherwise has an escape. */
const char *const srv_constraint_words[SRV_N_CONSTRAINT_WORDS] = {
    "format\"", "structured_outputs", "guided_", "grammar\"", "json_schema", "\\u"};

/* ---- to a grammar ---- */

static int compile(struct maker *m, const struct tr_grammar_source *source, const struct tr_json *v,
                   struct tr_err *err)
{
    struct tr_engine *e = m->call->context.engine;
    const struct tr_grammar_vocab *vocab = e ? tr_engine_grammar_vocab(e) : NULL;
    struct tr_err why = {0};
    if (e && !vocab)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct tr_grammar_cache *cache = m->call->context.grammars;
    int r = cache ? tr_grammar_cache_get(cache, &m->made, source, vocab, &why)
                  : tr_grammar_compile(&m->made, source, vocab, &why);
    if (r == 0)
        return 0;
    if (r == TR_ENOMEM)
        return tr_err_set(err, r, NULL, "out of memory");
    r = tr_json_fail(v, err, "%s", why.msg[0] ? why.msg : tr_err_text(r));
    size_t n = strlen(err->param);
    snprintf(err->param + n, sizeof err->param - n, "%s", why.param);
    return r;
}

static int compile_choices(struct maker *m, struct tr_grammar_source *source,
                           const struct tr_json *v, struct tr_err *err)
{
    size_t n = tr_json_size(v);
    int r = tr_json_expect(v, TR_JSON_ARRAY, err);
    if (r == 0 && (n == 0 || n > MAX_CHOICES))
        r = tr_json_fail(v, err, "from 1 to %d choices", MAX_CHOICES);
    if (r < 0)
        return r;
    struct tr_grammar_text *choices = calloc(n + 1, sizeof *choices);
    if (!choices)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct tr_json item = tr_json_at(v, i);
        r = tr_json_as_string(&item, &choices[i].bytes, &choices[i].n, err);
    }
    source->choices = choices;
    source->n_choices = (int)n;
    if (r == 0)
        r = compile(m, source, v, err);
    free(choices);
    return r;
}

/* A schema is a value, or a string that holds it. */
static int compile_schema(struct maker *m, struct tr_grammar_source *source,
                          const struct tr_json *v, struct tr_err *err)
{
    struct tr_buf text = {0};
    tr_json_write(&text, v);
    source->text = (struct tr_grammar_text){text.data, text.len};
    int r =
        text.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : compile(m, source, v, err);
    tr_buf_done(&text);
    return r;
}

static int add(struct maker *m, enum tr_grammar_kind kind, const struct tr_json *v,
               struct tr_err *err)
{
    struct tr_grammar_source source = {
        .kind = kind, .compact = m->compact, .indent = TR_GRAMMAR_INDENT_MAX};
    bool text = tr_json_type(v) == TR_JSON_STRING;
    if (m->made)
        return tr_json_fail(v, err, "a second constraint of one answer");
    if (kind == TR_GRAMMAR_JSON_OBJECT)
        return compile(m, &source, v, err);
    if (kind == TR_GRAMMAR_CHOICE)
        return compile_choices(m, &source, v, err);
    if (kind == TR_GRAMMAR_JSON_SCHEMA && !text)
        return compile_schema(m, &source, v, err);
    int r = tr_json_as_string(v, &source.text.bytes, &source.text.n, err);
    return r < 0 ? r : compile(m, &source, v, err);
}

/* ---- the fields ---- */

/* OpenAI's response_format, and what the other APIs have of it: the schema stands in json_schema or
 * beside the type. */
static int take_format(struct maker *m, const struct tr_json *v, struct tr_err *err)
{
    const char *type = "";
    size_t n;
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_expect(v, TR_JSON_OBJECT, err);
    if (r == 0)
        r = tr_json_string(v, "type", &type, &n, err);
    if (r < 0 || strcmp(type, "text") == 0)
        return r;
    bool object = strcmp(type, "json_object") == 0;
    if (!object && strcmp(type, "json_schema") != 0)
        return tr_json_fail(v, err, "the types are text, json_object and json_schema");
    struct tr_json inner = tr_json_get(v, "json_schema");
    struct tr_json schema = tr_json_get(!object && tr_json_given(&inner) ? &inner : v, "schema");
    if (tr_json_given(&schema))
        return add(m, TR_GRAMMAR_JSON_SCHEMA, &schema, err);
    return object ? add(m, TR_GRAMMAR_JSON_OBJECT, v, err) : tr_json_fail(&schema, err, "missing");
}

static int take_member(struct maker *m, const struct tr_json *v, struct tr_err *err)
{
    static const struct {
        const char *name;
        enum tr_grammar_kind kind;
    } members[] = {{"json", TR_GRAMMAR_JSON_SCHEMA},
                   {"regex", TR_GRAMMAR_REGEX},
                   {"choice", TR_GRAMMAR_CHOICE},
                   {"grammar", TR_GRAMMAR_EBNF}};
    bool flag = false;
    for (size_t i = 0; i < TR_ARRAY_LEN(members); i++)
        if (strcmp(v->key, members[i].name) == 0)
            return add(m, members[i].kind, v, err);
    if (tr_json_type(v) == TR_JSON_BOOL && tr_json_as_bool(v, &flag, NULL) == 0 && !flag)
        return 0;
    if (strcmp(v->key, "json_object") == 0)
        return flag ? add(m, TR_GRAMMAR_JSON_OBJECT, v, err) : tr_json_expect(v, TR_JSON_BOOL, err);
    if (strcmp(v->key, "disable_any_whitespace") == 0 || strcmp(v->key, "disable_fallback") == 0)
        return tr_json_expect(v, TR_JSON_BOOL, err);
    return tr_json_fail(v, err, "not supported");
}

static int take_outputs(struct maker *m, const struct tr_json *v, struct tr_err *err)
{
    void *iter = NULL;
    struct tr_json item;
    if (!tr_json_given(v))
        return 0;
    int r = tr_json_expect(v, TR_JSON_OBJECT, err);
    if (r == 0)
        r = tr_json_opt_bool(v, "disable_any_whitespace", &m->compact, err);
    while (r == 0 && tr_json_next(v, &iter, &item))
        if (tr_json_given(&item))
            r = take_member(m, &item, err);
    m->compact = false;
    return r;
}

/* Empty texts and lists ask for nothing. */
static bool is_empty(const struct tr_json *v)
{
    const char *s;
    size_t n = 0;
    return (tr_json_type(v) == TR_JSON_STRING && tr_json_as_string(v, &s, &n, NULL) == 0 &&
            n == 0) ||
           (tr_json_type(v) == TR_JSON_ARRAY && tr_json_size(v) == 0);
}

static int take_names(struct maker *m, const struct srv_params *p, struct tr_err *err)
{
    const struct {
        const struct tr_json *v;
        enum tr_grammar_kind kind;
    } names[] = {{&p->guided_json, TR_GRAMMAR_JSON_SCHEMA}, {&p->guided_regex, TR_GRAMMAR_REGEX},
                 {&p->guided_choice, TR_GRAMMAR_CHOICE},    {&p->guided_grammar, TR_GRAMMAR_EBNF},
                 {&p->json_schema, TR_GRAMMAR_JSON_SCHEMA}, {&p->grammar, TR_GRAMMAR_GBNF}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < TR_ARRAY_LEN(names); i++)
        if (tr_json_given(names[i].v) && !is_empty(names[i].v))
            r = add(m, names[i].kind, names[i].v, err);
    return r;
}

int srv_constraint_read(struct tr_grammar **ret, const struct srv_call *c, struct tr_err *err)
{
    const struct srv_params *p = &c->params;
    struct maker m = {.call = c};
    struct tr_json text = tr_json_get(&p->text, "format");
    struct tr_json config = tr_json_get(&p->output_config, "format");
    int r = take_format(&m, &p->response_format, err);
    if (r == 0)
        r = take_format(&m, &text, err);
    if (r == 0)
        r = take_format(&m, &config, err);
    if (r == 0)
        r = take_format(&m, &p->output_format, err);
    if (r == 0)
        r = take_outputs(&m, &p->structured_outputs, err);
    if (r == 0)
        r = take_names(&m, p, err);
    if (r == 0 && m.made && tr_json_size(&c->rules.tools) > 0 && !c->rules.hide_calls)
        r = tr_err_set(err, TR_EINVAL, "tools",
                       "tools: a constrained answer has no calls; send tool_choice \"none\"");
    if (r == 0 && m.made)
        *ret = m.made;
    else if (m.made)
        tr_grammar_unref(m.made);
    return r;
}
