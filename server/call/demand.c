#include "server/call/demand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/tools.h"
#include "server/call/call.h"

/* ---- tool_choice ---- */

/* The name of a function in any of the forms that APIs have: {"function": {"name"}}, {"name"}. */
static const char *name_of(const struct tr_json *v)
{
    struct tr_json function = tr_json_get(v, "function"), custom = tr_json_get(v, "name");
    struct tr_json name = tr_json_given(&function) ? tr_json_get(&function, "name") : custom;
    const char *s = NULL;
    return tr_json_as_string(&name, &s, NULL, NULL) < 0 ? NULL : s;
}

static bool has_tool(const struct srv_dialog *d, const char *name)
{
    for (size_t i = 0; i < tr_json_size(&d->tools); i++) {
        struct tr_json tool = tr_json_at(&d->tools, i);
        const char *other = name_of(&tool);
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static int refuse(struct tr_err *err, const char *why)
{
    return tr_err_set(err, TR_EINVAL, "tool_choice", "tool_choice: %s", why);
}

static int check_name(const struct srv_dialog *d, const char *name, struct tr_err *err)
{
    return name && has_tool(d, name) ? 0 : refuse(err, "it names no function of tools");
}

static int take_word(struct srv_tool_choice *ret, const char *word, struct tr_err *err)
{
    if (strcmp(word, "none") == 0)
        ret->mode = SRV_CALLS_NONE;
    else if (strcmp(word, "required") == 0)
        ret->mode = SRV_CALLS_FORCED;
    else if (strcmp(word, "auto") != 0)
        return refuse(err, "expected \"none\", \"auto\", \"required\" or a function");
    return 0;
}

/* {"type": "allowed_tools"}: mode and tools beside the type, or in a member of that name. */
static int take_allowed(struct srv_tool_choice *ret, const struct srv_dialog *d,
                        const struct tr_json *v, struct tr_err *err)
{
    struct tr_json inner = tr_json_get(v, "allowed_tools");
    const struct tr_json *from = tr_json_given(&inner) ? &inner : v;
    const char *mode = "auto";
    size_t n;
    int r = tr_json_opt_string(from, "mode", &mode, &n, err);
    if (r == 0)
        r = take_word(ret, mode, err);
    if (r == 0)
        r = tr_json_array(from, "tools", &ret->among, err);
    if (r == 0 && tr_json_size(&ret->among) == 0)
        r = refuse(err, "an empty list of tools");
    for (size_t i = 0; r == 0 && i < tr_json_size(&ret->among); i++) {
        struct tr_json tool = tr_json_at(&ret->among, i);
        r = check_name(d, name_of(&tool), err);
    }
    return r;
}

static int take_object(struct srv_tool_choice *ret, const struct srv_dialog *d,
                       const struct tr_json *v, struct tr_err *err)
{
    const char *type;
    size_t n;
    int r = tr_json_string(v, "type", &type, &n, err);
    if (r < 0)
        return r;
    if (strcmp(type, "allowed_tools") == 0)
        return take_allowed(ret, d, v, err);
    if (strcmp(type, "function") != 0)
        return refuse(err, "the types are function and allowed_tools");
    ret->mode = SRV_CALLS_FORCED;
    ret->name = name_of(v);
    return check_name(d, ret->name, err);
}

int srv_tool_choice_read(struct srv_tool_choice *ret, const struct srv_dialog *d,
                         struct tr_err *err)
{
    const struct tr_json *v = &d->tool_choice;
    const char *word;
    int r;
    *ret = (struct srv_tool_choice){0};
    if (!tr_json_given(v))
        return 0;
    if (tr_json_type(v) == TR_JSON_OBJECT) {
        r = take_object(ret, d, v, err);
    } else {
        r = tr_json_as_string(v, &word, NULL, err);
        if (r == 0)
            r = take_word(ret, word, err);
    }
    if (r == 0 && ret->mode == SRV_CALLS_FORCED && tr_json_size(&d->tools) == 0)
        r = refuse(err, "a call is asked for, but no tools are given");
    return r;
}

static bool allows(const struct srv_tool_choice *choice, const char *name)
{
    if (choice->name)
        return strcmp(choice->name, name) == 0;
    for (size_t i = 0; i < tr_json_size(&choice->among); i++) {
        struct tr_json tool = tr_json_at(&choice->among, i);
        const char *other = name_of(&tool);
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return tr_json_type(&choice->among) == TR_JSON_ABSENT;
}

/* ---- the source ---- */

void srv_calls_source_done(struct srv_calls_source *s)
{
    for (size_t i = 0; s->schemas && i < s->n; i++)
        tr_buf_done(&s->schemas[i]);
    free(s->schemas);
    free(s->parts);
    free(s->names);
    free(s->labels);
    tr_buf_done(&s->text);
    *s = (struct srv_calls_source){0};
}

static bool is_strict(const struct tr_json *function)
{
    bool strict = false;
    return tr_json_opt_bool(function, "strict", &strict, NULL) == 0 && strict;
}

/* The arguments of a function: without a schema it has none. What isn't strict is held to its
 * schema where that can be done. */
static void add_function(struct srv_calls_source *s, const struct srv_turn_rules *rules,
                         const struct tr_json *tool, size_t index)
{
    static const char none[] = "{\"properties\":{},\"additionalProperties\":false}";
    struct tr_json function = tr_json_get(tool, "function");
    struct tr_json parameters = tr_json_get(&function, "parameters");
    struct tr_tool_name *name = &s->names[s->n];
    struct tr_buf *schema = &s->schemas[s->n];
    if (tr_json_string(&function, "name", &name->text, &name->n, NULL) < 0)
        return;
    if (tr_json_given(&parameters))
        tr_json_write(schema, &parameters);
    else
        tr_buf_adds(schema, none);
    snprintf(s->labels[s->n], sizeof s->labels[s->n], "tools[%zu]", index);
    bool xml = rules->format == TR_TOOL_XML;
    s->parts[s->n] = (struct tr_grammar_source){
        .kind = xml ? TR_GRAMMAR_PARAMETERS : TR_GRAMMAR_JSON_SCHEMA,
        .text = {schema->data, schema->len},
        .indent = TR_GRAMMAR_INDENT_MAX,
        .name = s->labels[s->n],
        .object = true,
        .lenient = !is_strict(&function),
    };
    s->text.oom |= schema->oom;
    s->n++;
}

/* The allowed ones; *ret_strict: one of them is. */
static int add_functions(struct srv_calls_source *s, const struct srv_call *c,
                         const struct srv_tool_choice *choice, bool *ret_strict)
{
    const struct tr_json *tools = &c->params.dialog.tools;
    size_t n = tr_json_size(tools);
    s->parts = calloc(n + 1, sizeof *s->parts);
    s->names = calloc(n, sizeof *s->names);
    s->schemas = calloc(n, sizeof *s->schemas);
    s->labels = calloc(n, sizeof *s->labels);
    if (!s->parts || !s->names || !s->schemas || !s->labels)
        return TR_ENOMEM;
    *ret_strict = false;
    for (size_t i = 0; i < n; i++) {
        struct tr_json tool = tr_json_at(tools, i), function = tr_json_get(&tool, "function");
        const char *name = name_of(&tool);
        if (!name || !allows(choice, name))
            continue;
        *ret_strict |= is_strict(&function);
        add_function(s, &c->rules, &tool, i);
    }
    return 0;
}

static bool is_token(const struct srv_call *c, const char *tag)
{
    const struct tr_tokenizer *t = c->context.tokenizer;
    int32_t id = tr_tokenizer_find(t, tag, strlen(tag));
    return id >= 0 && tr_tokenizer_is_added(t, id);
}

static int write_source(struct srv_calls_source *s, const struct srv_call *c,
                        enum tr_tool_demand demand)
{
    const struct srv_turn_rules *rules = &c->rules;
    struct tr_tool_grammar g = {
        .format = rules->format,
        .demand = demand,
        .names = s->names,
        .n_names = (int)s->n,
        .parallel = rules->parallel,
        .call_tokens = is_token(c, TR_TOOL_OPEN) && is_token(c, TR_TOOL_CLOSE),
        .thought_tokens =
            is_token(c, "<think>") && is_token(c, TR_REASONING_CLOSE) && !rules->reasoning_open,
    };
    tr_tool_grammar_write(&s->text, &g);
    s->source = (struct tr_grammar_source){
        .kind = TR_GRAMMAR_GBNF,
        .text = {s->text.data, s->text.len},
        .parts = s->parts,
        .n_parts = g.n_names + (demand != TR_TOOL_FORCED),
    };
    return s->text.oom ? TR_ENOMEM : 0;
}

int srv_calls_source(struct srv_calls_source *ret, const struct srv_call *c,
                     const struct tr_grammar_source *beside, bool *ret_any, struct tr_err *err)
{
    static const struct tr_grammar_text tag = {TR_TOOL_OPEN, sizeof TR_TOOL_OPEN - 1};
    struct srv_tool_choice choice;
    bool strict = false;
    *ret = (struct srv_calls_source){0};
    *ret_any = true;
    int r = srv_tool_choice_read(&choice, &c->params.dialog, err);
    if (r < 0 || choice.mode == SRV_CALLS_NONE || tr_json_size(&c->params.dialog.tools) == 0)
        return r;
    bool forced = choice.mode == SRV_CALLS_FORCED;
    if (c->rules.format == TR_TOOL_NONE)
        return forced ? refuse(err, "the checkpoint's template teaches no calls") : 0;
    r = add_functions(ret, c, &choice, &strict);
    bool narrowed = strict || beside || tr_json_type(&choice.among) != TR_JSON_ABSENT;
    if (r == 0 && !forced && !narrowed)
        return 0;
    *ret_any = false;
    if (beside)
        ret->parts[ret->n] = *beside;
    else if (r == 0)
        ret->parts[ret->n] =
            (struct tr_grammar_source){.kind = TR_GRAMMAR_TEXT, .choices = &tag, .n_choices = 1};
    if (r == 0)
        r = write_source(ret, c, forced ? TR_TOOL_FORCED : beside ? TR_TOOL_BESIDE : TR_TOOL_FREE);
    return r < 0 ? tr_err_set(err, r, NULL, "out of memory") : 0;
}
