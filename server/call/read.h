/* Bytes of a request to parameters, jobs and choices. */
#ifndef TR_SERVER_CALL_READ_H
#define TR_SERVER_CALL_READ_H

#include "server/call/fields.h"

struct srv_req;
struct srv_work;

/* An srv_work.run of a call: its request's body to jobs; c->err says what is wrong with it. Of call
 * and request it needs api and context, body and route. */
void srv_call_read(struct srv_work *work);

/* Uses the parameters, whose VALUE fields point into the document only while it runs. */
typedef int (*srv_body_fn)(struct srv_req *req, void *params, struct tr_err *err);
/* Takes the body's fields into *params, and hands it to `use`. optional: an absent body is an empty
 * object, and names that no table has pass. */
int srv_body_take(struct srv_req *req, const struct srv_table *const *tables, size_t n_tables,
                  bool optional, void *params, srv_body_fn use, struct tr_err *err);

#endif
