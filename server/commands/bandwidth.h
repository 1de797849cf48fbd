/* How fast this machine's memory can be read: what decoding is bound by. */
#ifndef TR_SERVER_COMMANDS_BANDWIDTH_H
#define TR_SERVER_COMMANDS_BANDWIDTH_H

/* Bytes per second that n_threads threads read together, the best of a few rounds over far more
 * memory than the caches hold. 0: no memory or no threads to be had. */
double srv_read_bandwidth(int n_threads);

#endif
