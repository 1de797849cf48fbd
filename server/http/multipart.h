/*
 * A body of multipart/form-data, read as it comes.
 *
 * Strict: it begins with its boundary and ends with it, every line of a part's head ends in CR LF,
 * and nothing is kept but the head of a part and as many bytes as a boundary has.
 */
#ifndef TR_SERVER_HTTP_MULTIPART_H
#define TR_SERVER_HTTP_MULTIPART_H

#include <stdbool.h>

#include "config/buf.h"
#include "config/err.h"

enum { SRV_PART_NAME = 64, SRV_PART_FILE = 255, SRV_BOUNDARY = 70 };

/* The head of a part. */
struct srv_part_head {
    char name[SRV_PART_NAME + 1];
    char file[SRV_PART_FILE + 1]; /* its file name, cut if longer */
    bool has_file;
};

struct srv_multipart {
    char border[SRV_BOUNDARY + 5]; /* CR LF -- boundary */
    size_t border_bytes;
    enum { SRV_MP_BEGIN, SRV_MP_BORDER, SRV_MP_HEAD, SRV_MP_DATA, SRV_MP_END } state;
    int n_parts;
    struct tr_buf held;
    /* A part begins; bytes of it. Negative: an error, which ends the reading. */
    int (*part)(void *arg, const struct srv_part_head *head, struct tr_err *err);
    int (*data)(void *arg, const char *bytes, size_t n, struct tr_err *err);
    void *arg;
};

/* By the request's Content-Type; TR_EINVAL: it is none of these, or has no boundary. */
TR_NODISCARD int srv_multipart_init(struct srv_multipart *m, const char *content_type,
                                    struct tr_err *err);
TR_NODISCARD int srv_multipart_take(struct srv_multipart *m, const char *bytes, size_t n,
                                    struct tr_err *err);
/* All has come: TR_EINVAL if the last boundary has not. */
TR_NODISCARD int srv_multipart_end(const struct srv_multipart *m, struct tr_err *err);
void srv_multipart_done(struct srv_multipart *m);

#endif
