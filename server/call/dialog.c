#include "server/call/dialog.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/call/call.h"
#include "server/call/demand.h"
#include "server/log.h"

enum { MAX_TOOLS = 128, MAX_TOOL_NAME = 64 };

/* ---- the prompt ---- */

/* A dialog's errors name the field that the client knows. */
static int blame(const struct srv_dialog *d, struct tr_err *err, int r)
{
    if (r < 0 && d->param && strncmp(err->param, "messages", 8) == 0)
        snprintf(err->param, sizeof err->param, "%s", d->param);
    return r;
}

/* ret and ret_ids (NULL: not wanted) as of tr_chat_render, which takes no other errors either. */
static int render(const struct tr_chat *chat, const struct srv_dialog *d, size_t max_ids,
                  struct tr_rendered *ret, struct tr_ids *ret_ids, struct tr_err *err)
{
    bool generate = !d->continue_final_message;
    if (!chat)
        return tr_err_set(err, TR_EUNSUPPORTED, NULL,
                          "this checkpoint has no chat template: only /v1/completions serves it");
    if (tr_json_given(&d->add_generation_prompt)) {
        int r = tr_json_as_bool(&d->add_generation_prompt, &generate, err);
        if (r < 0)
            return r;
    }
    if (tr_json_given(&d->documents)) {
        int r = tr_json_expect(&d->documents, TR_JSON_ARRAY, err);
        if (r < 0)
            return r;
    }
    struct tr_chat_request q = {
        .messages = &d->messages,
        .tools = tr_json_given(&d->tools) ? &d->tools : NULL,
        .documents = tr_json_given(&d->documents) ? &d->documents : NULL,
        .kwargs = tr_json_given(&d->kwargs) ? &d->kwargs : NULL,
        .add_generation_prompt = generate,
        .continue_final_message = d->continue_final_message,
        .now = (int64_t)time(NULL),
        .bos = d->add_special_tokens,
        .max_ids = max_ids,
    };
    return blame(d, err, tr_chat_render(chat, &q, ret, ret_ids, err));
}

int srv_dialog_render(const struct tr_chat *chat, const struct srv_dialog *d,
                      struct tr_rendered *ret, struct tr_err *err)
{
    return render(chat, d, 0, ret, NULL, err);
}

int srv_dialog_ids(const struct tr_chat *chat, struct srv_dialog *d, struct tr_ids *ret,
                   struct tr_err *err)
{
    struct tr_rendered prompt = {0};
    int r = srv_dialog_check_tools(d, err);
    if (r == 0)
        r = render(chat, d, 0, &prompt, ret, err);
    tr_rendered_done(&prompt);
    return r;
}

/* ---- tools ---- */

static bool is_function(const struct tr_json *tool)
{
    struct tr_json type = tr_json_get(tool, "type");
    const char *s;
    return tr_json_as_string(&type, &s, NULL, NULL) < 0 || strcmp(s, "function") == 0;
}

static int check_tool(const struct tr_json *tool, int max_name, struct tr_err *err)
{
    const char *type, *name;
    size_t n, type_bytes;
    struct tr_json function, parameters;
    bool strict;
    int r = tr_json_string(tool, "type", &type, &type_bytes, err);
    if (r == 0)
        r = tr_json_object(tool, "function", &function, err);
    if (r == 0)
        r = tr_json_string(&function, "name", &name, &n, err);
    if (r == 0 && (n == 0 || n > (size_t)max_name))
        r = tr_json_fail(&function, err, "a name has 1 to %d bytes", max_name);
    if (r == 0)
        r = tr_json_opt_object(&function, "parameters", &parameters, err);
    if (r == 0)
        r = tr_json_opt_bool(&function, "strict", &strict, err);
    return r;
}

int srv_dialog_check_tools(struct srv_dialog *d, struct tr_err *err)
{
    const struct tr_json *tools = &d->tools;
    int max = d->max_tools ? d->max_tools : MAX_TOOLS;
    int max_name = d->max_tool_name ? d->max_tool_name : MAX_TOOL_NAME;
    int r = tr_json_given(tools) ? tr_json_expect(tools, TR_JSON_ARRAY, err) : 0;
    if (r == 0 && tr_json_size(tools) > (size_t)max)
        r = tr_json_fail(tools, err, "more than %d tools", max);
    for (size_t i = 0; r == 0 && i < tr_json_size(tools);) {
        struct tr_json tool = tr_json_at(tools, i);
        if (is_function(&tool)) {
            r = check_tool(&tool, max_name, err);
            i++;
        } else {
            srv_log(SRV_LOG_DEBUG, NULL, "a tool that is no function is passed over");
            json_array_remove(tools->node, i);
        }
    }
    return r;
}

/* ---- the job ---- */

/* Takes the ids over, also on failure. more: there are more of them. */
static int add_job(struct srv_call *c, struct tr_ids *ids, bool more, struct tr_err *err)
{
    int r = 0;
    if (!more && ids->n == 0)
        r = tr_err_set(err, TR_EINVAL, "messages", "messages: the template makes no text of them");
    if (r == 0)
        r = srv_jobs_init(c, 1, err);
    if (r == 0)
        r = srv_job_add(c, ids, more, err);
    else
        free(ids->ids);
    if (r < 0 && strcmp(err->param, "prompt") == 0)
        snprintf(err->param, sizeof err->param, "messages");
    return blame(&c->params.dialog, err, r);
}

int srv_dialog_read(struct srv_call *c, struct tr_err *err)
{
    struct srv_dialog *d = &c->params.dialog;
    struct tr_rendered prompt = {0};
    struct srv_tool_choice choice = {0};
    int r = srv_dialog_check_tools(d, err);
    if (r == 0 && tr_json_given(&d->tool_choice))
        r = srv_tool_choice_read(&choice, d, err);
    if (r < 0)
        return r;
    bool no_calls = choice.mode == SRV_CALLS_NONE;
    const struct tr_chat *chat = c->context.chat;
    struct tr_ids ids = {0};
    c->rules = (struct srv_turn_rules){.parse = true,
                                       .parallel = d->parallel_tool_calls,
                                       .hide_calls = no_calls,
                                       .hide_reasoning = !c->params.include_reasoning};
    if (tr_json_size(&d->tools) > 0 && !no_calls) /* else what they are is of no use */
        srv_turn_rules_tools(&c->rules, &d->tools);
    if (chat && tr_json_size(&d->tools) > 0)
        c->rules.format = tr_chat_tool_format(chat);
    if (no_calls) /* a model that knows of no tools is not tempted */
        d->tools = (struct tr_json){0};
    r = render(chat, d, c->max_ids, &prompt, &ids, err);
    bool more = r == TR_ETOOLONG;
    c->rules.reasoning_open = prompt.opens_reasoning;
    if (r == 0 || more)
        r = add_job(c, &ids, more, err);
    else
        free(ids.ids);
    tr_rendered_done(&prompt);
    return r;
}
