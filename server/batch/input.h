/*
 * The questions of a batch: a file with a JSON document a line, checked whole before the first is
 * asked.
 *
 *   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
 *   {"messages": [...]}, {"prompt": ...}, {"input": ...}    a body alone: its kind says where to
 *   "some text"                                             a prompt to complete
 *
 * A line without custom_id is called line-N. Blank lines are passed over.
 */
#ifndef TR_SERVER_BATCH_INPUT_H
#define TR_SERVER_BATCH_INPUT_H

#include "config/buf.h"
#include "config/err.h"
#include "config/hash.h"

/* Bounds of a file that a client has sent. */
enum { SRV_BATCH_FAULTS = 20, SRV_BATCH_LINES = 50000 };

struct srv_batch_input {
    int fd;
    size_t n;
    struct srv_batch_line {
        uint64_t begin; /* byte in the file */
        size_t bytes, number;
        struct tr_hash id;
    } * lines;     /* [n], owned */
    size_t *by_id; /* [n], owned: lines in the order of their ids' hashes */
};

/* What a line asks. */
struct srv_question {
    char *id; /* custom_id as a JSON string */
    char *url;
    struct tr_buf body;
};

/* What is wrong with a file that a client has sent. */
struct srv_batch_faults {
    const char *endpoint; /* the url of every line */
    size_t n;             /* of these; more are not told */
    struct {
        size_t line;
        struct tr_err err;
    } items[SRV_BATCH_FAULTS];
};

/* Errors name the file and the line; with `faults` (NULL: without) those of lines stand there, and
 * more is checked. */
TR_NODISCARD int srv_batch_input_open(struct srv_batch_input *ret, const char *path,
                                      struct srv_batch_faults *faults, struct tr_err *err);
void srv_batch_input_done(struct srv_batch_input *in);
/* The line of this custom_id; in->n = none. */
size_t srv_batch_input_find(const struct srv_batch_input *in, const char *id, size_t n);
/* Thread-safe. After success srv_question_done. */
TR_NODISCARD int srv_batch_input_read(const struct srv_batch_input *in, size_t i,
                                      struct srv_question *ret, struct tr_err *err);
void srv_question_done(struct srv_question *q);

#endif
