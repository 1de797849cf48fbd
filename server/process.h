/* What the system says of this process: the numbers that every exporter tells. */
#ifndef TR_SERVER_PROCESS_H
#define TR_SERVER_PROCESS_H

struct srv_process {
    double cpu_seconds;   /* user and system */
    double start_seconds; /* since 1970 */
    double resident_bytes, virtual_bytes;
    double open_fds, max_fds; /* descriptors */
    double threads;
};
/* Some files of /proc are read, which blocks on nothing; 0 where there is none. */
void srv_process_look(struct srv_process *ret);

#endif
