/* The KV cache seen from outside: what fits into it, and computed prefixes as files. */
#ifndef TR_SERVER_API_CACHE_H
#define TR_SERVER_API_CACHE_H

#include "server/call/fields.h"
#include "server/http/request.h"

extern const struct srv_table *const srv_snapshot_save_tables[1];
extern const struct srv_table *const srv_snapshot_restore_tables[1];

void srv_capacity(struct srv_req *req);
void srv_snapshots(struct srv_req *req);
void srv_snapshot_save(struct srv_req *req);
void srv_snapshot(struct srv_req *req); /* POST restores it, DELETE deletes it */

#endif
