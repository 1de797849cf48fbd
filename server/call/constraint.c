#include "server/call/constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/cache.h"
#include "server/call/call.h"
#include "server/call/demand.h"

enum { MAX_CHOICES = 65536 };

/* The one constraint of an answer's text, and what it borrows. */
struct maker {
    struct tr_grammar_source source;
    struct tr_buf text;
    struct tr_grammar_text *choices;
    char at[sizeof((struct tr_err *)0)->param]; /* the field it stands in */
    bool given, compact;
};

/* What could spell one of the names otherwise has an escape. */
const char *const srv_constraint_words[SRV_N_CONSTRAINT_WORDS] = {
    "format\"",    "structured_outputs", "guided_",  "grammar\"",
    "json_schema", "tool_choice\"",      "strict\"", "\\u"};

/* ---- to a source ---- */

static int take_choices(struct maker *m, const struct tr_json *v, struct tr_err *err)
{
    size_t n = tr_json_size(v);
    int r = tr_json_expect(v, TR_JSON_ARRAY, err);
    if (r == 0 && (n == 0 || n > MAX_CHOICES))
        r = tr_json_fail(v, err, "from 1 to %d choices", MAX_CHOICES);
    if (r < 0)
        return r;
    m->choices = calloc(n + 1, sizeof *m->choices);
    if (!m->choices)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct tr_json item = tr_json_at(v, i);
        r = tr_json_as_string(&item, &m->choices[i].bytes, &m->choices[i].n, err);
    }
    m->source.choices = m->choices;
    m->source.n_choices = (int)n;
    return r;
}

static int add(struct maker *m, enum tr_grammar_kind kind, const struct tr_json *v,
               struct tr_err *err)
{
    struct tr_err place = {0};
    if (m->given)
        return tr_json_fail(v, err, "a second constraint of one answer");
    tr_json_fail(v, &place, "here");
    snprintf(m->at, sizeof m->at, "%s", place.param);
    m->given = true;
    m->source.kind = kind;
    m->source.compact = m->compact;
    m->source.indent = TR_GRAMMAR_INDENT_MAX;
    m->source.name = m->at;
    if (kind == TR_GRAMMAR_JSON_OBJECT)
        return 0;
    if (kind == TR_GRAMMAR_CHOICE)
        return take_choices(m, v, err);
    /* A schema is a value, or a string that holds it. */
    if (kind != TR_GRAMMAR_JSON_SCHEMA || tr_json_type(v) == TR_JSON_STRING)
        return tr_json_as_string(v, &m->source.text.bytes, &m->source.text.n, err);
    tr_json_write(&m->text, v);
    m->source.text = (struct tr_grammar_text){m->text.data, m->text.len};
    return m->text.oom ? tr_err_set(err, TR_ENOMEM, NULL, "out of memory") : 0;
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
    if (tr_json_given(&schema)) {
        bool strict = true;
        r = tr_json_opt_bool(tr_json_given(&inner) ? &inner : v, "strict", &strict, err);
        if (r == 0)
            r = add(m, TR_GRAMMAR_JSON_SCHEMA, &schema, err);
        m->source.lenient = !strict;
        return r;
    }
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

static int read_fields(struct maker *m, const struct srv_params *p, struct tr_err *err)
{
    struct tr_json text = tr_json_get(&p->text, "format");
    struct tr_json config = tr_json_get(&p->output_config, "format");
    int r = take_format(m, &p->response_format, err);
    if (r == 0)
        r = take_format(m, &text, err);
    if (r == 0)
        r = take_format(m, &config, err);
    if (r == 0)
        r = take_format(m, &p->output_format, err);
    if (r == 0)
        r = take_outputs(m, &p->structured_outputs, err);
    return r < 0 ? r : take_names(m, p, err);
}

/* ---- to a grammar ---- */

/* Errors of parts begin with their names already. */
static int compile(struct tr_grammar **ret, const struct srv_call *c,
                   const struct tr_grammar_source *source, struct tr_err *err)
{
    struct tr_engine *e = c->context.engine;
    const struct tr_grammar_vocab *vocab = e ? tr_engine_grammar_vocab(e) : NULL;
    const char *name = source->name ? source->name : "";
    struct tr_err why = {0};
    if (e && !vocab)
        return tr_err_set(err, TR_ENOMEM, NULL, "out of memory");
    struct tr_grammar_cache *cache = c->context.grammars;
    int r;
    if (cache)
        r = tr_grammar_cache_get(cache, ret, source, vocab, &why);
    else
        r = tr_grammar_compile(ret, source, vocab, &why);
    if (r == TR_ENOMEM)
        return tr_err_set(err, r, NULL, "out of memory");
    if (r < 0) {
        r = tr_err_set(err, TR_EINVAL, NULL, "%s%s%s", name, *name ? ": " : "",
                       why.msg[0] ? why.msg : tr_err_text(r));
        snprintf(err->param, sizeof err->param, "%s%s", name,
                 *name || why.param[0] ? why.param : "tools");
    }
    return r;
}

int srv_constraint_read(struct tr_grammar **ret, const struct srv_call *c, struct tr_err *err)
{
    struct maker m = {0};
    struct srv_calls_source calls = {0};
    bool tools = tr_json_size(&c->params.dialog.tools) > 0, any = true;
    int r = read_fields(&m, &c->params, err);
    if (r == 0 && tools)
        r = srv_calls_source(&calls, c, m.given ? &m.source : NULL, &any, err);
    if (r == 0 && !any)
        r = compile(ret, c, &calls.source, err);
    else if (r == 0 && m.given)
        r = compile(ret, c, &m.source, err);
    if (tools)
        srv_calls_source_done(&calls);
    tr_buf_done(&m.text);
    free(m.choices);
    return r;
}
