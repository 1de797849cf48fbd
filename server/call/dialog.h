/*
 * Messages to a prompt: what /v1/chat/completions, /v1/responses, /v1/messages, /apply-template and
 * /tokenize share.
 *
 * The other APIs translate what they are given into messages and tools of the chat form; from there
 * on there is one way.
 */
#ifndef TR_SERVER_CALL_DIALOG_H
#define TR_SERVER_CALL_DIALOG_H

#include "engine/text/chat.h"

struct srv_call;

/* What makes a prompt; the cursors point into the request's document, or into a translated one. */
struct srv_dialog {
    struct tr_json messages, tools, tool_choice, documents, kwargs;
    struct tr_json add_generation_prompt; /* true unless a message is to be continued */
    bool continue_final_message, add_special_tokens, parallel_tool_calls;
    int max_tools, max_tool_name; /* bytes of a name; 0 = the chat API's bounds */
    const char *param;            /* the field that errors of the messages name; NULL: messages */
};

/* The prompt as text; after success tr_rendered_done(ret). chat NULL: TR_EUNSUPPORTED. */
TR_NODISCARD int srv_dialog_render(const struct tr_chat *chat, const struct srv_dialog *d,
                                   struct tr_rendered *ret, struct tr_err *err);
/* Checks the tools; then the prompt's ids, however many. The caller frees ret->ids, also after a
 * failure. */
TR_NODISCARD int srv_dialog_ids(const struct tr_chat *chat, struct srv_dialog *d,
                                struct tr_ids *ret, struct tr_err *err);
/* Whether the tools are functions with names within the bounds. Tools of other types are taken out:
 * they can't run here. */
TR_NODISCARD int srv_dialog_check_tools(struct srv_dialog *d, struct tr_err *err);
/* An srv_api.read behind the translation: tools, tool_choice, prompt, rules of the turns,
 * the job. */
TR_NODISCARD int srv_dialog_read(struct srv_call *c, struct tr_err *err);

#endif
