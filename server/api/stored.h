/* What files and batches have in common: whose they are, lists in pages, that they may be off. */
#ifndef TR_SERVER_API_STORED_H
#define TR_SERVER_API_STORED_H

#include "server/batch/store.h"
#include "server/http/request.h"

/* Refuses, and returns true, without batch_dir. */
bool srv_stored_off(struct srv_req *req);
struct srv_owner srv_stored_owner(const struct srv_req *req);
/* Whether an id of that kind is all that `tail` is but for `end`, and which; else TR_ENOTFOUND. */
int srv_stored_id(const char *tail, const char *prefix, const char *end, char ret[SRV_STORE_ID],
                  struct tr_err *err);

/* An element of a list: appends it, or nothing if it is not wanted. On a worker. */
typedef int (*srv_stored_fn)(struct srv_req *req, const char *id, struct tr_buf *out,
                             struct tr_err *err);
/* Writes the list that the query asks for: after, limit (1 to most, which it is by default), order.
 * On a worker. */
int srv_stored_list(struct srv_req *req, const char *prefix, long usual, long most,
                    srv_stored_fn add, struct tr_err *err);
/* A member of the query as it stands there; false: absent, or longer than room. */
bool srv_stored_query(const struct srv_req *req, const char *name, char *ret, size_t room);

#define SRV_STORED_LIST(of)                                                                        \
    SRV_OBJECT("\"object\",\"data\",\"has_more\"",                                                 \
               "\"object\":{\"const\":\"list\"},\"data\":{\"type\":\"array\",\"items\":" of "},"   \
               "\"first_id\":{\"type\":[\"string\",\"null\"]},"                                    \
               "\"last_id\":{\"type\":[\"string\",\"null\"]},\"has_more\":{\"type\":\"boolean\"}")

#endif
