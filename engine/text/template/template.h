/*
 * Chat templates: the part of Jinja that Hugging Face checkpoints use, with the meaning that
 * transformers gives it (an immutable sandbox, trim_blocks, lstrip_blocks, loop controls,
 * {% generation %}, tojson without escaping, raise_exception, strftime_now).
 *
 * What a template may not contain is refused when it is loaded, with line and column, so that a
 * wrong prompt is never built. A loaded template is immutable: any number of threads may render it.
 */
#ifndef TR_ENGINE_TEXT_TEMPLATE_TEMPLATE_H
#define TR_ENGINE_TEXT_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stdlib.h>

#include "config/base.h"
#include "config/err.h"
#include "config/json.h"
#include "engine/text/tokenizer.h"

struct tr_template;

/* The source is copied. TR_EINVAL: not UTF-8, a syntax error, an unknown filter, test or method, or
 * something outside the subset. */
TR_NODISCARD int tr_template_load(struct tr_template **ret, const char *source, size_t n,
                                  struct tr_err *err);
struct tr_template *tr_template_free(struct tr_template *t); /* NULL ok; returns NULL */

/* What a render sees. Everything is borrowed for the call. */
struct tr_template_input {
    /* The variables messages, tools, documents and add_generation_prompt, as transformers sets
     * them: absent tools and documents are none. messages NULL: none of the four is set. */
    const struct tr_json *messages, *tools, *documents;
    bool add_generation_prompt;
    bool typed_content; /* content that came as parts stays a list, for templates that walk through
                           it */
    bool continue_final_message; /* the text ends where the last message's content ends */
    /* Special tokens as text, NULL = not set. */
    const char *bos_token, *eos_token, *pad_token, *unk_token;
    /* An object whose members are variables too and win over the tokens (chat_template_kwargs);
     * NULL = none. */
    const struct tr_json *variables;
    int64_t now; /* of strftime_now, seconds since 1970; shown in local time */
};

/* Text and the byte ranges of it that came with the request: ascending, disjoint, not adjacent. */
struct tr_rendered {
    char *text; /* owned, NUL-terminated behind its n bytes */
    size_t n;
    struct tr_range *data; /* owned */
    size_t n_data;
    bool opens_reasoning; /* it ends with the opening tag of the answer's reasoning */
};

/* Leaves an empty one. */
static inline void tr_rendered_done(struct tr_rendered *r)
{
    free(r->text);
    free(r->data);
    *r = (struct tr_rendered){0};
}

/* TR_EINVAL: the request's fault (param "messages": raise_exception; "messages[i]...": a malformed
 * message) or the template's (a type error, a limit). */
TR_NODISCARD int tr_template_render(const struct tr_template *t,
                                    const struct tr_template_input *input, struct tr_rendered *ret,
                                    struct tr_err *err);

#endif
