/* The sampling fields that hold where a request is silent: what the checkpoint recommends, or the
 * operator. */
#ifndef TR_SERVER_CALL_DEFAULTS_H
#define TR_SERVER_CALL_DEFAULTS_H

#include "config/json.h"
#include "engine/types.h"

/* An object of request fields from the option generation_defaults: "auto" takes what is recommended
 * (NULL: nothing), "none" nothing, "temperature=0.15,top_k=50" these. TR_ECONFIG names the field
 * that is unknown or out of range. The caller frees *ret with tr_json_free. */
TR_NODISCARD int srv_defaults_open(struct json_t **ret, const char *option,
                                   const struct tr_sampling_defaults *recommended,
                                   struct tr_err *err);
/* Eight hex digits that differ where defaults do; "" for none. */
void srv_defaults_hash(struct json_t *defaults, char ret[9]);

#endif
