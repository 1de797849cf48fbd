/* Bytes of a request to parameters, jobs and choices. */
#ifndef TR_SERVER_CALL_READ_H
#define TR_SERVER_CALL_READ_H

#include <stddef.h>

struct srv_call;

/* Says in c->err what is wrong with them; needs api and context only, on any thread. */
int srv_call_read(struct srv_call *c, const char *bytes, size_t n);

#endif
