#include "server/call/turn.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/call/call.h"

/* ---- rules ---- */

/* A schema that says no more than types. */
static json_t *of_types(const struct tr_json *parameters, const char *name)
{
    static const char *const names[] = {"number", "string", "null"};
    unsigned types = tr_tool_parameter_types(parameters, name);
    json_t *ret = json_object(), *list = types == TR_TOOL_ANY ? NULL : json_array();
    for (unsigned i = 0; list && i < TR_ARRAY_LEN(names); i++)
        if (types >> i & 1)
            json_array_append_new(list, json_string(names[i]));
    if (list)
        json_object_set_new(ret, "type", list);
    return ret;
}

struct outline {
    const struct tr_json *parameters;
    json_t *types;
};

static void add_parameter(void *arg, const char *name)
{
    const struct outline *o = arg;
    if (!json_object_get(o->types, name))
        json_object_set_new(o->types, name, of_types(o->parameters, name));
}

/* Names, parameters and their types: what reading calls needs of the tools, however long they are
 * to wait. NULL: no memory. */
static json_t *outline_of(const struct tr_json *tools)
{
    json_t *ret = json_array();
    for (size_t i = 0; i < tr_json_size(tools); i++) {
        struct tr_json tool = tr_json_at(tools, i), function = tr_json_get(&tool, "function");
        struct tr_json parameters = tr_json_get(&function, "parameters");
        struct outline o = {&parameters, json_object()};
        tr_tool_parameter_names(&parameters, add_parameter, &o);
        json_array_append_new(ret, json_pack("{s:{s:O?,s:{s:o,s:o}}}", "function", "name",
                                             json_object_get(function.node, "name"), "parameters",
                                             "properties", o.types, "additionalProperties",
                                             of_types(&parameters, NULL)));
    }
    return ret;
}

void srv_turn_rules_tools(struct srv_turn_rules *rules, const struct tr_json *tools)
{
    rules->tools = tr_json_root(outline_of(tools), NULL);
}

void srv_turn_rules_done(struct srv_turn_rules *rules)
{
    json_decref(rules->tools.node);
    *rules = (struct srv_turn_rules){0};
}

bool srv_turn_is_tag(const struct srv_turn_rules *rules, const struct tr_tokenizer *t,
                     int32_t token)
{
    static const char *const tags[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};
    const char *text = rules->parse ? tr_tokenizer_raw(t, token) : NULL;
    for (size_t i = 0; text && i < TR_ARRAY_LEN(tags); i++)
        if (strcmp(text, tags[i]) == 0)
            return true;
    return false;
}

/* ---- parts ---- */

/* Where the parsers' output goes while one piece of text is taken. */
struct taking {
    struct srv_choice *ch;
    srv_part_fn fn;
};

static void tell(const struct taking *t, enum srv_part_step step, const char *text, size_t n)
{
    const struct srv_turn *turn = &t->ch->turn;
    int last = turn->n_parts - 1;
    struct srv_part_event event = {step, &turn->parts[last], last, text, n};
    if (t->fn)
        t->fn(t->ch, &event);
}

static void end_part(const struct taking *t)
{
    struct srv_turn *turn = &t->ch->turn;
    if (turn->open)
        tell(t, SRV_PART_END, NULL, 0);
    turn->open = false;
}

static int begin_part(const struct taking *t, enum srv_part_kind kind, const char *name, size_t n)
{
    struct srv_turn *turn = &t->ch->turn;
    end_part(t);
    if (turn->n_parts == turn->cap_parts) {
        int cap = turn->cap_parts ? turn->cap_parts * 2 : 4;
        struct srv_part *grown = realloc(turn->parts, (size_t)cap * sizeof *grown);
        if (!grown)
            return TR_ENOMEM;
        turn->parts = grown;
        turn->cap_parts = cap;
    }
    struct srv_part *p = &turn->parts[turn->n_parts++];
    *p = (struct srv_part){.kind = kind, .call = turn->n_calls};
    tr_buf_add(&p->name, name, n);
    turn->open = true;
    tell(t, SRV_PART_BEGIN, NULL, 0);
    return p->name.oom ? TR_ENOMEM : 0;
}

/* More text of a kind: goes to the open part, or begins one. */
static int add_text(const struct taking *t, enum srv_part_kind kind, const char *text, size_t n)
{
    struct srv_turn *turn = &t->ch->turn;
    int r = 0;
    if (n == 0)
        return 0;
    if (!turn->open || turn->parts[turn->n_parts - 1].kind != kind)
        r = begin_part(t, kind, NULL, 0);
    if (r < 0)
        return r;
    struct srv_part *p = &turn->parts[turn->n_parts - 1];
    tr_buf_add(&p->text, text, n);
    if (p->text.oom)
        return TR_ENOMEM;
    tell(t, SRV_PART_DELTA, text, n);
    return 0;
}

static int on_tool(void *arg, const struct tr_tool_event *e)
{
    const struct taking *t = arg;
    if (e->kind == TR_TOOL_CONTENT)
        return add_text(t, SRV_PART_CONTENT, e->text, e->n);
    if (t->ch->call->rules.hide_calls)
        return 0;
    switch (e->kind) {
    case TR_TOOL_CALL:
        return begin_part(t, SRV_PART_CALL, e->text, e->n);
    case TR_TOOL_ARGUMENTS:
        return add_text(t, SRV_PART_CALL, e->text, e->n);
    case TR_TOOL_CALL_END:
        end_part(t);
        t->ch->turn.n_calls++;
        return 0;
    case TR_TOOL_CONTENT:
    default:
        return 0;
    }
}

/* ---- taking ---- */

static void begin(struct srv_choice *ch)
{
    const struct srv_turn_rules *rules = &ch->call->rules;
    ch->turn.begun = true;
    tr_reasoning_init(&ch->turn.reasoning, rules->reasoning_open);
    ch->turn.calls = (struct tr_tool_parser){
        .format = rules->format,
        .tools = rules->tools.node ? &rules->tools : NULL,
        .parallel = rules->parallel,
        .fn = on_tool,
    };
}

void srv_turn_done(struct srv_turn *turn)
{
    for (int i = 0; i < turn->n_parts; i++) {
        tr_buf_done(&turn->parts[i].text);
        tr_buf_done(&turn->parts[i].name);
    }
    free(turn->parts);
    tr_reasoning_done(&turn->reasoning);
    tr_tool_parser_done(&turn->calls);
    *turn = (struct srv_turn){0};
}

static bool is_reasoning(const struct srv_turn *turn)
{
    return turn->reasoning.state == TR_REASONING_OPEN ||
           turn->reasoning.state == TR_REASONING_FIRST ||
           turn->reasoning.state == TR_REASONING_INSIDE;
}

static int take(const struct taking *t, struct tr_buf *reasoning, struct tr_buf *content)
{
    struct srv_choice *ch = t->ch;
    struct srv_turn *turn = &ch->turn;
    bool over = ch->stop != SRV_STOP_NONE;
    int r = tr_reasoning_add(&turn->reasoning, ch->text.data, ch->text.len, reasoning, content);
    if (r == 0 && over)
        r = tr_reasoning_end(&turn->reasoning, reasoning, content);
    if (r == 0 && !ch->call->rules.hide_reasoning)
        r = add_text(t, SRV_PART_REASONING, reasoning->data, reasoning->len);
    if (r == 0 && content->len > 0)
        r = tr_tool_parser_add(&turn->calls, content->data, content->len);
    if (r == 0 && over)
        r = tr_tool_parser_end(&turn->calls, ch->stop == SRV_STOP_END || ch->stop == SRV_STOP_ID);
    if (r == 0 && over)
        end_part(t);
    return r;
}

bool srv_turn_take(struct srv_choice *ch, srv_part_fn fn)
{
    struct srv_turn *turn = &ch->turn;
    struct taking t = {ch, fn};
    struct tr_buf reasoning = {0}, content = {0};
    if (!turn->begun)
        begin(ch);
    turn->calls.arg = &t;
    bool before = is_reasoning(turn);
    int r = ch->text.oom ? TR_ENOMEM : take(&t, &reasoning, &content);
    if (before || is_reasoning(turn))
        turn->reasoning_tokens += ch->n_tokens - turn->seen_tokens;
    turn->seen_tokens = ch->n_tokens;
    tr_buf_clear(&ch->text);
    tr_buf_done(&reasoning);
    tr_buf_done(&content);
    return r == 0;
}

void srv_turn_text(const struct srv_turn *turn, enum srv_part_kind kind, struct tr_buf *out)
{
    for (int i = 0; i < turn->n_parts; i++)
        if (turn->parts[i].kind == kind)
            tr_buf_add(out, turn->parts[i].text.data, turn->parts[i].text.len);
}
