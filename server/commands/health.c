/* `trinityd health`: asks the daemon that the same options describe. Containers run it as their
 * health check, so that no HTTP client has to stand in the image. */
#include <stdio.h>

#include "server/commands/commands.h"
#include "server/commands/reach.h"

int srv_health_check(const struct tr_options *o)
{
    struct tr_err err;
    char where[256];
    int status = srv_reach(o, "/health", NULL, &err);
    if (status == 200)
        return 0;
    if (status < 0)
        fprintf(stderr, "trinityd: %s\n", err.msg);
    else
        fprintf(stderr, "trinityd: %s: not ready (status %d)\n", srv_reach_name(o, where), status);
    return 1;
}
