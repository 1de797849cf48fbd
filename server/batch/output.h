/*
 * The answers of a batch: a line each, appended. Any number of processes may write one file, and
 * any of them may be killed at any moment.
 *
 * What stands in the file is done, whoever wrote it. A question that is being asked is claimed by a
 * lock on a byte that belongs to it (far beyond the file's end), which dies with the process. A
 * line is appended under a lock, too: one that was torn by a kill is cut off by whoever appends
 * next.
 */
#ifndef TR_SERVER_BATCH_OUTPUT_H
#define TR_SERVER_BATCH_OUTPUT_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/batch/input.h"

struct srv_batch_output {
    const struct srv_batch_input *in;
    int fd;
    off_t seen;           /* what was read of the file: whole lines */
    bool *done;           /* [in->n] */
    size_t n_done, n_bad; /* n_bad: of these, with another status than 200 */
};

/* Whether a line of the file is an answer with status 200. */
bool srv_batch_line_good(const char *line, size_t n);
/* Makes the file if there is none. alone: fails if another process writes it. The functions below
 * are called by one thread at a time. */
TR_NODISCARD int srv_batch_output_open(struct srv_batch_output *ret,
                                       const struct srv_batch_input *in, const char *path,
                                       bool alone, struct tr_err *err);
void srv_batch_output_done(struct srv_batch_output *out);
/* Reads what was appended since. */
TR_NODISCARD int srv_batch_output_look(struct srv_batch_output *out, struct tr_err *err);
/* Whether line i is this process's to ask now: another's is not; what is done is not either. */
bool srv_batch_output_claim(struct srv_batch_output *out, size_t i);
void srv_batch_output_release(struct srv_batch_output *out, size_t i);
/* Appends a line (with its end); the next look finds it. */
TR_NODISCARD int srv_batch_output_add(struct srv_batch_output *out, const struct tr_buf *line,
                                      struct tr_err *err);

#endif
