/* The commands besides `serve`. Each returns the exit status of the process: 0, or 1 with one line
 * on standard error. */
#ifndef TR_SERVER_COMMANDS_COMMANDS_H
#define TR_SERVER_COMMANDS_COMMANDS_H

#include "config/options.h"

struct srv_route;

int srv_generate(const struct tr_options *o);
int srv_check(const struct tr_options *o);
int srv_bench(const struct tr_options *o);
/* 2: the files are not named. */
int srv_batch(const struct tr_options *o, const struct srv_route *const *routes, int n_routes);
int srv_health_check(const struct tr_options *o);
int srv_top(const struct tr_options *o);

#endif
