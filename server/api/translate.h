/*
 * Other APIs' requests into messages and tools of the chat form.
 *
 * Values are taken over by reference, so that nothing is copied and every byte of them stays what
 * it was. A failed allocation is remembered: build everything, then srv_translation_use says it.
 */
#ifndef TR_SERVER_API_TRANSLATE_H
#define TR_SERVER_API_TRANSLATE_H

#include "server/call/dialog.h"

/* A zeroed one is empty. */
struct srv_translation {
    struct json_t *messages, *tools, *kwargs, *tool_choice; /* owned; NULL = nothing of it */
    struct json_t *turn;    /* borrowed: the assistant's message that more may be added to */
    struct json_t *thinker; /* borrowed: the message that `thought` belongs to; NULL = none */
    struct tr_buf thought;  /* its reasoning so far */
    bool oom;
};

void srv_translation_done(struct srv_translation *t);
/* Makes the dialog point into the translation, which must outlive its use. TR_ENOMEM. */
TR_NODISCARD int srv_translation_use(struct srv_translation *t, struct srv_dialog *d,
                                     struct tr_err *err);

/* A list of text parts from a string, or from a list of parts whose type is one of `types`
 * (NULL-terminated) and whose text is a string; absent and null are an empty list. *ret is owned.
 * Anything else: TR_EINVAL at the place. */
TR_NODISCARD int srv_translate_parts(const struct tr_json *v, const char *const *types,
                                     struct json_t **ret, struct tr_err *err);

/* Each takes over the JSON values given without const tr_json (NULL: out of memory) and appends. */
void srv_translate_message(struct srv_translation *t, const char *role, struct json_t *content);
/* A tool's result as the client's form has it: the call's id and the content (see
 * srv_translate_parts) are members of `object` under these names. TR_EINVAL at the place. */
TR_NODISCARD int srv_translate_tool_result(struct srv_translation *t, const struct tr_json *object,
                                           const char *id_name, const char *content_name,
                                           const char *const *types, struct tr_err *err);
/* To the assistant's open message: begins one if there is none, or if it already has what is
 * given. */
void srv_translate_said(struct srv_translation *t, struct json_t *content);
void srv_translate_thought(struct srv_translation *t, const struct tr_json *text);
/* A call as the client's form has it: id, name and input (of that type) are members of `object`,
 * the first and the last under these names. TR_EINVAL at the place. */
TR_NODISCARD int srv_translate_use(struct srv_translation *t, const struct tr_json *object,
                                   const char *id_name, const char *input_name,
                                   enum tr_json_type input_type, struct tr_err *err);
/* What the assistant did with a tool that can't run here: its text is the item as JSON. */
void srv_translate_foreign(struct srv_translation *t, const struct tr_json *item);
/* A tool as the client's form has it: description and strict are members of it; parameters may be
 * absent. */
void srv_translate_tool(struct srv_translation *t, const struct tr_json *tool,
                        const struct tr_json *name, const struct tr_json *parameters);
/* kwargs: those given, and one more. */
void srv_translate_kwarg(struct srv_translation *t, const struct tr_json *given, const char *name,
                         bool value);

#endif
