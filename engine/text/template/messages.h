/* The messages of a request as chat templates expect them. */
#ifndef TR_ENGINE_TEXT_TEMPLATE_MESSAGES_H
#define TR_ENGINE_TEXT_TEMPLATE_MESSAGES_H

#include "engine/text/template/from_json.h"

/* The messages of a request as the chat template expects them, from a JSON array:
 * - null is none for content; other members that are null are left out;
 * - content given as parts: with `typed` a list of text parts, else their text joined by newlines;
 *   every kind that is text is taken, others are refused;
 * - the role is one of system, developer (which reads as system), user, assistant, tool, and only
 *   an assistant's message may have no content;
 * - the arguments of tool calls, text in the request, are objects where the text is one, else stay
 *   text; "" and null are {};
 * - reasoning_content, thinking and reasoning are aliases, as in transformers.
 * ret_continued not NULL: the last message's content goes there, and the template sees it with
 * TPL_CONTINUE_MARK of origin TPL_MARK behind it. Fails with param "messages" or
 * "messages[i]...". */
#define TPL_CONTINUE_MARK "CONTINUE_FINAL_MESSAGE_TAG "
struct tpl_value tr_tpl_messages(struct tpl_vm *vm, const struct tr_json *messages, bool typed,
                                 struct tpl_str **ret_continued);

#endif
