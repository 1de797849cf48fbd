/* A request of the messages API: its fields, and its way into the chat form. */
#ifndef TR_SERVER_API_MESSAGES_INPUT_H
#define TR_SERVER_API_MESSAGES_INPUT_H

#include "server/call/call.h"

struct srv_translation;

extern const struct srv_table srv_messages_fields;

TR_NODISCARD int srv_messages_translate(struct srv_params *p, struct srv_translation *t,
                                        struct tr_err *err);
/* An srv_api.read. */
TR_NODISCARD int srv_messages_read(struct srv_call *c, struct tr_err *err);

#endif
