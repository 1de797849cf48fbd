/*
 * Chats: messages in, prompt ids out, by the checkpoint's own template.
 *
 * Only what the template itself writes can become control tokens; text that came with the request
 * is encoded as the characters it consists of, whatever it spells.
 */
#ifndef TR_ENGINE_TEXT_CHAT_H
#define TR_ENGINE_TEXT_CHAT_H

#include <stdbool.h>

#include "config/base.h"
#include "config/err.h"
#include "config/json.h"
#include "engine/text/template/template.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tools.h"

/* A template with the tokenizer it is for: immutable, may be shared by any threads. */
struct tr_chat;

/* source NULL: the checkpoint's own template; TR_ENOTFOUND if it has none. The tokenizer is
 * borrowed and must outlive the chat. The template is tried on a few messages: one that fails on
 * all of them other than by its own raise_exception is refused here. */
TR_NODISCARD int tr_chat_open(struct tr_chat **ret, const struct tr_tokenizer *tokenizer,
                              const char *source, struct tr_err *err);
struct tr_chat *tr_chat_close(struct tr_chat *c); /* NULL ok; returns NULL */

/* The format of tool calls that the template teaches. */
enum tr_tool_format tr_chat_tool_format(const struct tr_chat *c);

/* The parts of a request that make its prompt; NULL or an absent or null cursor = not given. */
struct tr_chat_request {
    const struct tr_json *messages; /* see tr_tpl_messages for what may be in it */
    const struct tr_json *tools;    /* the list as given; an empty one counts as none */
    const struct tr_json *documents;
    const struct tr_json *kwargs; /* chat_template_kwargs: an object of further variables */
    bool add_generation_prompt;
    bool continue_final_message; /* excludes add_generation_prompt */
    int64_t now;                 /* seconds since 1970, for templates that print the date */
    /* Begin-of-text is added to the ids if the prompt does not begin so; else the template writes
     * what belongs there. */
    bool bos;
    size_t max_ids; /* as tr_tokenizer_encode */
};

/* The prompt as text, with the ranges of it that came with the request, and its ids, appended
 * (NULL: not wanted). TR_EINVAL with param "messages", "tools", "chat_template_kwargs" or
 * "continue_final_message": the request's fault. TR_ETOOLONG, which err does not tell: more than
 * max_ids; the text is there. After success or this, tr_rendered_done(ret). */
TR_NODISCARD int tr_chat_render(const struct tr_chat *c, const struct tr_chat_request *request,
                                struct tr_rendered *ret, struct tr_ids *ret_ids,
                                struct tr_err *err);

#endif
