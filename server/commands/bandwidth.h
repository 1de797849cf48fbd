/* How fast this machine's memory can be read: what decoding is bound by. */
#ifndef TR_SERVER_COMMANDS_BANDWIDTH_H
#define TR_SERVER_COMMANDS_BANDWIDTH_H

/* Bytes per second that n_threads threads read together, of far more memory than the caches hold,
 * in huge pages and fetched ahead as the weights are; the median of some rounds, half a second in
 * all. 0: no memory or no threads to be had. */
double srv_read_bandwidth(int n_threads);

/* The median of n > 0 values, which it sorts. */
double srv_median(double *values, int n);

#endif
