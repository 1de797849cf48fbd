/* The memory that the bodies of all requests share. */
#ifndef TR_SERVER_HTTP_BODIES_H
#define TR_SERVER_HTTP_BODIES_H

#include "server/http/request.h"

/* n more bytes of a body that is not small have come: whether there is room for them. Where there
 * is none, uploads that stand still give way, the slowest first. */
bool srv_bodies_admit(struct srv_req *req, size_t n);
/* The bytes that they may take together, small ones aside. */
uint64_t srv_bodies_most(const struct srv *s);

#endif
