/* Requests that came while there is no checkpoint to answer them: they wait for it. */
#ifndef TR_SERVER_HTTP_HOLD_H
#define TR_SERVER_HTTP_HOLD_H

#include "server/http/request.h"

/* In place of its handler, which runs later; refused if max_queue requests wait already. */
void srv_hold(struct srv_req *req);
/* There is a checkpoint: all of them go on, in the order in which they came. */
void srv_hold_release(struct srv *s);
/* There will be none. */
void srv_hold_refuse(struct srv *s);

#endif
